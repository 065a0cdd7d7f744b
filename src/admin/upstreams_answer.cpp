#include "admin/upstreams_answer.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace tidegate::admin {

namespace {

using UpstreamsJson = nlohmann::ordered_json;

UpstreamsJson server_json(const upstream::ServerStatus& server) {
    return {{"server", server.server},      {"configured", server.configured},
            {"weight", server.weight},      {"state", to_string(server.health)},
            {"checked", server.is_checked}, {"active", server.active},
            {"requests", server.requests},  {"failures", server.failures},
            {"ejections", server.ejections}};
}

// Bytes that are not UTF-8 become U+FFFD.
std::string text_of(const UpstreamsJson& json, int indent) {
    return json.dump(indent, ' ', true, UpstreamsJson::error_handler_t::replace);
}

}  // namespace

AdminAnswer answer_to_upstreams(std::span<const upstream::UpstreamStatus> all) {
    UpstreamsJson upstreams = UpstreamsJson::array();
    for (const upstream::UpstreamStatus& one : all) {
        UpstreamsJson servers = UpstreamsJson::array();
        for (const upstream::ServerStatus& server : one.servers) {
            servers.push_back(server_json(server));
        }
        upstreams.push_back({{"name", one.upstream},
                             {"connections", one.connections},
                             {"connections_max", one.connections_max},
                             {"queued", one.queued},
                             {"servers", std::move(servers)},
                             {"unresolved", one.unresolved}});
    }
    AdminAnswer answer;
    answer.content_type = "application/json";
    answer.body = text_of({{"upstreams", std::move(upstreams)}}, 2) + "\n";
    return answer;
}

std::string upstreams_summary(std::span<const upstream::UpstreamStatus> all) {
    UpstreamsJson summary = UpstreamsJson::object();
    for (const upstream::UpstreamStatus& one : all) {
        const auto up = std::count_if(
            one.servers.begin(), one.servers.end(),
            [](const auto& server) { return server.health == upstream::ServerHealth::up; });
        summary[one.upstream] = {{"servers", one.servers.size()}, {"up", up}};
    }
    return text_of(summary, -1);
}

}  // namespace tidegate::admin

// What `size` says: an estimate as text and JSON, and the table of docs/sizing.md.
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/size.hpp"

namespace tidegate::cli {

namespace {

// `1,234,567`.
std::string grouped(double number) {
    std::string text = fmt::format("{:.0f}", std::ceil(number - 1e-6));
    for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
    return text;
}

std::string microseconds(double us) {
    return fmt::format("{:.1f} us", us);
}

std::string cores(double number) {
    return number < 0.01 ? "below 0.01" : fmt::format("{:.{}f}", number, number < 0.1 ? 2 : 1);
}

std::string bytes_text(double bytes) {
    constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
    return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 10 ? 0 : 1, kUnits[unit]);
}

std::string bits_text(double bytes) {
    double bits = bytes * 8;
    constexpr std::array<const char*, 4> kUnits{"kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    std::size_t unit = 0;
    for (bits /= 1000; bits >= 1000 && unit + 1 < kUnits.size(); ++unit) bits /= 1000;
    return fmt::format("{:.{}f} {}", bits, bits >= 10 ? 0 : 1, kUnits[unit]);
}

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
}

std::string parts_of_request(const Estimate& made) {
    std::vector<std::string> parts;
    const auto add = [&](const char* what, double us) {
        if (us > 0) parts.push_back(fmt::format("{} {:.1f}", what, us));
    };
    add(made.face == Face::proxy ? "forwarding" : "the question", made.transport_us);
    add("new connections", made.connection_us);
    add("TLS", made.tls_us);
    add("decision", made.decision_us);
    add("access log", made.log_us);
    return joined(parts);
}

void tell_policies(const Estimate& made, Doc& doc) {
    for (const PolicySize& policy : made.policies) {
        if (policy.limits == 0) {
            doc.fact("policy", policy.name, "has no limits");
            continue;
        }
        const std::string redis =
            made.redis ? fmt::format(", Redis {}", microseconds(policy.redis_us)) : "";
        doc.fact(
            "policy", policy.name,
            fmt::format("{} x {}: {}{}; Tidegate {}{}; {} an identifier",
                        counted(policy.identifiers, "identifier"), counted(policy.limits, "limit"),
                        policy.algorithms, policy.is_shadow ? ", in shadow" : "",
                        microseconds(policy.proxy_us), redis, bytes_text(policy.state_bytes)));
    }
    if (made.policies.empty()) doc.fact("policy", "none", "the route has no limits");
}

void tell_tidegate(const Estimate& made, const SizeQuestion& question, Doc& doc) {
    doc.fact("Tidegate", microseconds(made.proxy_us()) + " a request", parts_of_request(made));
    doc.fact("cores", cores(made.cores),
             fmt::format("planned for {:.0f} % of what a core can do; {} in use at that rate",
                         kPlannedShare * 100, cores(made.shown)));
    doc.fact("instances", grouped(static_cast<double>(made.instances)),
             fmt::format("of {} (at most {}); one more, if one may be away",
                         counted(made.threads, "thread"), question.threads));
    doc.fact(
        "memory", bytes_text(made.memory_bytes),
        fmt::format("of each instance{}",
                    made.memory_store_bytes > 0
                        ? fmt::format(", {} of it for states", bytes_text(made.memory_store_bytes))
                        : ""));
    doc.fact(
        "clients", grouped(made.connections),
        fmt::format("open connections ({}), {}/s of them new",
                    made.is_tls ? made.is_http2 ? "TLS, HTTP/2 offered" : "TLS" : "in the clear",
                    grouped(question.requests / question.requests_a_connection)));
    if (made.in_flight > 0) {
        doc.fact("upstream", grouped(made.in_flight),
                 fmt::format("requests in flight, of {} each", format_duration(question.response)));
    }
    doc.fact("files", grouped(made.open_files),
             "open files of each instance: LimitNOFILE, ulimit -n");
}

void tell_redis(const Estimate& made, const SizeQuestion& question, Doc& doc) {
    if (!made.redis) {
        doc.fact(
            "Redis", "none",
            made.states == 0 ? "the route has no limits" : "`store: memory` counts in process");
        return;
    }
    const RedisSize& redis = *made.redis;
    const std::string how = redis.alone.empty() ? std::string("decisions share commands")
                                                : "a command for each decision: " + redis.alone;
    const bool is_one = redis.primaries == 0;
    const bool was_one = made.store == SizeStore::redis;
    if (was_one) {
        doc.fact("Redis", microseconds(redis.us) + " a request", how);
        doc.fact(
            "one Redis", fmt::format("{:.0f} %", 100 * redis.load),
            fmt::format("of the core that executes commands; enough up to {} requests a second",
                        grouped(redis.one_serves)));
    }
    if (!is_one) {
        doc.fact("cluster", fmt::format("{} primaries", redis.primaries),
                 fmt::format("{} a request on all of them together, a command for each identifier",
                             microseconds(redis.cluster_us)));
    }
    doc.fact("Redis in use", cores(redis.shown) + (is_one ? " of a core" : " cores"),
             "at that rate, as the system shows it");
    doc.fact("Redis memory", bytes_text(redis.memory_bytes),
             fmt::format("{} identifiers of each key; set `maxmemory` to twice that",
                         grouped(question.identifiers)));
}

void tell_network(const Estimate& made, Doc& doc) {
    std::string text = "to clients";
    if (made.upstream_bytes > 0)
        text += fmt::format(", {} to upstreams", bits_text(made.upstream_bytes));
    if (made.redis_bytes > 0) text += fmt::format(", {} to Redis", bits_text(made.redis_bytes));
    doc.fact("network", bits_text(made.client_bytes), text + "; both directions together");
}

double rounded(double number) {
    return std::round(number * 1'000) / 1'000;
}

nlohmann::ordered_json policies_json(const Estimate& made) {
    auto list = nlohmann::ordered_json::array();
    for (const PolicySize& policy : made.policies) {
        list.push_back({{"name", policy.name},
                        {"identifiers", policy.identifiers},
                        {"limits", policy.limits},
                        {"algorithms", policy.algorithms},
                        {"shadow", policy.is_shadow},
                        {"keys_of_all", policy.keys_of_all},
                        {"proxy_us", rounded(policy.proxy_us)},
                        {"redis_us", rounded(policy.redis_us)},
                        {"state_bytes", std::ceil(policy.state_bytes)}});
    }
    return list;
}

nlohmann::ordered_json redis_json(const Estimate& made) {
    if (!made.redis) return nullptr;
    const RedisSize& redis = *made.redis;
    return {{"us", rounded(redis.us)},
            {"load", rounded(redis.load)},
            {"cores_in_use", rounded(redis.shown)},
            {"one_serves", std::floor(redis.one_serves)},
            {"primaries", redis.primaries},
            {"cluster_us", rounded(redis.cluster_us)},
            {"requests_max", redis.hot_requests_max > 0
                                 ? nlohmann::ordered_json(std::floor(redis.hot_requests_max))
                                 : nlohmann::ordered_json(nullptr)},
            {"alone", optional_text(redis.alone)},
            {"memory_bytes", std::ceil(redis.memory_bytes)}};
}

nlohmann::ordered_json json_of(const Estimate& made, const SizeQuestion& question) {
    auto notes = nlohmann::ordered_json::array();
    for (const SizeNote& note : made.notes) {
        notes.push_back({{"fault", note.is_fault},
                         {"about", note.what},
                         {"where", note.where},
                         {"message", note.text}});
    }
    return {{"answer", made.has_answer()},
            {"requests", question.requests},
            {"route", made.route},
            {"face", to_string(made.face)},
            {"tls", made.is_tls},
            {"http2", made.is_http2},
            {"policies", policies_json(made)},
            {"tidegate",
             {{"us", rounded(made.proxy_us())},
              {"us_transport", rounded(made.transport_us)},
              {"us_connection", rounded(made.connection_us)},
              {"us_tls", rounded(made.tls_us)},
              {"us_decision", rounded(made.decision_us)},
              {"us_log", rounded(made.log_us)},
              {"cores", rounded(made.cores)},
              {"cores_in_use", rounded(made.shown)},
              {"instances", made.instances},
              {"threads", made.threads},
              {"memory_bytes", std::ceil(made.memory_bytes)},
              {"memory_store_bytes", std::ceil(made.memory_store_bytes)},
              {"open_files", std::ceil(made.open_files)},
              {"connections", made.connections},
              {"in_flight", made.in_flight}}},
            {"redis", redis_json(made)},
            {"network_bytes",
             {{"clients", std::ceil(made.client_bytes)},
              {"upstreams", std::ceil(made.upstream_bytes)},
              {"redis", std::ceil(made.redis_bytes)}}},
            {"notes", std::move(notes)}};
}

}  // namespace

Doc doc_of(const Estimate& made, const SizeQuestion& question) {
    Doc doc;
    doc.json = json_of(made, question);
    const std::string which = !question.route.empty() ? "as asked"
                              : made.routes == 1      ? "the only one"
                                                      : fmt::format(
                                                            "the dearest of {}; --route "
                                                                 "takes another",
                                                            made.routes);
    doc.fact("requests", grouped(question.requests) + "/s", "all take this route and are admitted");
    doc.fact("route", made.route, which);
    tell_policies(made, doc);
    tell_tidegate(made, question, doc);
    tell_redis(made, question, doc);
    tell_network(made, doc);
    for (const SizeNote& note : made.notes) {
        doc.line(
            fmt::format("{}: {}: {}", note.is_fault ? "error" : "note", note.where, note.text));
    }
    doc.exit_code = made.has_answer() ? exit_code::kDone : exit_code::kRefused;
    return doc;
}

namespace {

struct TableCase {
    const char* key;
    const char* limits;
    int identifiers;
    int windows;
};

constexpr std::array kTableCases{
    TableCase{"[user]", "[1000/h]", 1, 1},
    TableCase{"[user]", "[100/s, 1000/min, 10000/h]", 1, 3},
    TableCase{"[ip, user]", "[1000/h]", 2, 1},
    TableCase{"[ip, user]", "[100/s, 1000/min, 10000/h]", 2, 3},
};
constexpr std::array kTableRates{1'000.0, 10'000.0, 100'000.0, 200'000.0, 1'000'000.0};

config::Loaded table_config(const TableCase& one) {
    return config::load_text(
        fmt::format("listen: 8080\n"
                    "log: {{access: off}}\n"
                    "identity:\n"
                    "  client_ip: {{trusted_proxies: [10.0.0.0/8]}}\n"
                    "  user: [{{header: {{name: x-user-id, from: trusted_proxies}}}}]\n"
                    "store: {{redis: {{url: 'redis://127.0.0.1:6379'}}}}\n"
                    "upstreams: {{api: {{servers: ['http://127.0.0.1:9000']}}}}\n"
                    "policies: {{all: {{key: {}, limits: {}}}}}\n"
                    "routes: [{{name: all, match: {{path: '/**'}}, upstream: api, "
                    "policies: [all]}}]\n",
                    one.key, one.limits),
        "table");
}

std::string table_row(const config::Config& config, const TableCase& one, double rate) {
    SizeQuestion question{.requests = rate};
    question.tls = false;
    const Estimate clear = *estimate_size(config, question);
    question.tls = true;
    const Estimate tls = *estimate_size(config, question);
    const RedisSize& redis = *clear.redis;
    return fmt::format(
        "| {} | {} x {} | {} | {} | {:.0f} % | {} | {} | {} x {} |\n", grouped(rate),
        one.identifiers, one.windows, cores(clear.cores), cores(tls.cores), 100 * redis.load,
        redis.primaries == 0 ? std::string("-") : std::to_string(redis.primaries),
        bytes_text(redis.memory_bytes), clear.instances, bytes_text(clear.memory_bytes));
}

}  // namespace

std::string size_table() {
    std::string text =
        "| Requests/s | Identifiers x windows | Cores | Cores, TLS | One Redis | Primaries | Redis "
        "memory | Instances |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for (const TableCase& one : kTableCases) {
        const config::Loaded loaded = table_config(one);
        for (const double rate : kTableRates) text += table_row(*loaded.config, one, rate);
    }
    return text;
}

}  // namespace tidegate::cli

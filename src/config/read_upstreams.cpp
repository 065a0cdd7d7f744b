// `upstreams`, and the servers of each.
#include <algorithm>
#include <utility>

#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kServersMax = 1'000;
constexpr std::size_t kUpstreamsMax = 10'000;
constexpr std::int64_t kConnectionsMax = 1'000'000;

// Requests to an upstream that is Tidegate itself would go round in circles.
bool is_tidegate_itself(const Value& value, const Address& server, const Config& config) {
    const std::string shown = quote(server.to_string());
    for (const Listen& listen : config.listen) {
        if (!leads_to(server, listen.address)) continue;
        value.fault(shown +
                    " is where this Tidegate listens: each request would come back to it. Write "
                    "the address of the API, or another address in `listen`");
        return true;
    }
    if (!config.admin || !leads_to(server, config.admin->address)) return false;
    value.fault(shown +
                " is the admin address of this Tidegate. Write the address of the API, or another "
                "address in `admin`");
    return true;
}

std::optional<UpstreamServer> read_url(const Value& value, const Config& config) {
    auto url = value.parsed("a URL such as `http://10.0.0.5:3000`", parse_server_url);
    if (!url) return std::nullopt;
    UpstreamServer server;
    server.address = std::move(url->address);
    server.authority = std::move(url->authority);
    server.is_tls = url->is_tls;
    server.is_http2 = url->is_h2c;
    if (!resolve_socket(value, server.address)) return std::nullopt;
    if (is_tidegate_itself(value, server.address, config)) return std::nullopt;
    return server;
}

void read_servers(const Value& value, const Config& config, Upstream& upstream) {
    constexpr ListRule kServers{
        "a list of servers: `[http://10.0.0.5:3000]`", "servers", kServersMax,
        "at least one server is needed: `servers: [http://127.0.0.1:3000]`"};
    for (const Value& item : value.one_or_more(kServers)) {
        auto server = read_server(item, config);
        if (!server) continue;
        const std::string address = server->address.to_string();
        const auto same = [&](const UpstreamServer& other) {
            return other.address.to_string() == address;
        };
        if (std::any_of(upstream.servers.begin(), upstream.servers.end(), same)) {
            item.fault(quote(address) + " is listed twice: give it a `weight` for a larger share");
            continue;
        }
        upstream.servers.push_back(std::move(*server));
    }
}

void read_connection_bounds(Section& section, Upstream& upstream) {
    section.integer("max_connections", upstream.max_connections, {1, kConnectionsMax});
    const auto idle = section.find("idle_connections");
    if (!idle) {
        upstream.idle_connections = std::min(upstream.idle_connections, upstream.max_connections);
        return;
    }
    const auto number = idle->integer({0, kConnectionsMax});
    if (!number) return;
    upstream.idle_connections = static_cast<std::size_t>(*number);
    if (upstream.idle_connections > upstream.max_connections) {
        idle->fault("must be at most max_connections, " + std::to_string(upstream.max_connections));
    }
}

void read_upstream_timeouts(const Value& value, Upstream& upstream) {
    Section section(value);
    section.duration("connect", upstream.connect_timeout, {milliseconds{1}, minutes{10}});
    section.duration("response", upstream.response_timeout, {milliseconds{1}, hours{24}});
    section.duration("stream_idle", upstream.stream_idle, {milliseconds{1}, hours{24}});
    section.duration("idle", upstream.idle_timeout, {milliseconds{1}, hours{24}});
    section.refuse_others();
}

void read_queue(const Value& value, Queue& queue) {
    constexpr std::int64_t kQueueMax = 1'000'000;
    if (value.is_off()) {
        queue.max = 0;
        return;
    }
    if (value.is_on()) return;  // as if it were not written
    Section section(value, "`on`, `off`, or a map: `{max: 128, wait: 1s}`");
    section.integer("max", queue.max, {1, kQueueMax});
    section.duration("wait", queue.wait, {milliseconds{1}, minutes{10}});
    section.refuse_others();
}

// Which server gets a request, and which servers get none.
void read_server_choice(Section& section, Config& config, Upstream& upstream) {
    if (const auto balance = section.find("balance")) read_balance(*balance, config, upstream);
    if (const auto check = section.find("health_check")) read_health_check(*check, upstream);
    if (const auto eject = section.find("eject")) read_ejection(*eject, upstream);
    if (const auto slow_start = section.find("slow_start"); slow_start && !slow_start->is_off()) {
        const auto time = slow_start->duration({milliseconds{0}, hours{1}}, true);
        upstream.slow_start = time.value_or(upstream.slow_start);
    }
}

// `tls: on` and the like: the URLs already say whether TLS is spoken.
void judge_tls_switch(const Value& value, bool is_used) {
    if (value.is_off()) {
        if (!is_used) return;
        return value.fault(
            "a server with `https://` speaks TLS: write `http://` in `servers`, and remove `tls`");
    }
    value.fault(is_used ? "a server with `https://` speaks TLS without this key: remove it, or "
                          "write a map such as `{ca: ca.pem}`"
                        : "to speak TLS to a server, write `https://` in `servers`, and remove "
                          "`tls`, a map of what else TLS needs, such as `{ca: ca.pem}`");
}

void read_tls(const Value& value, Upstream& upstream) {
    const auto& servers = upstream.servers;
    const bool is_used = std::any_of(servers.begin(), servers.end(),
                                     [](const UpstreamServer& server) { return server.is_tls; });
    if (value.is_scalar()) return judge_tls_switch(value, is_used);
    upstream.tls = read_upstream_tls(value);
    if (is_used || servers.empty()) return;
    value.fault("no server is encrypted: write `https://` in `servers`, or remove `tls`");
}

// `http`: the version for `https://` servers and Unix sockets, whose URLs do not state it.
void read_http(const Value& value, Upstream& upstream) {
    const std::optional<bool> is_http2 = read_http_version(value);
    if (!is_http2) return;
    for (UpstreamServer& server : upstream.servers) {
        const bool is_plain = !server.is_tls && !server.address.is_unix();
        if (is_plain && server.is_http2 != *is_http2) {
            const std::string address = server.address.to_string();
            return value.fault(
                *is_http2 ? "`h2` is for `https://` servers: to speak HTTP/2 without TLS to " +
                                address + ", write " + quote("h2c://" + address) + " in `servers`"
                          : quote("h2c://" + address) +
                                " is HTTP/2: remove `http`, or write `http://` in `servers`");
        }
        server.is_http2 = *is_http2;
    }
}

void read_upstream(const Value& value, Config& config, Upstream& upstream) {
    const std::vector<Fault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    Section section(value, "a map: `{servers: [http://10.0.0.5:3000]}`");
    if (const auto servers = section.need("servers", "`servers: [http://10.0.0.5:3000]`")) {
        read_servers(*servers, config, upstream);
    }
    read_server_choice(section, config, upstream);
    read_connection_bounds(section, upstream);
    if (const auto queue = section.find("queue")) read_queue(*queue, upstream.queue);
    section.duration("resolve_every", upstream.resolve_every, {seconds{1}, hours{24}});
    if (const auto timeouts = section.find("timeouts")) read_upstream_timeouts(*timeouts, upstream);
    section.integer("retries", upstream.retries, {0, 10});
    if (const auto buffer = section.find("request_buffer")) {
        upstream.request_buffer = read_held_bytes(*buffer).value_or(upstream.request_buffer);
    }
    if (const auto tls = section.find("tls")) read_tls(*tls, upstream);
    if (const auto http = section.find("http")) read_http(*http, upstream);
    section.refuse_others();
    if (faults.size() == faults_before) warn_about_balancing(section, upstream);
}

}  // namespace

std::optional<UpstreamServer> read_server(const Value& value, const Config& config) {
    if (!value.is_map()) return read_url(value, config);
    std::optional<UpstreamServer> server;
    int weight = 1;
    Section section(value);
    if (const auto url = section.need("url", "`url: http://10.0.0.5:3000`")) {
        server = read_url(*url, config);
    }
    section.integer("weight", weight, {1, 1'000});
    section.refuse_others();
    if (server) server->weight = weight;
    return server;
}

void read_upstreams(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kUpstreams{"a map of upstreams: `api: {servers: [http://10.0.0.5:3000]}`",
                                  "upstreams", kUpstreamsMax, "at least one upstream is needed"};
    for (const auto& [name, item] : value.named(kUpstreams)) {
        Upstream upstream;
        upstream.name = name;
        read_upstream(item, config, upstream);
        const auto& check = upstream.health_check;
        if (check && check->grpc) {
            judge_check_version(*Section(item).find("health_check"), upstream);
        }
        if (check && !check->path.empty() && check->host.empty()) {
            declared.checks_without_host.emplace(config.upstreams.size(),
                                                 Section(item).find("health_check")->place());
        }
        Declared::Named& entry = declared.upstreams[name];
        entry.place = item.place();
        entry.position = config.upstreams.size();
        config.upstreams.push_back(std::move(upstream));
    }
}

}  // namespace tidegate::config

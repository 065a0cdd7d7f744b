// `upstreams`: their servers, how Tidegate chooses the server of a request, and which get none.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"

namespace tidegate::config {

namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr int kStatusMin = 100;
constexpr int kStatusMax = 599;
constexpr std::int64_t kChecksMax = 100;
constexpr milliseconds kEveryMin{100};
constexpr std::int64_t kFailuresMax = 1'000;
constexpr milliseconds kEjectionMin{100};

void read_check_path(const Value& value, HealthCheck& check) {
    constexpr std::size_t kCheckPathBytesMax = 1'024;
    const auto path = value.text("a path such as `/healthz`");
    if (!path) return;
    check.path = *path;
    const auto is_sendable = [](char c) { return c > ' ' && c <= '~' && c != '#'; };
    if (is_blanked_url(*path)) {
        value.fault(std::string(kWriteTheSecret));
    } else if (path->front() != '/') {
        value.fault(quote(*path) + " does not begin with `/`: write a path such as `/healthz`");
    } else if (path->size() > kCheckPathBytesMax) {
        value.fault("longer than " + std::to_string(kCheckPathBytesMax) + " bytes");
    } else if (!std::all_of(path->begin(), path->end(), is_sendable)) {
        value.fault(quote(*path) +
                    " cannot be sent as it is: percent-encode spaces and all but ASCII, and write "
                    "no `#`");
    }
}

// A service of gRPC, or `on` for the server as a whole.
void read_check_service(const Value& value, HealthCheck& check) {
    constexpr std::size_t kServiceBytesMax = 256;
    if (value.is_off()) return;
    if (value.is_on()) {
        check.grpc.emplace();
        return;
    }
    const auto service = value.text("a service such as `api.Users`, or `on`");
    if (!service) return;
    const auto is_of_name = [](char c) {
        return is_alphanumeric(c) || c == '.' || c == '_' || c == '-' || c == '/';
    };
    if (service->size() > kServiceBytesMax) {
        value.fault("longer than " + std::to_string(kServiceBytesMax) + " bytes");
    } else if (!std::all_of(service->begin(), service->end(), is_of_name)) {
        value.fault(quote(*service) +
                    " is not a service of gRPC: write its full name, such as `api.Users`, or `on` "
                    "for the server as a whole");
    }
    check.grpc = *service;
}

// A host, perhaps with a port, as a URL would have it.
void read_check_host(const Value& value, HealthCheck& check) {
    const auto host = value.text("a host such as `api.internal`");
    if (!host) return;
    const auto url = parse_server_url("http://" + *host);
    if (host->find('/') != host->npos || !url) {
        value.fault(quote(*host) +
                    " is not a host such as `api.internal` or `api.internal:8080`: the check sends "
                    "it as `Host`");
        return;
    }
    check.host = *host;
}

std::optional<int> parse_status(std::string_view text) {
    const auto number = parse_decimal(text);
    if (!number || *number < kStatusMin || *number > kStatusMax) return std::nullopt;
    return static_cast<int>(*number);
}

std::optional<StatusRange> read_status_range(const Value& value) {
    const auto text = value.text("a status or a range such as `200-399`");
    if (!text) return std::nullopt;
    const std::string_view all = *text;
    const std::size_t dash = all.find('-');
    const auto first = parse_status(all.substr(0, dash));
    const auto last = dash == all.npos ? first : parse_status(all.substr(dash + 1));
    if (!first || !last) {
        value.fault(quote(all) +
                    " is not a status or a range within 100-599, such as `204` or "
                    "`200-399`");
        return std::nullopt;
    }
    if (*first > *last) {
        value.fault(quote(all) + " is backwards: write `" + std::to_string(*last) + "-" +
                    std::to_string(*first) + "`");
        return std::nullopt;
    }
    return StatusRange{*first, *last};
}

void read_check_status(const Value& value, HealthCheck& check) {
    constexpr ListRule kRanges{"a list of statuses and ranges: `[200-399]`", "statuses", 32,
                               "the list is empty: every server would be unhealthy"};
    check.status.clear();
    for (const Value& item : value.one_or_more(kRanges)) {
        const auto range = read_status_range(item);
        if (!range) continue;
        std::string shown = std::to_string(range->first);
        if (range->last != range->first) shown += "-" + std::to_string(range->last);
        add_once(item, quote(shown), *range, check.status);
    }
}

void read_check_timeout(Section& section, HealthCheck& check) {
    const auto timeout = section.find("timeout");
    if (!timeout) {
        check.timeout = std::min(check.timeout, check.every);
        return;
    }
    check.timeout = timeout->duration({milliseconds{1}, hours{1}}).value_or(milliseconds{1});
    if (check.timeout > check.every) {
        timeout->fault("must be at most `every`, " + format_duration(check.every) +
                       ": a check must end before the next one begins");
    }
}

// Says what to write instead of a word that is no check.
void report_check_word(const Value& value) {
    const auto text = value.text("`tcp`, or a map: `{path: /healthz}`");
    if (!text) return;
    const std::string path = text->front() == '/' ? *text : "/healthz";
    value.fault(quote(*text) + " is not a check: write " + quote("{path: " + path + "}") +
                ", or `tcp` to connect only");
}

// `50%`. Without the sign it is a fault: `0.5` could mean 50% or 0.5%.
void read_at_most(const Value& value, Ejection& eject) {
    constexpr std::int64_t kPercentMax = 100;
    const auto text = value.text("a percentage such as `50%`");
    if (!text) return;
    std::string_view number = *text;
    std::optional<std::int64_t> percent;
    if (number.ends_with('%')) {
        number.remove_suffix(1);
        percent = parse_decimal(number);
    }
    if (!percent || *percent < 1 || *percent > kPercentMax) {
        value.fault(quote(*text) + " is not a percentage from `1%` to `100%`, such as `50%`");
        return;
    }
    eject.at_most_percent = static_cast<int>(*percent);
}

const Keys<HealthCheck>& health_check_keys() {
    static const auto keys =
        Keys<HealthCheck>("`tcp`, or a map: `{path: /healthz}`")
            .own("path", kind::url(kind::type("path")), read_check_path,
                 {"what a `GET` asks for", "required without `tcp` and `grpc`",
                  "begins with `/`; 1,024 bytes"})
            .key("tcp", kind::toggle(),
                 {"`on` instead of `path`: connect, and send nothing. The word `tcp` alone is "
                  "`{tcp: on}`",
                  "`off`"})
            .key("grpc", kind::type("text"),
                 {"instead of `path`: the service that [the check asks "
                  "about](upstreams.md#checks-by-grpc), such as `api.Users`; `on` asks about the "
                  "server as a whole",
                  "`off`", "256 bytes; servers that [speak HTTP/2](#servers-over-http2)"})
            .own("host", kind::type("text"), read_check_host,
                 {"`Host` of the check, perhaps with a port",
                  "that of the server's URL; `localhost` for a Unix socket",
                  "with `path` or `grpc`"})
            .own(
                "status",
                kind::one_or_more(
                    kind::any(
                        {kind::written(R"({"type":"integer","minimum":100,"maximum":599})"),
                         kind::written(
                             R"({"type":"string","pattern":"^[1-5][0-9]{2}(-[1-5][0-9]{2})?$|\\$\\{"})")}),
                    {1, 32}),
                read_check_status,
                {"statuses of a healthy server: `204`, `200-399`, or a list", "`200-399`",
                 "100 to 599, at most 32 of them; with `path`"})
            .duration("every", &HealthCheck::every, {kEveryMin, hours{1}}, {"how often"})
            .key("timeout", kind::type("duration"),
                 {"for a whole check, connecting included", "`2s`, or `every` if that is less",
                  "1 ms to `every`"})
            .integer("unhealthy_after", &HealthCheck::unhealthy_after, {1, kChecksMax},
                     {"failed checks in a row until a server is unhealthy"})
            .integer("healthy_after", &HealthCheck::healthy_after, {1, kChecksMax},
                     {"good checks in a row until it is healthy again"});
    return keys;
}

const Keys<Ejection>& eject_keys() {
    static const auto keys =
        Keys<Ejection>("`on`, or a map: `{failures: 5, for: 10s, at_most: 50%}`")
            .integer("failures", &Ejection::failures, {1, kFailuresMax},
                     {"in a row, until the server is out"})
            .duration("for", &Ejection::duration, {kEjectionMin, minutes{5}},
                      {"how long the first time; each time in a row twice as long, to 5 min"})
            .own("at_most",
                 kind::written(R"({"type":"string","pattern":"^([1-9][0-9]?|100)%$|\\$\\{"})"),
                 read_at_most,
                 {"how many of the servers may be out at once", "`50%`", "`1%` to `100%`"});
    return keys;
}

// The key says what the check does, as in `livenessProbe` of Kubernetes: `path` and `grpc` ask,
// `tcp` connects. The word `tcp` alone is the whole check, as `memory` is of `store`.
void read_health_check(const Value& value, Upstream& upstream) {
    if (value.is_off()) return;
    HealthCheck check;
    if (value.is("tcp")) {
        upstream.health_check = std::move(check);
        return;
    }
    if (value.is_scalar()) {
        report_check_word(value);
        return;
    }
    const std::vector<ConfigFault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    Section section(value, health_check_keys());
    const auto path = section.find("path");
    const auto tcp = section.find("tcp");
    const auto grpc = section.find("grpc");
    const auto host = section.find("host");
    const auto status = section.find("status");
    const bool only_connects = tcp && tcp->toggle().value_or(false);
    if (grpc) read_check_service(*grpc, check);
    if (only_connects) {
        for (const auto& unused : {path, grpc, host, status}) {
            if (unused)
                unused->fault("not with `tcp: on`: such a check connects and sends nothing");
        }
    } else if (check.grpc) {
        for (const auto& unused : {path, status}) {
            if (unused) {
                unused->fault(
                    "not with `grpc`: such a check asks the health service of gRPC, whose answer "
                    "says whether the server serves");
            }
        }
    } else if (!path && faults.size() == faults_before) {
        value.fault(
            "the key `path` is missing: write `path: /healthz`, `grpc: on` for a server of gRPC, "
            "or `tcp: on` to connect only");
    }
    health_check_keys().read(section, check);
    read_check_timeout(section, check);
    upstream.health_check = std::move(check);
}

// Reports a check by gRPC of servers that speak HTTP/1. Once the servers are read.
void judge_check_version(const Value& value, const Upstream& upstream) {
    if (!upstream.health_check || !upstream.health_check->grpc) return;
    const auto is_http1 = [](const UpstreamServer& server) { return !server.is_http2; };
    const auto& servers = upstream.servers;
    if (std::none_of(servers.begin(), servers.end(), is_http1)) return;
    Section(value).find("grpc")->fault(
        "gRPC needs HTTP/2: write `h2c://` in `servers`, or, over TLS, `http: h2` beside "
        "`https://`");
}

// `eject` of an upstream: a switch, or a map.
void read_ejection(const Value& value, Upstream& upstream) {
    if (value.is_off()) return;
    Ejection eject;
    if (!value.is_on()) eject_keys().read(value, eject);
    upstream.eject = eject;
}

}  // namespace

// `upstreams`, the servers of each, and how Tidegate chooses the server of a request.

namespace {

using std::chrono::seconds;

constexpr std::size_t kServersMax = 1'000;
constexpr std::size_t kUpstreamsMax = 10'000;
constexpr std::int64_t kConnectionsMax = 1'000'000;
constexpr std::int64_t kQueueMax = 1'000'000;

constexpr std::string_view kRoundRobin = "round_robin";
constexpr std::string_view kLeastConnections = "least_connections";
constexpr std::string_view kHash = "{hash: ip}";

// The names of these ways in other proxies, in lower case.
std::string_view balance_of_others(std::string_view word) {
    constexpr std::pair<std::string_view, std::string_view> kWords[] = {
        {"leastconn", kLeastConnections},
        {"least_request", kLeastConnections},
        {"random", kLeastConnections},
        {"hash", kHash},
        {"ip_hash", kHash},
        {"source", kHash},
        {"ring_hash", kHash},
        {"maglev", kHash},
    };
    const auto* const found = std::find_if(std::begin(kWords), std::end(kWords),
                                           [&](const auto& row) { return row.first == word; });
    return found == std::end(kWords) ? std::string_view() : found->second;
}

void report_unknown_balance(const Value& value, const std::string& text) {
    std::string_view meant = balance_of_others(to_lower(std::string(text)));
    if (meant.empty()) meant = nearest(text, {kRoundRobin, kLeastConnections});
    value.fault("unknown value " + quote(text) +
                (meant.empty() ? "; allowed here: "
                               : "; did you mean " + quote(meant) + "? Allowed here: ") +
                one_of({kRoundRobin, kLeastConnections, "{hash: KEY}"}));
}

const Rows& balance_keys() {
    static const auto keys =
        Rows("`round_robin`, `least_connections` or a map: `{hash: ip}`")
            .key("hash", kind::type("key"),
                 {"the key: requests with the same value go to the same server, unless that server "
                  "has more than 125 % of its share of the requests in flight",
                  "required"})
            .required("`hash: ip`");
    return keys;
}

void read_balance(const Value& value, Config& config, Upstream& upstream) {
    if (value.is_scalar()) {
        const auto text = value.text(balance_keys().wanted());
        if (!text) return;
        if (*text == kLeastConnections) {
            upstream.balance = Balance::least_connections;
        } else if (*text != kRoundRobin) {
            report_unknown_balance(value, *text);
        }
        return;
    }
    Section section(value, balance_keys());
    if (const auto hash = section.need("hash")) {
        if (auto key = read_single_key(*hash, config)) {
            upstream.balance = Balance::hash;
            upstream.hash_key = std::move(*key);
        }
    }
    section.refuse_others();
}

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

void read_idle_connections(Section& section, Upstream& upstream) {
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

const Keys<Upstream>& upstream_timeouts_keys() {
    static const auto keys =
        Keys<Upstream>()
            .duration("connect", &Upstream::connect_timeout, {milliseconds{1}, minutes{10}},
                      {"to reach a server, the handshake of TLS included; [all attempts of a "
                       "request](upstreams.md#retries) together"})
            .duration("response", &Upstream::response_timeout, {milliseconds{1}, hours{24}},
                      {"to the head of the answer; a route may have its own"})
            .duration(
                "stream_idle", &Upstream::stream_idle, {milliseconds{1}, hours{24}},
                {"the longest silence inside an answer that has begun; a route may have its own"})
            .duration("idle", &Upstream::idle_timeout, {milliseconds{1}, hours{24}},
                      {"how long an unused connection is kept; also the longest that [health "
                       "checks](upstreams.md#connections-of-checks) use one connection, if less "
                       "than a minute"});
    return keys;
}

const Keys<Queue>& queue_keys() {
    static const auto keys = Keys<Queue>("`on`, `off`, or a map: `{max: 128, wait: 1s}`")
                                 .integer("max", &Queue::max, {1, kQueueMax},
                                          {"how many requests wait; one more gets 503"})
                                 .duration("wait", &Queue::wait, {milliseconds{1}, minutes{10}},
                                           {"how long a request waits, then 503"});
    return keys;
}

void read_queue(const Value& value, Upstream& upstream) {
    if (value.is_off()) {
        upstream.queue.max = 0;
    } else if (!value.is_on()) {  // `on` is as if it were not written
        queue_keys().read(value, upstream.queue);
    }
}

void read_request_buffer(const Value& value, Upstream& upstream) {
    upstream.request_buffer = read_held_bytes(value).value_or(upstream.request_buffer);
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
    upstream.tls = read_client_tls(value, upstream_tls_keys(), "api.internal");
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
    const std::vector<ConfigFault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    Section section = upstream_keys().read(value, upstream);
    if (const auto servers = section.need("servers")) read_servers(*servers, config, upstream);
    if (const auto balance = section.find("balance")) read_balance(*balance, config, upstream);
    read_idle_connections(section, upstream);
    if (const auto tls = section.find("tls")) read_tls(*tls, upstream);
    if (const auto http = section.find("http")) read_http(*http, upstream);
    if (faults.size() == faults_before) warn_about_balancing(section, upstream);
}

}  // namespace

const Keys<UpstreamServer>& server_keys() {
    static const auto keys =
        Keys<UpstreamServer>()
            .key("url", kind::type("server_url"),
                 {"`http://host:port` or `https://host:port` without a path, or `unix:/path`",
                  "required"})
            .required("`url: http://10.0.0.5:3000`")
            .integer("weight", &UpstreamServer::weight, {1, 1'000},
                     {"its share, beside the weights of the others"});
    return keys;
}

const Keys<Upstream>& upstream_keys() {
    static const auto keys =
        Keys<Upstream>("a map: `{servers: [http://10.0.0.5:3000]}`")
            .key("servers",
                 kind::one_or_more(kind::any({kind::type("server_url"), kind::map(server_keys())}),
                                   {1, kServersMax}),
                 {"servers, or `{url, weight}`: `http://`, [`https://`](#servers-over-tls) (port "
                  "443), [`h2c://`](#servers-over-http2) or `unix:/path`; [how one is "
                  "chosen](#how-a-server-is-chosen)",
                  "required", "1,000 servers; 10,000 upstreams; none where Tidegate listens"})
            .required("`servers: [http://10.0.0.5:3000]`")
            .key(
                "balance",
                kind::any({kind::fixed({"round_robin", "least_connections"}),
                           kind::map(balance_keys()), kind::type("variable")}),
                {"which server gets a request: `round_robin`, `least_connections` or `{hash: KEY}`",
                 "`round_robin`",
                 "a [key](#keys-of-policies) such as `ip`, `user\\|ip`, `header:x-tenant`"})
            .own("health_check",
                 kind::any({kind::type("off"), kind::fixed({"tcp"}), kind::map(health_check_keys()),
                            kind::type("variable")}),
                 read_health_check,
                 {"`{path, ...}` sends every server a `GET`, `{grpc, ...}` a call of gRPC, `tcp` "
                  "only connects: [health](#servers-that-get-no-requests)",
                  "`off`"})
            .own("eject", kind::any({kind::toggle(), kind::map(eject_keys())}), read_ejection,
                 {"`on`, or a map: take out a server that fails [real "
                  "requests](#servers-that-get-no-requests)",
                  "`off`"})
            .duration_or_off(
                "slow_start", &Upstream::slow_start, {milliseconds{0}, hours{1}},
                {"how long the share of a server that comes back grows to its whole", "", "to 1 h"})
            .integer("max_connections", &Upstream::max_connections, {1, kConnectionsMax},
                     {"of the process, all servers together; [over HTTP/2](#servers-over-http2) "
                      "requests in flight"})
            .key("idle_connections", kind::integer({0, kConnectionsMax}),
                 {"kept open, of all servers together; each thread has an equal share. 0: [health "
                  "checks](upstreams.md#connections-of-checks) keep none either",
                  "`64`", "0 to `max_connections`"})
            .own("queue", kind::any({kind::toggle(), kind::map(queue_keys())}), read_queue,
                 {"requests wait while all of `max_connections` are in use: `on` or `{max, wait}`; "
                  "`off`: 503 at once",
                  "`on`"})
            .duration("resolve_every", &Upstream::resolve_every, {seconds{1}, hours{24}},
                      {"how often names are looked up"})
            .own("timeouts", kind::map(upstream_timeouts_keys()),
                 [](const Value& times, Upstream& upstream) {
                     upstream_timeouts_keys().read(times, upstream);
                 },
                 {"how long Tidegate waits for the servers"})
            .integer("retries", &Upstream::retries, {0, 10},
                     {"how many more servers a request tries when one cannot be reached"})
            .own("request_buffer", kind::type("held_bytes"), read_request_buffer,
                 {"bodies of known length up to this size are [read whole](#bodies-that-are-held) "
                  "before they need a connection",
                  "`64KiB`", "1 B to 16 MiB, or `off`"})
            .key("tls", kind::off_or(kind::map(upstream_tls_keys())),
                 {"what else TLS to the servers needs"})
            .key("http", kind::word({"h2", "http1"}),
                 {"what `https://` servers and Unix sockets speak: `http1` or "
                  "[`h2`](#servers-over-http2)",
                  "`http1`; `h2c://` is always `h2`",
                  "not `h2` with `http://`, nor `http1` with `h2c://`"});
    return keys;
}

std::optional<UpstreamServer> read_server(const Value& value, const Config& config) {
    if (!value.is_map()) return read_url(value, config);
    UpstreamServer written;
    Section section = server_keys().read(value, written);
    const auto url = section.need("url");
    std::optional<UpstreamServer> server = url ? read_url(*url, config) : std::nullopt;
    if (server) server->weight = written.weight;
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

void check_hash(const Value& value, const Config& config, const Route& route) {
    if (route.upstream >= config.upstreams.size()) return;
    const Upstream& upstream = config.upstreams[route.upstream];
    const std::string name = missing_capture({&upstream.hash_key, 1}, route);
    if (name.empty()) return;
    value.fault("the upstream " + quote(upstream.name) + " chooses servers by `path:" + name +
                "`, but this route's path has no such capture: write `{" + name +
                "}` for one of its segments");
}

}  // namespace tidegate::config

// Which servers of an upstream get no requests: `health_check` and `eject`.
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
    if (path->front() != '/') {
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

}  // namespace

const Keys<HealthCheck>& health_check_keys() {
    static const auto keys =
        Keys<HealthCheck>("`tcp`, or a map: `{path: /healthz}`")
            .own("path", kind::type("path"), read_check_path,
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
    const std::vector<Fault>& faults = value.context().faults;
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

void judge_check_version(const Value& value, const Upstream& upstream) {
    if (!upstream.health_check || !upstream.health_check->grpc) return;
    const auto is_http1 = [](const UpstreamServer& server) { return !server.is_http2; };
    const auto& servers = upstream.servers;
    if (std::none_of(servers.begin(), servers.end(), is_http1)) return;
    Section(value).find("grpc")->fault(
        "gRPC needs HTTP/2: write `h2c://` in `servers`, or, over TLS, `http: h2` beside "
        "`https://`");
}

void read_ejection(const Value& value, Upstream& upstream) {
    if (value.is_off()) return;
    Ejection eject;
    if (!value.is_on()) eject_keys().read(value, eject);
    upstream.eject = eject;
}

}  // namespace tidegate::config

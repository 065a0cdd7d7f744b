// `balance` of an upstream: how Tidegate chooses the server of a request.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.hpp"
#include "base/quote.hpp"
#include "config/read_sections.hpp"
#include "config/suggest.hpp"

namespace tidegate::config {

namespace {

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

}  // namespace

void read_balance(const Value& value, Config& config, Upstream& upstream) {
    constexpr std::string_view kBalances =
        "`round_robin`, `least_connections` or a map: `{hash: ip}`";
    if (value.is_scalar()) {
        const auto text = value.text(kBalances);
        if (!text) return;
        if (*text == kLeastConnections) {
            upstream.balance = Balance::least_connections;
        } else if (*text != kRoundRobin) {
            report_unknown_balance(value, *text);
        }
        return;
    }
    Section section(value, kBalances);
    if (const auto hash = section.need("hash", "`hash: ip`")) {
        if (auto key = read_single_key(*hash, config)) {
            upstream.balance = Balance::hash;
            upstream.hash_key = std::move(*key);
        }
    }
    section.refuse_others();
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

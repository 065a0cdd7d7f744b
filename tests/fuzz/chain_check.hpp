// What must hold of a forwarding chain whatever a client wrote: shared by the targets for its two
// forms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "http/field.hpp"
#include "identity/client_ip.hpp"

namespace tidegate::fuzz {

// The input as the fields of one name: a line each.
inline std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    for (;;) {
        const auto end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        if (end == text.npos) return lines;
        text.remove_prefix(end + 1);
    }
}

struct Chain {
    http::FieldName field;
    identity::ClientIpSettings settings;

    explicit Chain(http::FieldName name) : field(name) {
        settings.trusted_proxies = {*parse_network("10.0.0.0/8"), *parse_network("fe80::/10")};
        settings.source = name == http::FieldName::forwarded
                              ? identity::ClientIpSettings::Source::forwarded
                              : identity::ClientIpSettings::Source::x_forwarded_for;
    }

    // The client that a trusted peer, 10.0.0.1, names with these lines.
    std::optional<IpAddress> client(const std::vector<std::string>& lines) const {
        http::Fields fields;
        for (const std::string& line : lines) fields.push_back({field, "", line});
        const identity::Peer peer{parse_ip("10.0.0.1"), true};
        std::vector<identity::Hop> hops;
        const auto named = client_address(peer, fields, settings, &hops);
        FUZZ_CHECK(client_address(peer, fields, settings) == named);
        check_hops(hops, named);
        return named;
    }

    // All hops but the last were trusted, and the last good one is the client.
    static void check_hops(const std::vector<identity::Hop>& hops,
                           const std::optional<IpAddress>& named) {
        using Kind = identity::Hop::Kind;
        std::optional<IpAddress> last = parse_ip("10.0.0.1");
        for (const identity::Hop& hop : hops) {
            FUZZ_CHECK(&hop == &hops.back() || hop.kind == Kind::trusted);
            if (hop.kind == Kind::trusted || hop.kind == Kind::client) last = hop.address;
        }
        FUZZ_CHECK(named == last);
    }

    // `lines` are a client's. 203.0.113.7 is the client that the first trusted proxy saw; it
    // appends `hop`, and the second proxy appends `proxy`.
    void check_prefix(const std::vector<std::string>& lines, const std::string& hop,
                      const std::string& proxy) const {
        const auto client_ip = parse_ip("203.0.113.7");
        std::vector<std::string> joined = lines;
        joined.back() += ", " + hop + "," + proxy;
        FUZZ_CHECK(client(joined) == client_ip);
        std::vector<std::string> apart = lines;
        apart.push_back(hop);
        apart.push_back(proxy);
        FUZZ_CHECK(client(apart) == client_ip);
    }

    // The chain may name any client, but it names one, in one spelling.
    void check_named(const std::vector<std::string>& lines) const {
        const auto named = client(lines);
        FUZZ_CHECK(named && !named->is_unspecified());
        FUZZ_CHECK(parse_scoped_ip(named->to_string()) == named);
    }
};

}  // namespace tidegate::fuzz

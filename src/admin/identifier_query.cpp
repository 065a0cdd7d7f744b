// Which identifiers a query means, and what of the configuration counts them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/inspect_reset_answer.hpp"
#include "ask/charge_list.hpp"
#include "ask/identifiers.hpp"
#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"

namespace tidegate::admin {

namespace {

using Kind = limit::KeyPart::Kind;
using Identifiers = Result<std::vector<std::string>, std::string>;

constexpr std::array<std::string_view, 6> kPlainKinds{"user",   "route", "constant",
                                                      "shared", "host",  "method"};
constexpr std::array<std::string_view, 8> kNamedKinds{"header", "query", "path",       "claim",
                                                      "cookie", "body",  "body_lower", "form"};
constexpr std::size_t kHashBytes = 65;  // `#` and SHA-256 in hexadecimal

// What an identifier may be written with; see identity/identifier.hpp.
bool is_safe(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c >= ' ' && c <= '~' && c != '{' && c != '}'; });
}

// Identifiers have capitals in their percent encoding.
int digit_of(char c) {
    return is_lower(c) ? -1 : hex_value(c);
}

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& all, std::string_view one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

bool is_hash(std::string_view text) {
    return text.size() == kHashBytes && text.front() == '#' &&
           text.find_first_not_of(kHexDigits, 1) == std::string_view::npos;
}

std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 &&
                            digit_of(text[i + 2]) >= 0;
        if (!escape) {
            out += text[i];
            continue;
        }
        out += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
        i += 2;
    }
    return out;
}

std::vector<std::string_view> joined_parts(std::string_view text) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t colon = text.find(':');
        if (colon == std::string_view::npos) return {};
        const auto size = parse_decimal(text.substr(0, colon));
        text.remove_prefix(colon + 1);
        if (!size || *size < 1 || static_cast<std::uint64_t>(*size) > text.size()) return {};
        parts.push_back(text.substr(0, static_cast<std::size_t>(*size)));
        text.remove_prefix(parts.back().size());
        if (text.empty()) return parts;
        if (text.front() != '+') return {};
        text.remove_prefix(1);
    }
}

namespace {

// `kind:value`, or `kind:name=value`.
std::string written(std::string_view kind, std::string_view body) {
    std::string out;
    const std::size_t equals = body.find('=');
    if (is_one_of(kNamedKinds, kind) && equals != std::string_view::npos) {
        identity::append_named_identifier(kind, body.substr(0, equals), body.substr(equals + 1),
                                          out);
    } else {
        identity::append_identifier(kind, body, out);
    }
    return out;
}

// A value in the form of the log stays; any other is taken as the value itself.
std::string canonical(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view kind = text.substr(0, colon);
    const std::string_view body = text.substr(colon + 1);
    if (is_safe(text)) {
        const std::size_t equals = body.find('=');
        const bool hashed =
            is_hash(body) || (is_one_of(kNamedKinds, kind) && equals != std::string_view::npos &&
                              is_hash(body.substr(equals + 1)));
        if (hashed || written(kind, unescaped(body)) == text) return std::string(text);
    }
    return written(kind, body);
}

bool is_same_name(Kind kind, std::string_view a, std::string_view b) {
    const bool has_case = kind != Kind::header && kind != Kind::query;
    return has_case ? a == b : http::equal_ignoring_case(a, b);
}

// The kinds whose values a request states, and a key may keep secret.
constexpr std::array kStatedKinds{Kind::header, Kind::query,      Kind::cookie,
                                  Kind::body,   Kind::body_lower, Kind::form};

std::optional<Kind> stated_kind(std::string_view kind) {
    const auto found = std::find_if(kStatedKinds.begin(), kStatedKinds.end(),
                                    [&](Kind one) { return to_string(one) == kind; });
    return found != kStatedKinds.end() ? std::optional<Kind>(*found) : std::nullopt;
}

// What is counted of the kind and name of `kind:name=value`, as a key has it; null: no key counts
// it.
const limit::KeyPart* stated_part(Kind kind, std::string_view name, const config::Config& config) {
    for (const auto& policy : config.policies) {
        for (const limit::Key& key : policy->key) {
            for (const auto& choice : key.choices) {
                for (const limit::KeyPart& part : choice) {
                    if (part.kind == kind && is_same_name(kind, part.name, name)) {
                        return &part;
                    }
                }
            }
        }
    }
    return nullptr;
}

// Makes the identifier of a value that requests state, `body` being `name=value`: its name
// as the key has it, and of a secret value the hash, as ask/identifiers.cpp makes them. Nothing if
// no key counts by it: then it is unknown whether the value may be shown.
std::optional<std::string> stated_meant(std::string_view kind, std::string_view body,
                                        const config::Config& config) {
    const std::size_t equals = body.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const limit::KeyPart* const part =
        stated_part(*stated_kind(kind), body.substr(0, equals), config);
    const std::string name(part != nullptr ? part->name : body.substr(0, equals));
    std::string value(body.substr(equals + 1));
    if (is_hash(value)) return canonical(std::string(kind) + ":" + name + "=" + value);
    if (part == nullptr) return std::nullopt;
    if (part->kind == Kind::query || part->kind == Kind::form) {
        value = ask::counted_query_value(std::move(value));
    }
    if (part->kind == Kind::body_lower) value = to_lower(std::move(value));
    if (part->kind == Kind::cookie) {
        std::string room;
        value = std::string(identity::counted_cookie_value(value, room));
    }
    std::string out;
    if (part->secret) {
        identity::append_secret_identifier(kind, name, value, out);
        return out;
    }
    return canonical(std::string(kind) + ":" + name + "=" + value);
}

bool is_stated(std::string_view kind, std::string_view body) {
    return stated_kind(kind) && !is_hash(body);
}

// Several as one, each as it is counted; nothing if it is nothing like that.
std::optional<std::string> joined_meant(std::string_view text, const config::Config& config) {
    std::vector<std::string> meant;
    for (const std::string_view part : joined_parts(text)) {
        const std::string_view kind = part.substr(0, part.find(':'));
        const std::string_view body = part.substr(std::min(kind.size() + 1, part.size()));
        if (is_stated(kind, body)) {
            auto stated = stated_meant(kind, body, config);
            if (!stated) return std::nullopt;
            meant.push_back(std::move(*stated));
        } else if (is_safe(part)) {
            meant.emplace_back(part);
        } else {
            return std::nullopt;
        }
    }
    if (meant.size() < 2) return std::nullopt;
    std::string joined;
    identity::append_joined_identifier(std::vector<std::string_view>(meant.begin(), meant.end()),
                                       joined);
    return joined;
}

// `203.0.113.7`, `203.0.113.0/24`, `2001:db8::1`, `2001:db8::/64`, `fe80::1%25eth0`, whose zone
// does not count; nothing if it is no address.
std::vector<std::string> addresses_meant(std::string_view text, const IpPrefixes& prefixes) {
    std::optional<std::int64_t> prefix;
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
        prefix = parse_decimal(text.substr(slash + 1));
        if (!prefix) return {};
        text = text.substr(0, slash);
    }
    const auto ip = parse_scoped_ip(unescaped(text));
    if (!ip || prefix > ip->bits()) return {};
    std::vector<std::string> meant;
    const auto add = [&](int bits) {
        std::string identifier;
        identity::append_ip_identifier(*ip, bits, identifier);
        if (std::find(meant.begin(), meant.end(), identifier) == meant.end()) {
            meant.push_back(std::move(identifier));
        }
    };
    if (prefix) {
        add(static_cast<int>(*prefix));
    } else {
        for (const int bits : prefixes.of(*ip)) add(bits);
    }
    return meant;
}

// In the spelling that is counted: `host:API.example.com:8080` is `host:api.example.com`.
std::string host_meant(std::string_view body) {
    const std::string host = is_hash(body) ? "" : ask::counted_host(body);
    return host.empty() ? canonical("host:" + std::string(body)) : written("host", host);
}

bool makes(const limit::KeyPart& part, std::string_view text) {
    std::string expected;
    const auto is_named = [&](std::string_view kind) {
        const std::string begin = std::string(kind) + ":";
        if (!text.starts_with(begin)) return false;
        if (is_hash(text.substr(begin.size()))) return true;
        if (part.secret) {
            identity::append_secret_identifier(kind, part.name, "", expected);
            expected.resize(expected.rfind('#'));
        } else {
            identity::append_named_identifier(kind, part.name, "", expected);
        }
        return text.starts_with(expected);
    };
    switch (part.kind) {
        case Kind::ip:
            return text.starts_with("ip:");
        case Kind::user:
            return text.starts_with("user:");
        case Kind::route:
            return text.starts_with("route:");
        case Kind::constant:
            identity::append_identifier("constant", part.name, expected);
            return text == expected;
        case Kind::header:
            return is_named("header");
        case Kind::query:
            return is_named("query");
        case Kind::capture:
            return is_named("path");
        case Kind::claim:
            return is_named("claim");
        case Kind::cookie:
            return is_named("cookie");
        case Kind::method:
            return text.starts_with("method:");
        case Kind::host:
            return text.starts_with("host:");
        case Kind::body:
        case Kind::body_lower:
        case Kind::form:
            return is_named(to_string(part.kind));
    }
    return false;
}

bool makes(const std::vector<limit::KeyPart>& choice, std::string_view identifier) {
    if (choice.size() == 1) return makes(choice.front(), identifier);
    if (is_hash(identifier)) return true;
    const auto parts = joined_parts(identifier);
    return std::equal(
        choice.begin(), choice.end(), parts.begin(), parts.end(),
        [](const limit::KeyPart& part, std::string_view text) { return makes(part, text); });
}

bool makes(const limit::Key& key, std::string_view identifier) {
    if (key.on_missing == limit::OnMissing::shared) {
        std::string shared;
        identity::append_identifier("shared", ask::key_text(key), shared);
        if (identifier == shared) return true;
    }
    return std::any_of(key.choices.begin(), key.choices.end(),
                       [&](const auto& choice) { return makes(choice, identifier); });
}

}  // namespace

Identifiers identifiers_meant(std::string_view text, const config::Config& config) {
    if (text.empty()) return std::string("No identifier is given.");
    if (text.size() > kIdentifierTextMax) return std::string("The identifier is too long.");
    const IpPrefixes& prefixes = config.client_ip.prefixes;
    if (auto alone = addresses_meant(text, prefixes); !alone.empty()) return alone;
    const std::string_view kind = text.substr(0, text.find(':'));
    const bool has_body = kind.size() + 1 < text.size();
    if (kind == "ip") {
        auto addresses = addresses_meant(has_body ? text.substr(3) : "", prefixes);
        if (!addresses.empty()) return addresses;
        return quote(text) + " is not an address such as `ip:203.0.113.7`.";
    }
    const bool is_named = is_one_of(kNamedKinds, kind);
    if (has_body && (is_named || is_one_of(kPlainKinds, kind))) {
        const std::string_view body = text.substr(kind.size() + 1);
        if (is_named && !is_hash(body) && body.find('=') == std::string_view::npos) {
            return "The value is missing: write `" + std::string(kind) + ":name=value`.";
        }
        if (kind == "host") return std::vector{host_meant(body)};
        if (kind == "method") {
            return std::vector{written(kind, ask::counted_method(body, config))};
        }
        if (!is_stated(kind, body)) return std::vector{canonical(text)};
        if (auto stated = stated_meant(kind, body, config)) return std::vector{std::move(*stated)};
        return "No policy has the key " + quote(text.substr(0, text.find('='))) + ".";
    }
    if (is_hash(text)) return std::vector{std::string(text)};
    if (auto joined = joined_meant(text, config)) return std::vector{std::move(*joined)};
    // It is not repeated: what was meant may be a secret.
    return std::string(
        "This is not an identifier: write `user:alice`, `ip:203.0.113.7`, or an identifier of the "
        "access log.");
}

std::vector<limit::ChargeItem> items_of(std::string_view identifier, const config::Config& config) {
    std::vector<limit::ChargeItem> items;
    for (const auto& policy : config.policies) {
        // A twin has the state of its policy. Below, one of the two is chosen.
        if (policy->twin_of != nullptr) continue;
        const bool counts =
            std::any_of(policy->key.begin(), policy->key.end(),
                        [&](const limit::Key& key) { return makes(key, identifier); });
        if (!counts) continue;
        const config::PolicySettings* counting = policy.get();
        if (policy->unenforced != nullptr && !ask::is_in_share(*policy, identifier)) {
            counting = policy->unenforced;
        }
        items.push_back({counting, identifier});
        for (const limit::Tier& tier : counting->tiers) {
            if (!tier.limits.empty()) items.push_back({counting, identifier, &tier});
        }
    }
    return items;
}

Result<std::vector<Meant>, std::string> all_meant(std::string_view text,
                                                  const config::Config& config) {
    if (is_descriptor(text)) return descriptors_meant(text, config);
    auto identifiers = identifiers_meant(text, config);
    if (!identifiers) return identifiers.error();
    std::vector<Meant> all;
    for (std::string& identifier : *identifiers) all.push_back({std::move(identifier)});
    return all;
}

std::vector<limit::ChargeItem> items_of(const Meant& meant, const config::Config& config) {
    if (meant.policies.empty()) return items_of(meant.identifier, config);
    std::vector<limit::ChargeItem> items;
    for (const limit::Policy* const policy : meant.policies) {
        items.push_back({policy, meant.identifier});
    }
    return items;
}

std::string_view known_tier(std::string_view identifier, const config::Config& config) {
    constexpr std::string_view kUser = "user:";
    if (!identifier.starts_with(kUser)) return {};
    const std::string user = unescaped(identifier.substr(kUser.size()));
    return identity::tier_of(std::string_view(user), config.user_tiers);
}

}  // namespace tidegate::admin

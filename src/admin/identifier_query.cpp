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

#include <fmt/format.h>

#include "admin/inspect_reset_answer.hpp"
#include "ask/charge_list.hpp"
#include "ask/identifiers.hpp"
#include "base/case_folding.hpp"
#include "base/doc.hpp"
#include "base/ip.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/value.hpp"
#include "faces/envoy_calls.hpp"
#include "http/field.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"
#include "rls/rules.hpp"

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
    const auto is_it = [&](const limit::KeyPart& part) {
        return part.kind == kind && is_same_name(kind, part.name, name);
    };
    for (const auto& policy : config.policies) {
        if (const auto* const found = limit::find_part(policy->key, is_it)) return found;
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
    if (part->kind == Kind::body_lower) value = fold_case(value);
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
    const std::string_view kind = ask::kind_name(part.kind);
    std::string expected;
    if (part.kind == Kind::constant) {
        identity::append_identifier(kind, part.name, expected);
        return text == expected;
    }
    const std::string begin = std::string(kind) + ":";
    if (!text.starts_with(begin)) return false;
    if (part.name.empty() || is_hash(text.substr(begin.size()))) return true;
    if (part.secret) {
        identity::append_secret_identifier(kind, part.name, "", expected);
        expected.resize(expected.rfind('#'));
    } else {
        identity::append_named_identifier(kind, part.name, "", expected);
    }
    return text.starts_with(expected);
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

// Which counts of Envoy's rate limit service (`rls`) a descriptor means that someone asks for.
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
using AllMeant = std::vector<Meant>;

constexpr std::string_view kDescriptor = "descriptor:";
constexpr std::string_view kPair = "pair:";
constexpr std::string_view kDomain = "domain:";
constexpr std::size_t kDescriptorTextMax = 4'096;
constexpr std::size_t kRulesNamedMax = 8;
constexpr std::size_t kRulesSearchedMax = 1'000;

constexpr const char* kHowWritten =
    "write `descriptor:DOMAIN/KEY=VALUE/KEY=VALUE`, with `%2F` for a `/`, `%25` for a `%`, and "
    "`%3D` for a `=` in a domain or key";
constexpr const char* kHashed =
    "This does not say the values of the descriptor, only a hash of them: write "
    "`descriptor:DOMAIN/KEY=VALUE`.";

constexpr const char* kNotOfLog =
    "This is no identifier of a descriptor as the access log has it: write "
    "`descriptor:DOMAIN/KEY=VALUE`.";

// What the query asks for, whatever the rules are.
struct Asked {
    std::string domain;  // empty: any
    Pairs pairs;
};

std::vector<std::string_view> pieces_of(std::string_view text) {
    std::vector<std::string_view> pieces;
    while (true) {
        const std::size_t slash = text.find('/');
        pieces.push_back(text.substr(0, slash));
        if (slash == std::string_view::npos) return pieces;
        text.remove_prefix(slash + 1);
    }
}

std::pair<std::string, std::string> pair_of(std::string_view text) {
    const std::size_t equals = text.find('=');
    const bool has_value = equals != std::string_view::npos;
    return {unescaped(text.substr(0, equals)),
            has_value ? unescaped(text.substr(equals + 1)) : std::string()};
}

// Adds a part of an identifier of the log to `asked`. Returns why it cannot, or null.
const char* add_logged(std::string_view part, Asked& asked) {
    if (part.starts_with(kDomain)) {
        asked.domain = unescaped(part.substr(kDomain.size()));
        return is_hash(asked.domain) ? kHashed : nullptr;
    }
    if (part.starts_with(kPair)) {
        // The length of the key, `:`, the key and the value: faces/rls_charge.cpp writes it.
        const std::string pair = unescaped(part.substr(kPair.size()));
        const std::size_t colon = std::min(pair.find(':'), pair.size());
        const auto size = parse_decimal(std::string_view(pair).substr(0, colon));
        if (!size || colon == pair.size() ||
            static_cast<std::uint64_t>(*size) > pair.size() - colon - 1) {
            return is_hash(pair) ? kHashed : kNotOfLog;
        }
        const std::size_t value = colon + 1 + static_cast<std::size_t>(*size);
        asked.pairs.emplace_back(pair.substr(colon + 1, value - colon - 1), pair.substr(value));
        return nullptr;
    }
    if (!part.starts_with(kDescriptor)) return kNotOfLog;
    part.remove_prefix(kDescriptor.size());
    if (is_hash(part)) return kHashed;
    asked.pairs.push_back(pair_of(part));
    return is_hash(asked.pairs.back().second) ? kHashed : nullptr;
}

Result<Asked, std::string> asked_for(std::string_view text) {
    Asked asked;
    const auto parts = joined_parts(text);
    if (!parts.empty()) {
        for (const std::string_view part : parts) {
            if (const char* fault = add_logged(part, asked)) return ErrorMessage{fault};
        }
        return asked;
    }
    const std::string_view body =
        text.starts_with(kDescriptor) ? text.substr(kDescriptor.size()) : std::string_view();
    const auto pieces = pieces_of(body);
    // As the log has it; in a domain, `=` is escaped.
    const bool is_logged = !text.starts_with(kDescriptor) || is_hash(body) ||
                           pieces.front().find('=') != std::string_view::npos;
    if (is_logged) {
        if (const char* fault = add_logged(text, asked)) return ErrorMessage{fault};
        return asked;
    }
    asked.domain = unescaped(pieces.front());
    if (asked.domain.empty()) {
        return ErrorMessage{std::string("The domain is missing: ") + kHowWritten + "."};
    }
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        asked.pairs.push_back(pair_of(pieces[i]));
        if (asked.pairs.back().first.empty()) {
            return ErrorMessage{std::string("A key is missing: ") + kHowWritten + "."};
        }
    }
    return asked;
}

std::string escaped_piece(std::string_view text, bool is_value) {
    std::string out;
    for (const char c : text) {
        if (c == '/' || c == '%' || (c == '=' && !is_value)) {
            append_percent_encoded(c, out);
        } else {
            out += c;
        }
    }
    return out;
}

std::string rule_text(const rls::Rule& rule) {
    std::string text = escaped_piece(rule.key, false);
    if (!rule.value.empty()) text += "=" + escaped_piece(rule.value, true);
    return text;
}

std::string listed(std::vector<std::string> names) {
    for (std::string& name : names) name = quote(name);
    return shown_names(names, kRulesNamedMax);
}

// ` Did you mean x? It has a, b and 3 more.`
std::string suggestion(std::string_view word, const std::vector<std::string>& known,
                       std::string_view have) {
    const std::vector<std::string_view> views(
        known.begin(),
        known.begin() + static_cast<std::ptrdiff_t>(std::min(known.size(), kRulesSearchedMax)));
    std::string_view meant = config::nearest(word, views);
    if (meant.empty()) meant = config::nearest(word.substr(0, word.find('=')), views);
    return (meant.empty() ? "" : " Did you mean " + quote(meant) + "?") + " " + std::string(have) +
           (known.empty() ? " none." : " " + listed(known) + ".");
}

std::vector<std::string> rules_of(const rls::RuleLevel& level) {
    std::vector<std::string> names;
    for (const auto& rule : level.rules()) names.push_back(rule_text(*rule));
    return names;
}

std::string no_such_domain(const std::string& domain, const rls::Domains& domains) {
    return "The files of `rls` have no domain " + quote(domain) + "." +
           suggestion(domain, domains.names(), "They have");
}

// Why `domain` has no limit for these pairs, which meet no rule, or one without limits.
std::string why_not_counted(const std::string& domain, const rls::RuleLevel& top,
                            const Pairs& pairs) {
    const std::string of = "The domain " + quote(domain);
    const rls::RuleLevel* level = &top;
    const rls::Rule* rule = nullptr;
    std::string path;
    for (const auto& [key, value] : pairs) {
        const std::string piece =
            escaped_piece(key, false) + (value.empty() ? "" : "=" + escaped_piece(value, true));
        const std::string where = path.empty() ? "" : " below " + quote(path);
        if (level == nullptr) return fmt::format("{} has no descriptors{}.", of, where);
        rule = level->find({key, value}).rule;
        if (rule == nullptr) {
            return fmt::format("{} has no descriptor for {}{}.{}", of, quote(piece), where,
                               suggestion(piece, rules_of(*level), "There it has"));
        }
        path += (path.empty() ? "" : "/") + piece;
        level = rule->below.get();
    }
    if (rule == nullptr) {
        return "The descriptor is missing: " + std::string(kHowWritten) + "." +
               suggestion("", rules_of(top), of + " has");
    }
    if (rule->is_unlimited) return of + " says that " + quote(path) + " is unlimited.";
    return of + " has no limit for " + quote(path) + " itself." +
           (level == nullptr ? "" : suggestion("", rules_of(*level), "Below it, there is"));
}

// What counts these pairs, by `domain` and by limits that calls bring with them.
void add_meant(const std::string& domain, const rls::RuleLevel& level, const config::Rls& rls,
               const Pairs& pairs, AllMeant& all) {
    const auto add = [&](std::string identifier, const limit::Policy* policy) {
        const auto same = std::find_if(
            all.begin(), all.end(), [&](const Meant& one) { return one.identifier == identifier; });
        Meant& meant = same != all.end() ? *same : all.emplace_back(Meant{std::move(identifier)});
        meant.policies.push_back(policy);
    };
    std::vector<rls::DescriptorEntry> entries;
    for (const auto& [key, value] : pairs) entries.push_back({key, value});
    std::vector<std::string_view> values;
    const rls::Rule* const rule = rls::find_rule(level, entries, values);
    if (rule != nullptr && rule->policy != nullptr) {
        add(ask::descriptor_identifier(pairs, values), rule->policy);
    }
    if (!rls.takes_overrides || pairs.empty()) return;
    values.clear();
    for (const rls::DescriptorEntry& entry : entries) values.push_back(entry.value);
    const std::string identifier = ask::override_identifier(domain, pairs, values);
    for (const limit::Policy* const policy : rls.override_policies) {
        if (policy != nullptr) add(identifier, policy);
    }
}

}  // namespace

bool is_descriptor(std::string_view text) {
    const auto begins = [](std::string_view one) {
        return one.starts_with(kDescriptor) || one.starts_with(kPair) || one.starts_with(kDomain);
    };
    const auto parts = joined_parts(text);
    return begins(parts.empty() ? text : parts.front());
}

Result<std::vector<Meant>, std::string> descriptors_meant(std::string_view text,
                                                          const config::Config& config) {
    if (text.size() > kDescriptorTextMax) return std::string("The descriptor is too long.");
    if (!config.rls) {
        return std::string("The configuration has no `rls`, so Tidegate counts no descriptors.");
    }
    const auto asked = asked_for(text);
    if (!asked) return asked.error();
    if (asked->pairs.size() > faces::kRlsEntriesMax) {
        return "A descriptor has at most " + std::to_string(faces::kRlsEntriesMax) +
               " keys, and this one has more.";
    }
    const rls::Domains& domains = config.rls->domains;
    AllMeant all;
    if (!asked->domain.empty()) {
        const rls::RuleLevel* const level = domains.find(asked->domain);
        if (level == nullptr) return no_such_domain(asked->domain, domains);
        add_meant(asked->domain, *level, *config.rls, asked->pairs, all);
        const bool has_own = !all.empty() && all.front().policies.size() == 1;
        std::string why = has_own ? "" : why_not_counted(asked->domain, *level, asked->pairs);
        if (all.empty()) return why;
        all.front().note = std::move(why);
        return all;
    }
    for (const std::string& domain : domains.names()) {
        add_meant(domain, *domains.find(domain), *config.rls, asked->pairs, all);
    }
    if (!all.empty()) return all;
    return std::string("No domain of `rls` has a limit for this descriptor: ") + kHowWritten + ".";
}

}  // namespace tidegate::admin

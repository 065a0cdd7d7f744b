#include "admin/inspect_answer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "admin/questions.hpp"
#include "ask/identifiers.hpp"
#include "ask/ruleset.hpp"
#include "base/doc.hpp"
#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/units.hpp"
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
constexpr std::array<std::string_view, 5> kNamedKinds{"header", "query", "path", "claim", "cookie"};
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

// Names of cookies have a case.
bool is_same_name(Kind kind, std::string_view a, std::string_view b) {
    return kind == Kind::cookie ? a == b : http::equal_ignoring_case(a, b);
}

Kind stated_kind(std::string_view kind) {
    if (kind == "query") return Kind::query;
    return kind == "cookie" ? Kind::cookie : Kind::header;
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

// Makes the identifier of a field, query parameter or cookie, `body` being `name=value`: its name
// as the key has it, and of a secret value the hash, as ask/identifiers.cpp makes them. Nothing if
// no key counts by it: then it is unknown whether the value may be shown.
std::optional<std::string> stated_meant(std::string_view kind, std::string_view body,
                                        const config::Config& config) {
    const std::size_t equals = body.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const limit::KeyPart* const part =
        stated_part(stated_kind(kind), body.substr(0, equals), config);
    const std::string name(part != nullptr ? part->name : body.substr(0, equals));
    std::string value(body.substr(equals + 1));
    if (is_hash(value)) return canonical(std::string(kind) + ":" + name + "=" + value);
    if (part == nullptr) return std::nullopt;
    if (part->kind == Kind::query) value = ask::counted_query_value(std::move(value));
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
    return (kind == "header" || kind == "query" || kind == "cookie") && !is_hash(body);
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
        const bool counts =
            std::any_of(policy->key.begin(), policy->key.end(),
                        [&](const limit::Key& key) { return makes(key, identifier); });
        if (!counts) continue;
        items.push_back({policy.get(), identifier});
        for (const limit::Tier& tier : policy->tiers) {
            if (!tier.limits.empty()) items.push_back({policy.get(), identifier, &tier});
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

namespace {

using Json = Doc::Json;
using store::LimitCount;

// Beyond it a moment has no four-digit year.
constexpr limit::Micros kLastMoment{253'402'300'799'999'999};

constexpr std::array<Doc::Column, 8> kLimitColumns{{{"POLICY"},
                                                    {"LIMIT"},
                                                    {"COUNTED"},
                                                    {"QUOTA"},
                                                    {"LEFT"},
                                                    {"NEXT UNIT"},
                                                    {"ALL FREE"},
                                                    {"NOW"}}};
constexpr std::size_t kQuotaColumn = 3;
constexpr std::size_t kLeftColumn = 4;
constexpr std::string_view kOneRowHolds =
    "  A request meets one row of each policy: that of its tier. `tidegate explain` shows the tier "
    "of a request.";

// Rounded up, so that clients do not come back too early.
std::string rough(limit::Micros time) {
    const auto up = [](std::int64_t number, std::int64_t unit) {
        return number / unit + (number % unit > 0 ? 1 : 0);
    };
    const std::int64_t us = time.count();
    const std::int64_t ms = up(us, 1'000);
    if (ms < 1'000) return fmt::format("{}ms", ms);
    const std::int64_t tenths = up(us, 100'000);
    if (tenths < 600) return fmt::format("{}.{}s", tenths / 10, tenths % 10);
    const std::int64_t seconds = up(us, 1'000'000);
    if (seconds < 3'600) return fmt::format("{}min {}s", seconds / 60, seconds % 60);
    const std::int64_t minutes = up(seconds, 60);
    if (minutes < 1'440) return fmt::format("{}h {}min", minutes / 60, minutes % 60);
    const std::int64_t hours = up(minutes, 60);
    return fmt::format("{}d {}h", hours / 24, hours % 24);
}

bool is_known(const std::optional<limit::Micros>& time) {
    return time && *time != limit::kNever;
}

std::string rough_or_dash(const std::optional<limit::Micros>& time) {
    return is_known(time) ? rough(*time) : "-";
}

Json optional_us(const std::optional<limit::Micros>& time) {
    return is_known(time) ? Json(time->count()) : Json(nullptr);
}

Json moments_json(const LimitCount& count) {
    Json moments = Json::array();
    for (const limit::Micros moment : count.moments) {
        if (moment <= kLastMoment) moments.push_back(format_timestamp(moment));
    }
    return moments;
}

Json counted_limit_json(const limit::Limit& limit, std::string_view name, const LimitCount& count) {
    Json json = limit_json(limit, name);
    json["counted"] = count.counted;
    if (!count.counted_all) json["counted_all"] = false;
    json["remaining"] = count.remaining;
    json["next_unit_us"] = optional_us(count.next_unit);
    json["all_free_us"] = optional_us(count.all_free);
    json["denied"] = count.denied;
    json["denied_for_us"] = optional_us(count.denied_for);
    if (count.denied_for == limit::kNever) json["never_passes"] = true;
    if (limit.traits().has_moments) json["moments"] = moments_json(count);
    return json;
}

std::string state_of(const LimitCount& count) {
    if (!count.denied) return "admits";
    if (count.denied_for == limit::kNever) return "always denies";
    return is_known(count.denied_for) ? "denies for " + rough(*count.denied_for) : "denies";
}

Doc::Row limit_row(const std::string& policy, const limit::Limit& limit, std::string_view name,
                   const LimitCount& count) {
    return {policy,
            escaped_text(name),
            fmt::format("{}{}", count.counted, count.counted_all ? "" : " or more"),
            fmt::format("{}", limit.quota),
            fmt::format("{}", count.remaining),
            rough_or_dash(count.next_unit),
            rough_or_dash(count.all_free),
            state_of(count)};
}

std::vector<std::string> moment_lines(std::string_view name, const LimitCount& count,
                                      const Json& moments) {
    if (moments.empty()) return {};
    std::vector<std::string> lines{fmt::format("  booked in {}:", escaped_text(name))};
    for (const Json& moment : moments) {
        lines.push_back(fmt::format("    {}", moment.get_ref<const std::string&>()));
    }
    const auto listed = static_cast<std::int64_t>(moments.size());
    if (count.counted > listed) {
        lines.push_back(fmt::format("    and {} more", count.counted - listed));
    }
    return lines;
}

bool counts_something(const store::ItemCounts& counts) {
    return std::any_of(counts.limits.begin(), counts.limits.end(),
                       [](const LimitCount& count) { return count.counted > 0; });
}

const limit::Tier* tier_called(const limit::Policy& policy, std::string_view name) {
    const auto found = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                    [&](const limit::Tier& tier) { return tier.name == name; });
    return name.empty() || found == policy.tiers.end() ? nullptr : &*found;
}

// Of limits that calls bring with them: each says its quota.
bool is_of_calls(const limit::Policy& policy) {
    return policy.name.starts_with(config::kRlsOverridePolicy);
}

// No call has brought a limit for it lately: the others that were meant say all there is.
bool is_idle_override(const Inspected& inspected) {
    return !inspected.items.empty() && is_of_calls(*inspected.items.front().policy) &&
           std::none_of(inspected.counts.items.begin(), inspected.counts.items.end(),
                        counts_something);
}

// Limits of tiers that may not be this user's are listed where they count something. So are a
// policy's own limits where a tier's limits are known to hold.
bool is_shown(const Inspected& inspected, std::size_t item) {
    const limit::ChargeItem& one = inspected.items[item];
    if (is_of_calls(*one.policy)) return counts_something(inspected.counts.items[item]);
    return counts_something(inspected.counts.items[item]) ||
           one.tier == tier_called(*one.policy, inspected.known_tier);
}

// Records in the state of that policy which none of its limits knows, of no tier either.
std::vector<store::OtherCount> unknown_records(const Inspected& inspected,
                                               const limit::Policy& policy) {
    std::vector<store::OtherCount> unknown;
    const auto is_known_record = [&](std::uint32_t id) {
        return std::any_of(inspected.items.begin(), inspected.items.end(), [&](const auto& item) {
            const auto limits = item.limits();
            return item.policy == &policy &&
                   std::any_of(limits.begin(), limits.end(),
                               [&](const limit::Limit& limit) { return limit.id == id; });
        });
    };
    for (std::size_t i = 0; i < inspected.items.size(); ++i) {
        const limit::ChargeItem& item = inspected.items[i];
        // The state is the same with every tier: that of the policy's own limits has all.
        if (item.policy != &policy || item.tier != nullptr) continue;
        for (const store::OtherCount& other : inspected.counts.items[i].others) {
            if (!is_known_record(other.id)) unknown.push_back(other);
        }
    }
    return unknown;
}

std::string identifier_heading(std::string_view identifier, std::string_view store) {
    return fmt::format("{}, counted {}", escaped_text(identifier),
                       store == "redis" ? "in Redis" : "in process");
}

// The policy of an item, as the table names it.
std::string row_name(const limit::ChargeItem& item) {
    std::string text = escaped_text(item.policy->name);
    if (item.tier != nullptr) {
        text += fmt::format(" ({})", escaped_text(item.tier->name));
    } else if (!item.policy->tiers.empty()) {
        text += " (no tier)";
    }
    return item.policy->shadow ? text + ", shadow" : text;
}

// What is counted for one identifier: its JSON, a table with a row for each limit, and what does
// not fit into rows.
class InspectedIdentifier {
  public:
    InspectedIdentifier(const Inspected& inspected, const ask::PolicyTexts& texts)
        : inspected_(inspected), texts_(texts) {
        for (std::size_t i = 0; i < inspected.items.size(); ++i) add_item(i);
    }

    void add_to(Doc& doc, std::string_view store) {
        std::string heading = identifier_heading(inspected_.identifier, store);
        if (!inspected_.known_tier.empty()) {
            heading += ", of tier " + escaped_text(inspected_.known_tier);
        }
        doc.line(heading);
        if (!rows_.empty()) doc.table(kLimitColumns, rows_, "  ");
        if (rows_.empty() && below_.empty()) {
            doc.line(inspected_.note.empty() ? "  no policy counts it"
                                             : "  nothing is counted: " +
                                                   std::string(inspected_.note));
        }
        for (const std::string& line : below_) doc.line(line);
        if (has_tiers_) doc.line(kOneRowHolds);
        doc.json["identifiers"].push_back({{"identifier", inspected_.identifier},
                                           {"known_tier", optional_text(inspected_.known_tier)},
                                           {"policies", std::move(policies_)}});
    }

  private:
    void add_item(std::size_t i) {
        const limit::ChargeItem& item = inspected_.items[i];
        std::vector<store::OtherCount> unknown;
        if (item.tier == nullptr) unknown = unknown_records(inspected_, *item.policy);
        const bool shown = is_shown(inspected_, i);
        if (!shown && unknown.empty()) return;
        const std::string name = row_name(item);
        Json limits = Json::array();
        for (std::size_t k = 0; shown && k < item.limits().size(); ++k) {
            limits.push_back(add_limit(name, item.limits()[k], texts_.of(item, k).name,
                                       inspected_.counts.items[i].limits[k],
                                       is_of_calls(*item.policy)));
        }
        Json records = Json::array();
        for (const store::OtherCount& other : unknown) {
            const std::string record = fmt::format("{:08x}", other.id);
            records.push_back({{"record", record}, {"all_free_us", other.all_free.count()}});
            below_.push_back(
                fmt::format("  {}: still holds {}, of a limit that was removed, for {}", name,
                            record, rough(other.all_free)));
        }
        has_tiers_ = has_tiers_ || !item.policy->tiers.empty();
        policies_.push_back(
            {{"policy", item.policy->name},
             {"tier", optional_text(item.tier != nullptr ? std::string_view(item.tier->name)
                                                         : std::string_view())},
             {"has_tiers", !item.policy->tiers.empty()},
             {"mode", item.policy->shadow ? "shadow" : "enforce"},
             {"limits", std::move(limits)},
             {"unknown", std::move(records)}});
    }

    Json add_limit(const std::string& policy, const limit::Limit& limit, std::string_view name,
                   const LimitCount& count, bool is_of_calls) {
        Json json = counted_limit_json(limit, name, count);
        rows_.push_back(limit_row(policy, limit, name, count));
        if (is_of_calls) {
            for (const char* const unknown : {"quota", "remaining", "denied", "denied_for_us"}) {
                json[unknown] = nullptr;
            }
            json.erase("never_passes");
            rows_.back()[kQuotaColumn] = "of the call";
            rows_.back()[kLeftColumn] = rows_.back().back() = "-";
        }
        if (json.contains("moments")) {
            for (std::string& line : moment_lines(name, count, json["moments"])) {
                below_.push_back(std::move(line));
            }
        }
        return json;
    }

    const Inspected& inspected_;
    const ask::PolicyTexts& texts_;
    Json policies_ = Json::array();
    std::vector<Doc::Row> rows_;
    std::vector<std::string> below_;
    bool has_tiers_ = false;
};

// The beginning of an answer about counts.
Doc counts_doc(std::string_view store) {
    Doc doc({.indent = 2, .ascii = true});
    doc.json = {{"store", store}, {"counted", false}, {"identifiers", Json::array()}};
    return doc;
}

AdminAnswer counts_answer(Doc& doc, bool counted) {
    doc.json["counted"] = counted;
    doc.exit_code = counted ? 0 : 1;
    return answer_of(doc);
}

}  // namespace

Doc::Json limit_json(const limit::Limit& limit, std::string_view name) {
    Json json = {{"name", name}, {"algorithm", limit.traits().name}, {"quota", limit.quota}};
    if (limit::has_period(limit.anchor)) json["anchor"] = to_string(limit.anchor);
    if (!limit.time_zone.empty()) json["time_zone"] = limit.time_zone;
    if (limit.has_one_duration()) json["duration_us"] = limit.duration.count();
    if (limit.burst != 0) json["burst"] = limit.burst;
    return json;
}

AdminAnswer answer_to_inspect(const std::vector<Inspected>& all, const config::Config& config,
                              std::string_view store) {
    const ask::PolicyTexts texts(config);
    Doc doc = counts_doc(store);
    bool counted = false;
    for (const Inspected& inspected : all) {
        if (all.size() > 1 && is_idle_override(inspected)) continue;
        InspectedIdentifier(inspected, texts).add_to(doc, store);
        for (const store::ItemCounts& counts : inspected.counts.items) {
            counted = counted || counts_something(counts) || !counts.others.empty();
        }
    }
    return counts_answer(doc, counted);
}

AdminAnswer answer_to_reset(const std::vector<Forgotten>& all, std::string_view store) {
    Doc doc = counts_doc(store);
    bool counted = false;
    for (const Forgotten& forgotten : all) {
        const bool is_of_call = !forgotten.items.empty() && is_of_calls(*forgotten.items[0].policy);
        const bool is_idle =
            std::find(forgotten.any.begin(), forgotten.any.end(), true) == forgotten.any.end();
        if (all.size() > 1 && is_of_call && is_idle) continue;
        doc.line(identifier_heading(forgotten.identifier, store));
        Json policies = Json::array();
        for (std::size_t i = 0; i < forgotten.items.size(); ++i) {
            const std::string& name = forgotten.items[i].policy->name;
            // Items of one policy stand side by side.
            if (!forgotten.any[i] || (!policies.empty() && policies.back() == name)) continue;
            policies.push_back(name);
            doc.line(fmt::format("  {}: forgotten", escaped_text(name)));
        }
        if (policies.empty()) {
            doc.line("  nothing was counted" +
                     (forgotten.note.empty() ? "" : ": " + std::string(forgotten.note)));
        }
        counted = counted || !policies.empty();
        doc.json["identifiers"].push_back(
            {{"identifier", forgotten.identifier}, {"forgotten", std::move(policies)}});
    }
    return counts_answer(doc, counted);
}

}  // namespace tidegate::admin

// Which counts of Envoy's rate limit service (`rls`) a descriptor means that someone asks for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/inspect_reset_answer.hpp"
#include "ask/identifiers.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/value.hpp"
#include "faces/envoy_calls.hpp"
#include "rls/rules.hpp"

namespace tidegate::admin {

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

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kRulesNamedMax); ++i) {
        text += (i == 0 ? "" : ", ") + quote(names[i]);
    }
    if (names.size() > kRulesNamedMax) {
        text += " and " + std::to_string(names.size() - kRulesNamedMax) + " more";
    }
    return text;
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

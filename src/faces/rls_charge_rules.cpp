// The charges of a call: the rule of each descriptor, its policy and its identifier.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/utf8.hpp"
#include "faces/rls_charge.hpp"
#include "identity/identifier.hpp"

namespace tidegate::faces {

namespace {

// `descriptor:remote_address=203.0.113.7`; several pairs joined.
std::string identifier_of(const std::vector<std::pair<std::string, std::string>>& entries,
                          const std::vector<std::string_view>& values) {
    constexpr std::size_t kNameBytesMax = 48;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string& key = entries[i].first;
        std::string& part = parts.emplace_back();
        if (key.size() <= kNameBytesMax && key.find('=') == std::string::npos) {
            identity::append_named_identifier("descriptor", key, values[i], part);
        } else {
            std::string pair = std::to_string(key.size());
            pair.append(":").append(key).append(without_outer_blanks(values[i]));
            identity::append_identifier("pair", pair, part);
        }
    }
    if (parts.size() == 1) return std::move(parts.front());
    const std::vector<std::string_view> views(parts.begin(), parts.end());
    std::string joined;
    identity::append_joined_identifier(views, joined);
    return joined;
}

// Envoy's own keys of the address that a request came from.
bool names_client(const RlsCall::Descriptor& descriptor) {
    return std::any_of(descriptor.entries.begin(), descriptor.entries.end(), [](const auto& entry) {
        return entry.first == "remote_address" || entry.first == "masked_remote_address";
    });
}

}  // namespace

const limit::Policy* RlsOverrides::find(const config::Config& config,
                                        const RlsCall::Override& limit) {
    const auto known = policies_.find({limit.unit, limit.requests});
    if (known != policies_.end()) return known->second.get();
    if (policies_.size() == kMax) return nullptr;
    const limit::Policy& standard =
        *config.rls->override_policies[static_cast<std::size_t>(limit.unit)];
    limit::Policy policy = standard;
    policy.limits.front().quota = limit.requests;
    auto owned = std::make_unique<const limit::Policy>(std::move(policy));
    return policies_.emplace(std::pair(limit.unit, limit.requests), std::move(owned))
        .first->second.get();
}

// Finds the rule of each descriptor, and leaves out those whose limits another one replaces.
std::string RlsCharge::list(RlsAnswer& answer) {
    const config::Rls& rls = *x_.config().rls;
    const rls::Level* const domain = rls.domains.find(call_.domain);
    std::set<std::string_view> replaced;
    std::vector<rls::Entry> entries;
    std::vector<std::string_view> values;
    for (std::size_t i = 0; i < call_.descriptors.size(); ++i) {
        const RlsCall::Descriptor& descriptor = call_.descriptors[i];
        entries.clear();
        for (const auto& [key, value] : descriptor.entries) entries.push_back({key, value});
        const rls::Rule* rule = nullptr;
        if (domain != nullptr && descriptor.limit && rls.takes_overrides) {
            values.clear();
            for (const rls::Entry& entry : entries) values.push_back(entry.value);
            const limit::Policy* const policy = overrides_->find(x_.config(), *descriptor.limit);
            if (policy == nullptr) return "there are too many different limits in descriptors";
            std::string fault = count(i, nullptr, policy, values);
            if (!fault.empty()) return fault;
            continue;
        }
        if (domain != nullptr) rule = rls::find_rule(*domain, entries, values);
        if (rule == nullptr) {
            answer.statuses[i].is_over = rls.denies_unmatched;
            answer.is_over |= rls.denies_unmatched;
            continue;
        }
        replaced.insert(rule->replaces.begin(), rule->replaces.end());
        if (rule->is_unlimited) {
            answer.statuses[i].remaining = std::numeric_limits<std::uint32_t>::max();
        } else if (rule->policy != nullptr) {
            std::string fault = count(i, rule, rule->policy, values);
            if (!fault.empty()) return fault;
        }
    }
    std::erase_if(counted_, [&](const Counted& one) {
        return one.rule != nullptr && !one.rule->name.empty() && replaced.contains(one.rule->name);
    });
    return {};
}

std::string RlsCharge::count(std::size_t position, const rls::Rule* rule,
                             const limit::Policy* policy,
                             const std::vector<std::string_view>& values) {
    const RlsCall::Descriptor& descriptor = call_.descriptors[position];
    // Here, as most calls of some configurations count nothing.
    if (identifiers_.empty()) {
        identifiers_.reserve(call_.descriptors.size());
        counted_.reserve(call_.descriptors.size());
    }
    std::string& identifier = identifiers_.emplace_back();
    if (rule == nullptr) {
        // A policy that all domains share.
        identity::append_identifier("domain", call_.domain, identifier);
        const std::string rest = identifier_of(descriptor.entries, values);
        const std::string domain = std::exchange(identifier, {});
        identity::append_joined_identifier(std::vector<std::string_view>{domain, rest}, identifier);
    } else {
        identifier = identifier_of(descriptor.entries, values);
    }
    counted_.push_back({position,
                        rule,
                        {policy, identifier, nullptr, names_client(descriptor)},
                        descriptor.hits,
                        rule != nullptr && rule->is_quota});
    return {};
}

}  // namespace tidegate::faces

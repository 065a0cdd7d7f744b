// Clients, the log and reports know a limit by one name: no two may share it.
#include <string>
#include <unordered_map>
#include <utility>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

struct Owner {
    const limit::Policy* policy;
    const limit::Limit* limit;
};

// `first` was read before `second`. One of them at least is an entry of `policies`: names of the
// others do not lead to the same name.
void report(const Owner& first, const Owner& second, const std::string& name,
            const Declared& declared, Context& context) {
    const bool second_is_declared = declared.policies.contains(second.policy->name);
    const Owner& here = second_is_declared ? second : first;
    const Owner& other = second_is_declared ? first : second;
    const auto place = declared.policies.find(here.policy->name);
    context.faults.push_back({place == declared.policies.end() ? Place{} : place->second.place,
                              "policies." + here.policy->name + ": its limit " +
                                  quote(here.limit->name) + " would be called " + quote(name) +
                                  ", as the limit " + quote(other.limit->name) + " of the policy " +
                                  quote(other.policy->name) +
                                  ": give one of the two limits or policies another name"});
}

}  // namespace

void check_limit_names(const Config& config, const Declared& declared, Context& context) {
    std::unordered_map<std::string, Owner> owners;
    for (const LimitList& list : config.limit_lists) {
        for (const limit::Limit& limit : list.limits()) {
            const Owner owner{list.policy, &limit};
            const auto [entry, is_new] =
                owners.emplace(limit::full_name(*list.policy, limit), owner);
            // The tiers of a policy have the same limits with other quotas.
            if (is_new || entry->second.policy == list.policy) continue;
            report(entry->second, owner, entry->first, declared, context);
            entry->second = owner;  // its tiers are not reported again
        }
    }
}

}  // namespace tidegate::config

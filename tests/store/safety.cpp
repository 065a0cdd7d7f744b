#include "store/safety.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "store/calendar.hpp"

namespace tidegate::test {
namespace {

using limit::Algorithm;
using limit::Limit;

// Units that passed a limit; none if they were given back.
struct Admission {
    std::size_t step;
    std::int64_t at;
    std::int64_t moment;  // of a schedule
    std::int64_t units;
    const Limit* limit;  // with the quota that admitted them
};

using Admissions = std::vector<Admission>;

// The runs of sub-buckets of which each ends with an admission.
bool windows_are_safe(const Admissions& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Limit& limit = *all[i].limit;
        const std::int64_t newest = all[i].at / limit.precision.count();
        std::int64_t units = 0;
        for (std::size_t j = 0; j <= i; ++j) {
            if (all[j].at / limit.precision.count() > newest - limit.blocks) units += all[j].units;
        }
        if (units > limit.quota) return false;
    }
    return true;
}

// Each week or month by itself.
bool periods_are_safe(const Admissions& all) {
    std::map<std::int64_t, std::int64_t> units;  // by the end of their period
    for (const Admission& one : all) {
        std::int64_t& counted = units[period_end(one.limit->anchor, one.at)];
        counted += one.units;
        if (counted > one.limit->quota) return false;
    }
    return true;
}

// A window opened by its first request: no two overlap. These times do not say when it opened where
// units were given back, nor where a denied request counts and so may have opened it.
bool opened_windows_are_safe(const Admissions& all) {
    const auto tells_little = [](const Admission& one) {
        return one.units == 0 || one.limit->count == limit::Count::all;
    };
    if (std::any_of(all.begin(), all.end(), tells_little)) return true;
    std::int64_t opened = 0;
    std::int64_t units = 0;
    for (const Admission& one : all) {
        if (units == 0 || one.at >= opened + one.limit->duration.count()) {
            opened = one.at;
            units = 0;
        }
        units += one.units;
        if (units > one.limit->quota) return false;
    }
    return true;
}

// burst + w * quota / duration in any interval of length w. For leaky_bucket these are arrivals:
// what came before the last one of an interval keeps within that, and the last waits for it.
bool bucket_is_safe(const Admissions& all) {
    __extension__ using Wide = __int128;
    const Limit& limit = *all.front().limit;
    const bool leaky = limit.algorithm == Algorithm::leaky_bucket;
    for (std::size_t i = 0; i < all.size(); ++i) {
        Wide units = 0;
        for (std::size_t j = i; j < all.size(); ++j) {
            units += all[j].units;
            const Wide over = units - (leaky ? all[j].units : 0) - limit.burst;
            const Wide length = all[j].at - all[i].at;
            if (over * limit.duration.count() > length * limit.quota) return false;
        }
    }
    return true;
}

bool schedule_is_safe(const Admissions& all) {
    const Limit& limit = *all.front().limit;
    constexpr std::int64_t kDay = 86'400'000'000;
    const std::int64_t width = limit.utc_day ? kDay : limit.duration.count();
    for (const Admission& first : all) {
        const std::int64_t begin = limit.utc_day ? first.moment / kDay * kDay : first.moment;
        std::int64_t units = 0;
        for (const Admission& one : all) {
            if (one.moment >= begin && one.moment - begin < width) units += one.units;
        }
        if (units > limit.quota) return false;
    }
    return true;
}

bool has_one_quota(const Admissions& all) {
    return std::all_of(all.begin(), all.end(), [&](const Admission& one) {
        return one.limit->quota == all.front().limit->quota &&
               one.limit->burst == all.front().limit->burst;
    });
}

bool are_safe(const Admissions& all) {
    const Limit& limit = *all.front().limit;
    switch (limit.algorithm) {
        case Algorithm::sliding_window:
        case Algorithm::sliding_log:
            return windows_are_safe(all);
        case Algorithm::fixed_window:
            if (limit.anchor == limit::Anchor::first_request) return opened_windows_are_safe(all);
            return limit.is_on_grid() ? windows_are_safe(all) : periods_are_safe(all);
        case Algorithm::gcra:
        case Algorithm::leaky_bucket:
            return !has_one_quota(all) || bucket_is_safe(all);
        case Algorithm::schedule:
            return !has_one_quota(all) || schedule_is_safe(all);
        case Algorithm::concurrency:
            break;  // see slots_are_safe()
    }
    return true;
}

using Name = std::tuple<std::string, std::string, std::uint32_t>;

template <class Visit>
void for_each_limit(const Step& step, Visit visit) {
    for (std::size_t i = 0; i < step.items.size(); ++i) {
        const limit::ChargeItem& item = step.items[i];
        for (const Limit& limit : item.limits()) {
            visit(Name{item.policy->name, std::string(item.identifier), limit.id}, limit, i);
        }
    }
}

bool concerned(const Limit& limit, const Step& step) {
    return limit.algorithm != Algorithm::schedule || !limit.forward_past || step.moment >= step.now;
}

// Whether the item took what it cost, or would have, had it cost something.
bool took(const Step& step, const limit::Verdict& verdict, std::size_t item) {
    const limit::Policy& policy = *step.items[item].policy;
    if (policy.is_candidate()) return verdict.receipt.generations[item] != 0;
    return verdict.admitted && (!policy.shadow || verdict.shadow_admitted);
}

std::map<Name, Admissions> admissions_of(const Trace& trace,
                                         const std::vector<limit::Verdict>& verdicts) {
    std::map<Name, Admissions> admissions;
    for (std::size_t i = 0; i < trace.steps().size(); ++i) {
        const Step& step = trace.steps()[i];
        if (step.kind == Step::Kind::refund && verdicts[step.of_step].admitted) {
            const Step& given = trace.steps()[step.of_step];
            const limit::Refund refund{given.charge(), nullptr, step.of, step.status};
            for_each_limit(given, [&](const Name& name, const Limit& limit, std::size_t item) {
                if (!refund.concerns(limit)) return;
                for (Admission& one : admissions[name]) {
                    if (one.step == step.of_step) one.units -= step.given_to(given, item);
                }
            });
        }
        if (step.kind != Step::Kind::charge) continue;
        for_each_limit(step, [&](const Name& name, const Limit& limit, std::size_t item) {
            const limit::Policy& policy = *step.items[item].policy;
            const std::int64_t cost = step.charge().cost_of(step.items[item]);
            // A soft policy admits what is above its quota.
            if (cost == 0 || policy.soft || !took(step, verdicts[i], item) ||
                !concerned(limit, step)) {
                return;
            }
            admissions[name].push_back(
                {i, step.now.count(), std::max(step.moment, step.now).count(), cost, &limit});
        });
    }
    return admissions;
}

// Requests in flight, as they are released and given back, or the store gives them up.
bool slots_are_safe(const Trace& trace, const std::vector<limit::Verdict>& verdicts,
                    bool slots_expire) {
    std::map<Name, std::map<limit::SlotHold, limit::Micros>> held;  // since when
    for (std::size_t i = 0; i < trace.steps().size(); ++i) {
        const Step& step = trace.steps()[i];
        bool safe = true;
        if (step.kind != Step::Kind::charge) {
            const Step& of = trace.steps()[step.of_step];
            const limit::Verdict& verdict = verdicts[step.of_step];
            // A charge that took nothing is not given back: another step may hold the slot.
            const bool gives_back = step.of == limit::Refund::Of::all && verdict.admitted;
            for_each_limit(of, [&](const Name& name, const Limit&, std::size_t item) {
                const bool taken = gives_back && step.given_to(of, item) > 0 &&
                                   (!of.items[item].policy->shadow || verdict.shadow_admitted);
                if (step.kind == Step::Kind::release || taken) held[name].erase(of.slot_hold);
            });
        } else if (verdicts[i].admitted) {
            for_each_limit(step, [&](const Name& name, const Limit& limit, std::size_t item) {
                const limit::Policy& policy = *step.items[item].policy;
                if (limit.algorithm != Algorithm::concurrency) return;
                if (step.charge().cost_of(step.items[item]) == 0) return;
                if (policy.shadow && !verdicts[i].shadow_admitted) return;
                std::erase_if(held[name], [&](const auto& one) {
                    return slots_expire && one.second + limit::kSlotTime <= step.now;
                });
                const bool taken = held[name].insert_or_assign(step.slot_hold, step.now).second;
                safe = safe && (!taken || policy.soft ||
                                static_cast<std::int64_t>(held[name].size()) <= limit.quota);
            });
        }
        if (!safe) return false;
    }
    return true;
}

}  // namespace

std::string unsafe(const Trace& trace, const std::vector<limit::Verdict>& verdicts,
                   bool slots_expire) {
    if (!slots_are_safe(trace, verdicts, slots_expire)) return "more slots are held than there are";
    if (trace.clock() != Clock::steady) return "";
    for (const auto& [name, admissions] : admissions_of(trace, verdicts)) {
        if (admissions.empty() || are_safe(admissions)) continue;
        return "too much is admitted by " + admissions.front().limit->name + " for " +
               std::get<1>(name);
    }
    return "";
}

}  // namespace tidegate::test

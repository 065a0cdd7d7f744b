// The script's answer as verdicts: it tells how everything stood, and what clients are told follows
// from that by the same functions as in process.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "limit/concurrency.hpp"
#include "limit/gcra.hpp"
#include "limit/schedule.hpp"
#include "limit/window.hpp"
#include "store/charge_script.hpp"
#include "store/reply_reader.hpp"
#include "store/schedule_reply.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;
using limit::Flow;
using limit::kNever;
using limit::Limit;
using limit::LimitVerdict;
using limit::Micros;

// How one limit stood before the first request took anything: units and when the next is free, or
// what else there is; see lua/charge.lua.
struct Stood {
    std::int64_t first = 0;
    std::int64_t second = 0;
};

// What has been read of a reply to requests of the same items.
struct Answer {
    struct Decided {
        bool admitted = false;
        bool shadow_admitted = false;
        std::int64_t windows_admit_at = 0;
    };
    Micros now{0};
    std::vector<Decided> decided;
    std::vector<Stood> stood;  // items, limits
};

// One a thread, so that a decision allocates nothing once there was one as large.
Answer& answer_of_thread() {
    thread_local Answer answer;
    return answer;
}

bool read_answer(ReplyReader& reader, std::span<const limit::Charge> charges,
                 std::vector<std::uint64_t>& generations, Answer& answer) {
    answer.decided.clear();
    answer.stood.clear();
    generations.clear();
    answer.now = Micros{reader.number()};
    for (std::size_t i = 0; i < charges.size(); ++i) {
        const std::uint8_t admitted = reader.byte();
        if (admitted > 3) return false;
        answer.decided.push_back({(admitted & 1) != 0, (admitted & 2) != 0, reader.number()});
    }
    for (const ChargeItem& item : charges[0].items) {
        generations.push_back(static_cast<std::uint64_t>(reader.number()));
        for (std::size_t i = 0; i < item.limits().size(); ++i) {
            const std::int64_t first = reader.number();
            answer.stood.push_back({first, reader.number()});
        }
    }
    return reader.ok() && answer.now >= Micros{0} && answer.now <= limit::kNowMax;
}

// A limit, looked at for one request.
struct Look {
    const Limit& limit;
    Micros now;
    std::int64_t cost;
    Micros moment;        // that a schedule is asked about
    std::int64_t taken;   // 0 when its group denied
    bool counted_denial;  // what stands is after this very denial
};

struct Finding {
    LimitVerdict told;
    bool passes_now = true;  // as it stands; with `count: all` a denial may have changed that
    Micros retry{0};         // where it does not, and the windows' own time does not say
    Micros wait{0};          // in a leaky bucket's line
};

Finding find_in_window(const Look& look, const Stood& stood, Micros windows_admit_at) {
    limit::Standing standing;
    standing.units = stood.first;
    standing.next_free = Micros{stood.second};
    standing.at = look.now;
    // Where nothing counts the script tells when the newest sub-bucket ends: time never runs back.
    if (standing.units == 0) {
        standing.at = std::max(look.now, limit::begin_for(look.limit, standing.next_free));
    }
    Finding finding;
    finding.told = limit::told(look.limit, standing, look.now, look.limit.quota, look.taken);
    finding.passes_now = standing.units + look.cost <= look.limit.quota;
    finding.told.denied =
        look.counted_denial ? standing.units > look.limit.quota : !finding.passes_now;
    finding.retry = look.cost > look.limit.quota ? kNever : windows_admit_at - look.now;
    return finding;
}

Finding find_in_bucket(const Look& look, const limit::Bucket& bucket) {
    const Flow flow(look.limit);
    const limit::ExactTime backlog = limit::backlog_at(bucket, flow, look.now);
    Finding finding;
    finding.told = limit::told(flow, backlog, look.taken);
    finding.passes_now = limit::passes(flow, backlog, look.cost);
    finding.told.denied =
        look.counted_denial ? !limit::passes(flow, backlog, 0) : !finding.passes_now;
    if (!finding.passes_now) finding.retry = limit::retry_after(flow, backlog, look.cost);
    if (flow.leaky && look.taken > 0) finding.wait = limit::wait_of(backlog);
    return finding;
}

Finding find_in_schedule(const Look& look, const Stood& stood) {
    Finding finding;
    if (!limit::concerns_moment(look.limit, look.moment, look.now)) {
        finding.told = limit::told_of_schedule(0, look.limit.quota, 0);
        return finding;
    }
    finding.told = limit::told_of_schedule(stood.first, look.limit.quota, look.taken);
    finding.passes_now = stood.first + look.cost <= look.limit.quota;
    finding.told.denied = !finding.passes_now;
    finding.retry = kNever;
    return finding;
}

Finding find_in_slots(const Look& look, const Stood& stood) {
    const limit::Slots slots{stood.first, stood.second != 0};
    Finding finding;
    finding.told = limit::told(slots, look.limit.quota, look.taken > 0);
    finding.passes_now = limit::passes(slots, look.limit.quota, look.cost);
    finding.told.denied = !finding.passes_now;
    finding.retry = limit::retry_of_slot(look.limit.quota, look.cost);
    return finding;
}

limit::Bucket bucket_of(const Limit& limit, const Stood& stood) {
    limit::Bucket bucket;
    bucket.parts_of = static_cast<std::uint32_t>(limit.quota);
    bucket.parts = stood.first;
    bucket.tat_us = stood.second;
    return bucket;
}

bool is_possible(const Limit& limit, const Stood& stood) {
    if (limit.is_bucket())
        return stood.first >= 0 && stood.first < limit.quota && stood.second >= 0;
    return stood.first >= 0 && stood.first <= limit::kQuotaMax && stood.second >= 0;
}

Finding find(const Look& look, const Stood& stood, Micros windows_admit_at) {
    switch (look.limit.state()) {
        case limit::StateKind::bucket:
            return find_in_bucket(look, bucket_of(look.limit, stood));
        case limit::StateKind::moments:
            return find_in_schedule(look, stood);
        case limit::StateKind::slots:
            return find_in_slots(look, stood);
        default:
            return find_in_window(look, stood, windows_admit_at);
    }
}

// The verdict on one request; false if the reply contradicts itself.
bool tell(const limit::Charge& charge, const Answer& answer, const Answer::Decided& decided,
          limit::Verdict& verdict) {
    verdict.admitted = decided.admitted;
    verdict.shadow_admitted = decided.shadow_admitted;
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    verdict.limits.clear();
    bool any_denied = false;
    std::size_t position = 0;
    for (const ChargeItem& item : charge.items) {
        const bool shadow = item.policy->shadow;
        const bool granted = decided.admitted && (!shadow || decided.shadow_admitted);
        for (const Limit& limit : item.limits()) {
            const Stood& stood = answer.stood[position++];
            if (!is_possible(limit, stood)) return false;
            const bool counted = limit.count == limit::Count::all && !granted && charge.cost > 0;
            const Look look{
                limit, answer.now, charge.cost, charge.moment, granted ? charge.cost : 0, counted};
            const Finding finding = find(look, stood, Micros{decided.windows_admit_at});
            verdict.limits.push_back(finding.told);
            if (shadow) continue;
            verdict.wait = std::max(verdict.wait, finding.wait);
            any_denied = any_denied || finding.told.denied;
            if (!decided.admitted && !finding.passes_now) {
                verdict.retry_after = std::max(verdict.retry_after, finding.retry);
            }
        }
    }
    // Nobody is refused without a limit that refuses, nor told to come back before now.
    return decided.admitted != any_denied && verdict.retry_after >= Micros{0} &&
           (decided.admitted || verdict.retry_after > Micros{0});
}

// The standing once a request is admitted, for the next one in the same command.
void take(const limit::Charge& charge, Answer& answer) {
    std::size_t position = 0;
    for (const ChargeItem& item : charge.items) {
        for (const Limit& limit : item.limits()) {
            Stood& stood = answer.stood[position++];
            if (charge.cost == 0) continue;
            if (limit.is_bucket()) {
                limit::Bucket bucket = bucket_of(limit, stood);
                limit::take(bucket, Flow(limit), answer.now, charge.cost);
                stood = {bucket.parts, bucket.tat_us};
                continue;
            }
            if (stood.first == 0) {
                limit::Standing nothing;
                nothing.at = answer.now;
                stood.second = answer.now.count() +
                               limit::told(limit, nothing, answer.now, limit.quota, charge.cost)
                                   .next_unit.count();
            }
            stood.first += charge.cost;
        }
    }
}

// The script tells of the schedules in the order it looks at them: limits of a run, then items.
std::vector<const Limit*> schedules_asked(const limit::Charge& charge, Micros now) {
    std::vector<const Limit*> schedules;
    for (std::size_t begin = 0; begin < charge.items.size();) {
        const ChargeItem& first = charge.items[begin];
        std::size_t end = begin;
        while (end < charge.items.size() && charge.items[end].policy == first.policy &&
               charge.items[end].tier == first.tier) {
            ++end;
        }
        for (const Limit& limit : first.limits()) {
            if (!limit.is_schedule() || first.policy->shadow) continue;
            if (!limit::concerns_moment(limit, charge.moment, now)) continue;
            schedules.insert(schedules.end(), end - begin, &limit);
        }
        begin = end;
    }
    return schedules;
}

// The first moment that all schedules would accept; false if this is no telling of schedules.
bool read_schedules(ReplyReader& reader, const limit::Charge& charge, Micros now,
                    Micros& earliest) {
    struct Schedule {
        const Limit* limit;
        ScheduleReply told;
    };
    std::vector<Schedule> schedules;
    bool all_told = true;
    Micros moment{0};
    for (const Limit* limit : schedules_asked(charge, now)) {
        ScheduleReply& told = schedules.emplace_back(Schedule{limit, {}}).told;
        if (!read_moments(reader, told)) return false;
        all_told = all_told && told.are_all;
        moment = std::max(moment, told.asked_for);
    }
    if (!reader.ok() || !all_told || charge.cost == 0) return reader.ok();
    for (Micros before{-1}; before != moment && moment != kNever;) {
        before = moment;
        for (const Schedule& schedule : schedules) {
            if (moment == kNever) break;
            moment = limit::earliest_fit(schedule.told.moments, *schedule.limit,
                                         schedule.limit->quota, moment, charge.cost);
        }
    }
    earliest = moment == kNever ? Micros{0} : moment;
    return true;
}

// Of what the script answers to a charge of windows, alone or among others.
std::size_t reply_size(const limit::Charge& charge) {
    std::size_t size = 8 + 1 + 8;
    for (const ChargeItem& item : charge.items) size += 8 + 16 * item.limits().size();
    return size;
}

void forget_what_took_nothing(const limit::Charge& charge, const Answer::Decided& decided,
                              limit::Receipt& receipt) {
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const bool shadow = charge.items[i].policy->shadow;
        const bool granted = decided.admitted && (!shadow || decided.shadow_admitted);
        if (!granted || charge.cost == 0) receipt.generations[i] = 0;
    }
}

}  // namespace

bool read_charge_reply(std::string_view reply, std::span<const limit::Charge> charges,
                       std::span<limit::Verdict* const> verdicts) {
    ReplyReader reader(reply);
    Answer& answer = answer_of_thread();
    limit::Receipt& receipt = verdicts[0]->receipt;
    if (!read_answer(reader, charges, receipt.generations, answer)) return false;
    receipt.at = answer.now;
    forget_what_took_nothing(charges[0], answer.decided[0], receipt);
    for (std::size_t i = 0; i < charges.size(); ++i) {
        if (!tell(charges[i], answer, answer.decided[i], *verdicts[i])) return false;
        if (charges.size() > 1 && answer.decided[i].admitted) take(charges[i], answer);
    }
    if (!reader.at_end() &&
        !read_schedules(reader, charges[0], answer.now, verdicts[0]->earliest)) {
        return false;
    }
    return reader.at_end();
}

bool read_mixed_reply(std::string_view reply, std::span<const limit::Charge> charges,
                      std::span<limit::Verdict* const> verdicts, std::vector<Mixed>& answers) {
    constexpr char kAskAlone = 4;
    constexpr std::size_t kAskAloneBytes = 9;
    const std::size_t whole = reply_size(charges[0]);
    answers.clear();
    for (std::size_t i = 0; i < charges.size(); ++i) {
        if (reply.size() < kAskAloneBytes) return false;
        const bool alone = reply[kAskAloneBytes - 1] == kAskAlone;
        const std::size_t size = alone ? kAskAloneBytes : whole;
        if (reply.size() < size) return false;
        const bool understood =
            !alone && read_charge_reply(reply.substr(0, size), {&charges[i], 1}, {&verdicts[i], 1});
        answers.push_back(understood ? Mixed::decided
                          : alone    ? Mixed::ask_alone
                                     : Mixed::unreadable);
        reply.remove_prefix(size);
    }
    return reply.empty();
}

}  // namespace tidegate::store

// Reads the reply of the charge script into verdicts. The reply says how every limit stood; what
// clients see follows from that by the same functions as in process.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "limit/schedule.hpp"
#include "store/charge_reply_limit.hpp"
#include "store/charge_script.hpp"
#include "store/reply_reader.hpp"
#include "store/schedule_reply.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;
using limit::kNever;
using limit::Limit;
using limit::Micros;

// What has been read of a reply to requests of the same items.
struct Answer {
    struct Decided {
        bool admitted = false;
        bool shadow_admitted = false;
        std::int64_t windows_admit_at = 0;
    };
    Micros now{0};
    std::vector<Decided> decided;
    std::vector<LimitNumbers> numbers;  // items, limits
};

// One a thread, so that a decision allocates nothing once there was one as large.
Answer& answer_of_thread() {
    thread_local Answer answer;
    return answer;
}

bool read_answer(ReplyReader& reader, std::span<const limit::Charge> charges,
                 std::vector<std::uint64_t>& generations, Answer& answer) {
    answer.decided.clear();
    answer.numbers.clear();
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
            answer.numbers.push_back({first, reader.number()});
        }
    }
    return reader.ok() && answer.now >= Micros{0} && answer.now <= limit::kNowMax;
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
            const LimitNumbers& numbers = answer.numbers[position++];
            if (!are_possible(numbers, limit)) return false;
            const bool counted = limit.count == limit::Count::all && !granted && charge.cost > 0;
            const LimitAnswer one =
                answer_of({limit, answer.now, charge.cost, charge.moment, granted ? charge.cost : 0,
                           counted, Micros{decided.windows_admit_at}},
                          numbers);
            verdict.limits.push_back(one.verdict);
            if (shadow) continue;
            verdict.wait = std::max(verdict.wait, one.wait);
            any_denied = any_denied || one.verdict.denied;
            if (!decided.admitted && !one.passes_now) {
                verdict.retry_after = std::max(verdict.retry_after, one.retry);
            }
        }
    }
    // A denial has a limit that denies, and a time to come back that is not past.
    return decided.admitted != any_denied && verdict.retry_after >= Micros{0} &&
           (decided.admitted || verdict.retry_after > Micros{0});
}

// The numbers once a request is admitted, for the next one in the same command.
void take(const limit::Charge& charge, Answer& answer) {
    if (charge.cost == 0) return;
    std::size_t position = 0;
    for (const ChargeItem& item : charge.items) {
        for (const Limit& limit : item.limits()) {
            take_units(limit, answer.now, charge.cost, answer.numbers[position++]);
        }
    }
}

// The script lists the schedules in the order in which it looks at them: limits of a run, then
// items.
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

// The first moment that all schedules would accept; false if the reply has none.
bool read_schedules(ReplyReader& reader, const limit::Charge& charge, Micros now,
                    Micros& earliest) {
    struct Schedule {
        const Limit* limit;
        ScheduleReply reply;
    };
    std::vector<Schedule> schedules;
    bool have_all = true;
    Micros moment{0};
    for (const Limit* limit : schedules_asked(charge, now)) {
        ScheduleReply& reply = schedules.emplace_back(Schedule{limit, {}}).reply;
        if (!read_moments(reader, reply)) return false;
        have_all = have_all && reply.are_all;
        moment = std::max(moment, reply.asked_for);
    }
    if (!reader.ok() || !have_all || charge.cost == 0) return reader.ok();
    for (Micros before{-1}; before != moment && moment != kNever;) {
        before = moment;
        for (const Schedule& schedule : schedules) {
            if (moment == kNever) break;
            moment = limit::earliest_fit(schedule.reply.moments, *schedule.limit,
                                         schedule.limit->quota, moment, charge.cost);
        }
    }
    earliest = moment == kNever ? Micros{0} : moment;
    return true;
}

// The reply to a charge of windows, alone or among others, begins with this.
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

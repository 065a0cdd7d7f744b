// The verbs of the algorithms: what each class of kinds.hpp can do, and what the verbs take and
// give. An object of the class counts one limit for one identifier in process. Its static members
// speak with the table of the same verbs in its file of lua/, which counts in Redis. Both decide by
// the same rules. Pure.
//
// In process; `standing` is always what look() has said of this very object:
//   Standing     how the limit stands for what is asked
//   look         says so; touches nothing
//   passes       whether the limit admits
//   retry        for how long it does not, exactly; kNever. Requires that it does not
//   verdict_of   what a client sees once `taken` units are taken
//   reserve      allocates whatever take() needs
//   take         takes the cost; counts that would not fit saturate
//   give_back    returns what the charge took at `at`, if that can be told from what came later
//   count        how the limit stands, for people, as a request of cost 1 meets it
//   ends_us      nothing is held from then on, by the steady clock; for counts that follow the wall
//                clock, as the clocks differ at `now`
//   save, load   write what is counted, and read that into an object that counts nothing
//   weight       how much is held, in microseconds: the share of the quota, at most all of it,
//                times the duration
//
// With Redis, all static:
//   pack_terms      writes two numbers of the limit, beside its quota
//   append_request  16 bytes of a request, if the row of the algorithm says so
//   append_refund   three numbers that say what a refund gives back
//   are_possible    whether charge.lua can have answered these two numbers of the limit
//   answer          what they mean for a request
//   take_units      what charge.lua would answer the next request in the same command
//   is_possible     whether inspect.lua can have answered these four numbers
//   count_of        what they mean, for people
//   Unreported      what this process admitted while Redis was away, as report.lua takes it: see
//                   NeverReported
// CommonVerbs has what most classes say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "limit/bytes.hpp"
#include "limit/charge.hpp"
#include "limit/limit.hpp"

namespace tidegate::limit {

// A charge, when it was made, among how many processes the quotas are divided, and for whom.
struct Asked {
    const Charge& charge;
    Now now;
    std::int64_t divisor = 1;
    bool stands_in = false;           // for a store whose data is not known here
    std::int64_t cost = charge.cost;  // of the item that is asked about

    std::int64_t share(const Limit& limit) const {
        return divisor == 1 ? limit.quota : limit.quota / divisor;
    }
};

// How a limit stood before the first request took anything, as charge.lua packs it: units and when
// the next is free, or what else the algorithm has.
struct StateNumbers {
    std::int64_t first = 0;
    std::int64_t second = 0;
};

// What inspect.lua says of a limit.
using InspectedNumbers = std::array<std::int64_t, 4>;

// A request that was decided in Redis, as one limit looks at it.
struct ScriptQuestion {
    const Limit& limit;
    Micros now;
    std::int64_t cost;
    Micros moment;            // that a schedule is asked about
    std::int64_t taken;       // 0 when its group denied
    bool counted_denial;      // the numbers are after this very denial
    Micros windows_admit_at;  // when all windows would admit it
};

struct ScriptAnswer {
    LimitVerdict verdict;
    bool passes_now = true;  // by the numbers; with `count: all` a denial may have changed that
    Micros retry{0};         // where it does not pass
    Micros wait{0};          // in a leaky bucket's line
};

// Units that a process admitted while Redis was away; of an algorithm that reports none.
// `wall_ahead`: by so much the wall clock was ahead of the steady one.
struct NeverReported {
    void take(const Limit&, std::int64_t, const Now&) {}
    void give_back(const Limit&, std::int64_t, Micros, const Now&) {}
    void add_later(const Limit&, const NeverReported&) {}
    // From then on it makes no difference; by the steady clock.
    static Micros ends(const Limit&, Micros) { return Micros{0}; }
    static std::int64_t units() { return 0; }
    // The portions that it consists of, as a measure of its room.
    static std::size_t portions() { return 0; }
    // As report.lua reads it: the number of portions, and each of them.
    static void append_report(const Limit&, const Now&, std::string& out) {
        append_packed(std::uint16_t{0}, out);
    }
};

// The share of the quota that `units` are, at most all of it, times the duration; in microseconds.
inline double weight_of(std::int64_t units, std::int64_t quota, const Limit& limit) {
    const auto duration = static_cast<double>(limit.duration.count());
    if (units >= quota) return quota > 0 ? duration : 0;
    return static_cast<double>(units) / static_cast<double>(quota) * duration;
}

struct CommonVerbs {
    using Unreported = NeverReported;

    // How long an admitted request is held.
    template <class Standing>
    static Micros wait(const Limit&, const Standing&) {
        return Micros{0};
    }

    // The moment that the request is about, for those whose row says `has_moments`; none where it
    // does not concern the limit.
    template <class Standing>
    static std::optional<Micros> moment(const Standing&) {
        return std::nullopt;
    }
    // The first moment from `from` on that passes; kNever.
    static Micros earliest(const Limit&, const Asked&, Micros from) { return from; }

    // Requests in flight may hold something, as the row says by `has_slots`: it stays when counts
    // are reset.
    static constexpr bool kStays = false;
    // Whether one holds something now: then the state must not be forgotten.
    static bool is_held() { return false; }
    // The request has ended: what it holds is given up at `until`.
    static void release(const SlotHold&, Micros) {}

    static void append_request(const Limit&, const Charge&, std::string&) {}
    static void take_units(const Limit&, Micros, std::int64_t cost, StateNumbers& numbers) {
        numbers.first += cost;
    }
    // Changes `limit` so that a refund of `cost` gives back what was taken when its quota was
    // `quota`.
    static void adapt_to_refund(Limit&, std::int64_t, std::int64_t) {}
};

}  // namespace tidegate::limit

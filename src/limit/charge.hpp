// What is asked of a store and what it answers.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "limit/limit.hpp"

namespace tidegate::limit {

// One identifier under one policy: one state in the store.
struct ChargeItem {
    const Policy* policy;         // never null
    std::string_view identifier;  // canonical and safe to print: `ip:203.0.113.7`, `user:alice`
    // The policy's tier that holds; null: its own limits hold. The engine asks for no tier without
    // limits.
    const Tier* tier = nullptr;
    // The identifier is one client's: of its address, its user or its credential. Where several
    // servers decide, these go first, so that a client over limits of its own takes nothing of
    // those that it shares with others.
    bool of_client = false;
    // What the request takes of this item, >= 0; kOfCharge: the cost of the charge. Items of one
    // policy and tier that are next to each other have the same.
    static constexpr std::int64_t kOfCharge = -1;
    std::int64_t own_cost = kOfCharge;

    std::span<const Limit> limits() const {
        return tier != nullptr ? tier->limits : policy->limits;
    }
};

// Names a slot that is held, in all the world: who holds it, and for which request.
struct SlotHold {
    std::uint64_t holder = 0;
    std::uint64_t request = 0;

    auto operator<=>(const SlotHold&) const = default;
};

// "May this request take `cost` units from every limit of every item?" All or none; those of
// shadow policies are a group of their own, taken only if the request is admitted and the group
// admits itself. Each candidate is a group, too: it takes if it admits and all enforced policies
// but the one that it would replace do. So a request that is denied may take from candidates. The
// items of a candidate are next to each other, behind those of the policy that it would replace,
// and have one tier and one cost.
// No two items name the same policy and identifier.
struct Charge {
    std::span<const ChargeItem> items;
    std::int64_t cost = 1;  // >= 0; an item that costs 0 is asked without taking
    SlotHold slot_hold{};   // for limits of concurrency
    Micros moment{0};       // for limits of schedule: when it is meant for, since the epoch

    std::int64_t cost_of(const ChargeItem& item) const {
        return item.own_cost == ChargeItem::kOfCharge ? cost : item.own_cost;
    }
    bool has_own_costs() const {
        return std::any_of(items.begin(), items.end(), [](const ChargeItem& item) {
            return item.own_cost != ChargeItem::kOfCharge;
        });
    }
    // False: it asks without taking.
    bool takes() const {
        return std::any_of(items.begin(), items.end(),
                           [&](const ChargeItem& item) { return cost_of(item) > 0; });
    }
};

inline constexpr Micros kNever = Micros::max();

struct LimitVerdict {
    std::int64_t remaining = 0;  // units left after this request, >= 0
    // Until the next unit is free; 0 when nothing is taken, kNever where that moment is not known.
    Micros next_unit{0};
    bool denied = false;  // this limit refused
    // False: `remaining` is of an earlier moment, and may be another by now.
    bool is_current = true;

    // Whether the moment of the next free unit of `limit` is known. There is none with a quota of
    // 0, even if units were counted, nor if nothing is taken and nothing is left.
    bool tells_next_unit(const Limit& limit) const {
        return is_current && limit.quota > 0 && next_unit != kNever &&
               (next_unit > Micros{0} || remaining > 0);
    }
};

// The verdict as it is once the limit has got back `cost` units, or the slot. Limits that count
// denied requests, too, keep what they took.
void add_back(std::int64_t cost, const Limit& limit, LimitVerdict& verdict);

// What is needed to give units back: where they were put.
struct Receipt {
    Micros at{0};                              // the decision's `now`
    std::vector<std::uint64_t> generations{};  // of the items' states, in their order
};

struct Verdict {
    bool admitted = true;         // by every limit of the policies that are enforced
    bool shadow_admitted = true;  // by every limit of those in shadow, candidates left out
    // For a denial: from the decision's `now` until the same request would pass if nothing else
    // came; kNever when it never would (its cost is above a quota) and when that is unknown
    // (schedule). One second where only concurrency denies.
    Micros retry_after{0};
    Micros wait{0};  // for an admission: how long leaky_bucket has it held
    Micros earliest{
        0};  // for a denial by schedule: the first moment from the one asked that passes
    // One entry a limit: items in the order of the charge, limits in their order.
    std::vector<LimitVerdict> limits{};
    Receipt receipt{};  // filled where something may have to be given back
};

// Units to be given back. The charge was admitted, and `receipt` came with its verdict.
struct Refund {
    enum class Of : std::uint8_t {
        status,  // limits that count by status and do not keep `status`
        place,   // the place in the line of leaky_bucket, if it is the last
        all,     // everything: another server denied
    };
    Charge charge;
    const Receipt* receipt = nullptr;
    Of of = Of::all;
    AnswerStatus status{};

    // Whether this refund is about `limit`.
    bool concerns(const Limit& limit) const;
};

// What is counted now, for people who want to know.
inline constexpr std::size_t kMomentsTold = 100;

// Times are from `now` on.
struct LimitCount {
    std::int64_t counted = 0;  // units; of a bucket rounded up; moments booked; slots that are held
    std::int64_t remaining = 0;         // units left, as clients see it
    std::optional<Micros> next_unit{};  // until one more is free; none: all are, or it is unknown
    std::optional<Micros> all_free{};   // until nothing counts any more; likewise
    // Whether a request of cost 1 would be denied, of schedule one that is meant for now; and for
    // how long if nothing else comes: kNever where it always is, none where it is unknown.
    bool denied = false;
    std::optional<Micros> denied_for{};
    // schedule: what is booked, the first of it; there may be more (see `counted`).
    std::vector<Micros> moments{};
    bool counted_all = true;  // false: more is booked than was counted

    bool operator==(const LimitCount&) const = default;
};

// A record of a limit that was not asked about: of another tier or configuration.
struct OtherCount {
    std::uint32_t id = 0;
    Micros all_free{0};  // at the latest

    bool operator==(const OtherCount&) const = default;
};

struct ItemCounts {
    std::vector<LimitCount> limits{};  // in the order of item.limits()
    std::vector<OtherCount> others{};

    bool operator==(const ItemCounts&) const = default;
};

struct Counts {
    Micros now{0};                    // of the store, since the epoch
    std::vector<ItemCounts> items{};  // in the order asked
};

}  // namespace tidegate::limit

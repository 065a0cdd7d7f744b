#include "store/refund_script.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "limit/gcra.hpp"
#include "limit/schedule.hpp"
#include "limit/window.hpp"
#include "store/charge_script.hpp"
#include "store/resp.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;

// Whether `limit` is part of the refund. Slots are released, which is another command; a moment
// that was past has been recorded nowhere.
bool is_refunded(const limit::Refund& refund, const Limit& limit) {
    if (!refund.concerns(limit) || limit.is_concurrency()) return false;
    return !limit.is_schedule() ||
           limit::concerns_moment(limit, refund.charge.moment, refund.receipt->at);
}

// Calls `visit(item, generation)` for each item of which something is given back. With a generation
// of 0 nothing was taken there.
template <class Visit>
void for_each_concerned(const limit::Refund& refund, Visit visit) {
    const auto& generations = refund.receipt->generations;
    assert(generations.size() == refund.charge.items.size());
    for (std::size_t i = 0; i < generations.size(); ++i) {
        const ChargeItem& item = refund.charge.items[i];
        const auto limits = item.limits();
        if (generations[i] != 0 &&
            std::any_of(limits.begin(), limits.end(),
                        [&](const Limit& limit) { return is_refunded(refund, limit); })) {
            visit(item, generations[i]);
        }
    }
}

void append_limit(const Limit& limit, const limit::Refund& refund, std::string& out) {
    const std::int64_t cost = refund.charge.cost;
    append_packed(limit.id, out);
    out += limit.traits().letter;
    if (limit.is_bucket()) {
        const limit::ExactTime time = limit::time_for(limit::Flow(limit), cost);
        append_double(limit.quota, out);
        append_double(time.us, out);
        append_double(time.parts, out);
    } else if (limit.is_schedule()) {
        append_double(std::max(refund.charge.moment, refund.receipt->at).count(), out);
        append_double(cost, out);
        append_double(0, out);
    } else {
        const ScriptWindow window = window_of_units(limit, refund.receipt->at);
        append_double(window.width, out);
        append_double(window.span, out);
        append_double(cost, out);
    }
    append_double(refund.receipt->at.count(), out);
}

template <class Visit>
void for_each_slot(const limit::Charge& charge, Visit visit) {
    for (const ChargeItem& item : charge.items) {
        for (const Limit& limit : item.limits()) {
            if (limit.is_concurrency()) visit(item, limit);
        }
    }
}

void append_slot(const limit::LeaseId& lease, std::string& out) {
    append_packed(lease.holder, out);
    append_packed(lease.request, out);
}

constexpr std::size_t kSlotBytes = 16;

// The command that runs `script` over all slots of `charge`: they are to last for `time`.
bool append_slots_command(const redis::Script& script, const limit::Charge& charge,
                          std::string_view prefix, Micros time, std::optional<Micros> clock,
                          std::string& out) {
    std::size_t slots = 0;
    for_each_slot(charge, [&](const ChargeItem&, const Limit&) { ++slots; });
    if (slots == 0) return false;
    append_length('*', 5 + slots + (clock ? 1 : 0), out);
    append_string("EVALSHA", out);
    append_string(script.sha1, out);
    append_number(slots, out);
    for_each_slot(charge, [&](const ChargeItem& item, const Limit& limit) {
        append_set_key(item, limit, prefix, out);
    });
    append_length('$', kSlotBytes * slots, out);
    for (std::size_t i = 0; i < slots; ++i) append_slot(charge.lease, out);
    out += "\r\n";
    append_number(static_cast<std::uint64_t>(time.count()), out);
    append_clock(clock, out);
    return true;
}

}  // namespace

std::size_t refund_keys(const limit::Refund& refund) {
    if (refund.charge.cost == 0) return 0;
    std::size_t keys = 0;
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        const auto limits = item.limits();
        keys += 1 + static_cast<std::size_t>(
                        std::count_if(limits.begin(), limits.end(), [&](const Limit& limit) {
                            return limit.is_schedule() && is_refunded(refund, limit);
                        }));
    });
    return keys;
}

void append_refund_keys(const limit::Refund& refund, std::string_view prefix, std::string& out) {
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        append_state_key(item, prefix, out);
    });
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        for (const Limit& limit : item.limits()) {
            if (limit.is_schedule() && is_refunded(refund, limit)) {
                append_set_key(item, limit, prefix, out);
            }
        }
    });
}

void append_refund_argument(const limit::Refund& refund, std::string& out) {
    std::string packed(1, '\0');
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t generation) {
        ++packed[0];
        append_double(static_cast<std::int64_t>(generation), packed);
        const std::size_t count_at = packed.size();
        packed += '\0';
        for (const Limit& limit : item.limits()) {
            if (!is_refunded(refund, limit)) continue;
            append_limit(limit, refund, packed);
            ++packed[count_at];
        }
    });
    append_string(packed, out);
}

bool append_refund_command(const limit::Refund& refund, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    const std::size_t keys = refund_keys(refund);
    if (keys == 0) return false;
    append_length('*', 4 + keys + (clock ? 1 : 0), out);
    append_string("EVALSHA", out);
    append_string(give_back_script().sha1, out);
    append_number(keys, out);
    append_refund_keys(refund, prefix, out);
    append_refund_argument(refund, out);
    append_clock(clock, out);
    return true;
}

std::vector<std::string> release_commands(const limit::Charge& charge, std::string_view prefix) {
    std::vector<std::string> commands;
    for_each_slot(charge, [&](const ChargeItem& item, const Limit& limit) {
        std::string& out = commands.emplace_back();
        append_length('*', 3, out);
        append_string("ZREM", out);
        append_set_key(item, limit, prefix, out);
        append_length('$', kSlotBytes, out);
        append_slot(charge.lease, out);
        out += "\r\n";
    });
    return commands;
}

bool append_renew_command(const limit::Charge& charge, std::string_view prefix,
                          std::optional<Micros> clock, std::string& out) {
    return append_slots_command(renew_script(), charge, prefix, limit::kLease, clock, out);
}

bool append_hold_command(const limit::Charge& charge, std::string_view prefix, Micros hold,
                         std::optional<Micros> clock, std::string& out) {
    return append_slots_command(hold_script(), charge, prefix, hold, clock, out);
}

}  // namespace tidegate::store

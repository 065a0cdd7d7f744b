#include "store/refund.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "limit/kinds.hpp"
#include "store/charge_script.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/process_clock.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;

// Whether `limit` is part of the refund. What requests hold is released, which is another command;
// a moment that was past has been recorded nowhere.
bool is_refunded(const limit::Refund& refund, const Limit& limit) {
    return refund.concerns(limit) && !limit.traits().has_slots &&
           limit::concerns_moment(limit, refund.charge.moment, refund.receipt->at);
}

// Whether something of items[i] is given back. With a generation of 0 nothing was taken there, and
// an item that costs nothing gets nothing.
bool is_concerned(const limit::Refund& refund, std::size_t i) {
    const ChargeItem& item = refund.charge.items[i];
    if (refund.receipt->generations[i] == 0 || refund.charge.cost_of(item) <= 0) return false;
    const auto limits = item.limits();
    return std::any_of(limits.begin(), limits.end(),
                       [&](const Limit& limit) { return is_refunded(refund, limit); });
}

// Calls `visit(item, generation)` for each item of which something is given back.
template <class Visit>
void for_each_concerned(const limit::Refund& refund, Visit visit) {
    const auto& generations = refund.receipt->generations;
    assert(generations.size() == refund.charge.items.size());
    for (std::size_t i = 0; i < generations.size(); ++i) {
        if (is_concerned(refund, i)) visit(refund.charge.items[i], generations[i]);
    }
}

void append_limit(const Limit& limit, const limit::Refund& refund, std::string& out) {
    append_packed(limit.id, out);
    out += limit.letter();
    limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
        Kind::append_refund(limit, refund, out);
    });
    append_double(refund.receipt->at.count(), out);
}

template <class Visit>
void for_each_slot(const limit::Charge& charge, Visit visit) {
    for (const ChargeItem& item : charge.items) {
        for (const Limit& limit : item.limits()) {
            if (limit.traits().has_slots) visit(item, limit);
        }
    }
}

void append_slot(const limit::SlotHold& hold, std::string& out) {
    append_packed(hold.holder, out);
    append_packed(hold.request, out);
}

constexpr std::size_t kSlotBytes = 16;

// The command that runs `script` over all slots of `charge`: they are to last for `time`.
bool append_slots_command(const redis::Script& script, const limit::Charge& charge,
                          std::string_view prefix, Micros time, std::optional<Micros> clock,
                          std::string& out) {
    std::size_t slots = 0;
    for_each_slot(charge, [&](const ChargeItem&, const Limit&) { ++slots; });
    if (slots == 0) return false;
    redis::append_evalsha(script, slots, clock ? 3 : 2, out);
    for_each_slot(charge, [&](const ChargeItem& item, const Limit& limit) {
        append_set_key(item, limit, prefix, out);
    });
    append_length('$', kSlotBytes * slots, out);
    for (std::size_t i = 0; i < slots; ++i) append_slot(charge.slot_hold, out);
    out += "\r\n";
    append_number(static_cast<std::uint64_t>(time.count()), out);
    append_clock(clock, out);
    return true;
}

constexpr std::size_t kReleasesMax = 1'000;  // beyond this, slots wait for their lease to end

// Whether a limit of the items is one that `is_meant` names.
template <class IsMeant>
bool has_limit(std::span<const limit::ChargeItem> items, IsMeant is_meant) {
    return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
        const auto limits = item.limits();
        return std::any_of(limits.begin(), limits.end(), is_meant);
    });
}

bool has_slots(std::span<const limit::ChargeItem> items) {
    return has_limit(items, [](const limit::Limit& limit) { return limit.traits().has_slots; });
}

}  // namespace

std::size_t refund_keys(const limit::Refund& refund) {
    std::size_t keys = 0;
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        const auto limits = item.limits();
        keys += 1 + static_cast<std::size_t>(
                        std::count_if(limits.begin(), limits.end(), [&](const Limit& limit) {
                            return limit.has_set() && is_refunded(refund, limit);
                        }));
    });
    return keys;
}

namespace {

void append_refund_sets(const limit::Refund& refund, std::string_view prefix, std::string& out) {
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        for (const Limit& limit : item.limits()) {
            if (limit.has_set() && is_refunded(refund, limit)) {
                append_set_key(item, limit, prefix, out);
            }
        }
    });
}

void pack_state(const limit::Refund& refund, const ChargeItem& item, std::uint64_t generation,
                std::string& packed) {
    append_double(static_cast<std::int64_t>(generation), packed);
    const std::size_t count_at = packed.size();
    packed += '\0';
    limit::Refund of_item = refund;
    of_item.charge.cost = refund.charge.cost_of(item);
    for (const Limit& limit : item.limits()) {
        if (!is_refunded(refund, limit)) continue;
        append_limit(limit, of_item, packed);
        ++packed[count_at];
    }
}

}  // namespace

void append_refund_keys(const limit::Refund& refund, std::string_view prefix, std::string& out) {
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t) {
        append_state_key(item, prefix, out);
    });
    append_refund_sets(refund, prefix, out);
}

void append_refund_argument(const limit::Refund& refund, std::string& out) {
    std::string packed(1, '\0');
    for_each_concerned(refund, [&](const ChargeItem& item, std::uint64_t generation) {
        ++packed[0];
        pack_state(refund, item, generation, packed);
    });
    append_string(packed, out);
}

bool append_refund_command(const limit::Refund& refund, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    const std::size_t keys = refund_keys(refund);
    if (keys == 0) return false;
    redis::append_evalsha(give_back_script(), keys, clock ? 2 : 1, out);
    append_refund_keys(refund, prefix, out);
    append_refund_argument(refund, out);
    append_clock(clock, out);
    return true;
}

bool StateRefunds::concerns(const limit::Refund& refund, std::size_t item) {
    return is_concerned(refund, item);
}

void StateRefunds::add(const limit::Refund& refund, std::size_t item, std::string_view prefix) {
    const ChargeItem& of = refund.charge.items[item];
    append_state_key(of, prefix, keys_);
    std::size_t set_count = 0;
    for (const Limit& limit : of.limits()) {
        if (!limit.has_set() || !is_refunded(refund, limit)) continue;
        append_set_key(of, limit, prefix, sets_);
        ++set_count;
    }
    pack_state(refund, of, refund.receipt->generations[item], packed_);
    end_state(set_count, 0);
}

void StateRefunds::add(const StateRefund& refund) {
    keys_ += refund.key;
    sets_ += refund.sets;
    packed_ += refund.packed;
    end_state(refund.set_count, refund.refusals);
}

void StateRefunds::end_state(std::size_t set_count, int refusals) {
    assert(size() < kMost);
    set_count_ += set_count;
    ends_.push_back({keys_.size(), sets_.size(), packed_.size(), set_count, refusals});
}

void StateRefunds::clear() {
    keys_.clear();
    sets_.clear();
    packed_.clear();
    set_count_ = 0;
    ends_.clear();
}

StateRefund StateRefunds::at(std::size_t position) const {
    const Ends from = position > 0 ? ends_[position - 1] : Ends{};
    const Ends& to = ends_[position];
    return {keys_.substr(from.key, to.key - from.key), sets_.substr(from.sets, to.sets - from.sets),
            to.set_count, packed_.substr(from.packed, to.packed - from.packed), to.refusals};
}

void StateRefunds::append_command(std::optional<Micros> clock, std::string& out) const {
    assert(size() > 0);
    const std::size_t keys = size() + set_count_;
    redis::append_evalsha(give_back_script(), keys, clock ? 2 : 1, out);
    out += keys_;
    out += sets_;
    append_length('$', 1 + packed_.size(), out);
    out += static_cast<char>(size());
    out += packed_;
    out += "\r\n";
    append_clock(clock, out);
}

std::vector<std::string> release_commands(const limit::Charge& charge, std::string_view prefix) {
    std::vector<std::string> commands;
    for_each_slot(charge, [&](const ChargeItem& item, const Limit& limit) {
        std::string& out = commands.emplace_back();
        append_length('*', 3, out);
        append_string("ZREM", out);
        append_set_key(item, limit, prefix, out);
        append_length('$', kSlotBytes, out);
        append_slot(charge.slot_hold, out);
        out += "\r\n";
    });
    return commands;
}

bool append_renew_command(const limit::Charge& charge, std::string_view prefix,
                          std::optional<Micros> clock, std::string& out) {
    return append_slots_command(renew_script(), charge, prefix, limit::kSlotTime, clock, out);
}

bool append_hold_command(const limit::Charge& charge, std::string_view prefix, Micros hold,
                         std::optional<Micros> clock, std::string& out) {
    return append_slots_command(hold_script(), charge, prefix, hold, clock, out);
}

bool Refunds::give_back(const Admission& from, limit::Refund::Of of, limit::AnswerStatus status,
                        std::function<void()> on_end) const {
    const limit::Refund refund{from.charge, &from.receipt, of, status};
    // A request whose cost is settled mostly has no other limit to tell of its end.
    if (!has_limit(from.charge.items, [&](const Limit& limit) { return refund.concerns(limit); })) {
        return false;
    }
    if (!from.in_redis) {
        const limit::Now now = process_now();
        memory_.give_back(refund, now);
        local_report_.gave_back(refund, now);
        return false;
    }
    std::string command;
    return append_refund_command(refund, redis_.key_prefix, redis_.clock(), command) &&
           redis_.send_and_forget(std::move(command), &give_back_script(),
                                  redis_.slot_of(from.charge.items), std::move(on_end));
}

// A denial that was asked for before the units are back is remembered no longer than until then: so
// the identifiers count as freed now, and again at the end.
bool Refunds::give_back_all(const Admission& from, std::function<void()> on_end) const {
    if (freed_ == nullptr || !from.in_redis) {
        return give_back(from, limit::Refund::Of::all, {}, std::move(on_end));
    }
    std::vector<FreedIdentifiers::Place> places;
    const auto items = from.charge.items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (from.receipt.generations[i] == 0) continue;
        places.push_back(FreedIdentifiers::place_of(items[i].identifier));
    }
    const auto note = [freed = freed_](const std::vector<FreedIdentifiers::Place>& which) {
        const SteadyTime now = std::chrono::steady_clock::now();
        for (const FreedIdentifiers::Place place : which) freed->add_at(place, now);
    };
    note(places);
    return give_back(from, limit::Refund::Of::all, {},
                     [note, places = std::move(places), on_end = std::move(on_end)] {
                         note(places);
                         if (on_end) on_end();
                     });
}

void Refunds::release(const limit::Charge& charge, bool in_redis, Micros hold) const {
    if (!has_slots(charge.items)) return;
    if (in_redis) {
        release_in_redis(charge, hold);
    } else {
        memory_.release(charge, hold > Micros{0} ? process_now().steady + hold : Micros{0});
    }
}

void Refunds::release_in_redis(const limit::Charge& charge, Micros hold) const {
    const std::uint16_t slot = redis_.slot_of(charge.items);
    if (hold > Micros{0}) {
        std::string command;
        if (append_hold_command(charge, redis_.key_prefix, hold, redis_.clock(), command)) {
            redis_.send_and_forget(std::move(command), &hold_script(), slot);
        }
        return;
    }
    for (std::string& command : release_commands(charge, redis_.key_prefix)) {
        redis_.send_and_forget(std::move(command), nullptr, slot);
    }
}

void SlotRenewal::add(LimitDecision& decision) {
    const limit::Charge charge = decision.charge_of(decision.items);
    const bool holds = decision.needs_settling &&
                       std::any_of(charge.items.begin(), charge.items.end(), [&](const auto& item) {
                           return has_slots({&item, 1}) && charge.cost_of(item) > 0;
                       });
    if (!holds) return;
    decision.store_state.renewed = decision.store_state.asked;
    holders_.push_back(decision);
}

void SlotRenewal::release_later(const LimitDecision& decision, const limit::Charge& charge) {
    if (!decision.needs_settling || releases_.size() >= kReleasesMax) return;
    for (std::string& command : release_commands(charge, redis_.key_prefix)) {
        releases_.push_back({std::move(command), redis_.slot_of(charge.items)});
    }
}

void SlotRenewal::renew(SteadyTime now) {
    for (Release& release : std::exchange(releases_, {})) {
        redis_.send_and_forget(std::move(release.command), nullptr, release.slot);
    }
    for (LimitDecision& decision : holders_) {
        if (now - decision.store_state.renewed < limit::kSlotTime / 3) continue;
        decision.store_state.renewed = now;
        for_each_admission(decision, [&](const Admission& admission) {
            const auto& charge = admission.charge;
            std::string command;
            if (!admission.in_redis ||
                !append_renew_command(charge, redis_.key_prefix, redis_.clock(), command)) {
                return;
            }
            redis_.send_and_forget(std::move(command), &renew_script(),
                                   redis_.slot_of(charge.items));
        });
    }
}

}  // namespace tidegate::store

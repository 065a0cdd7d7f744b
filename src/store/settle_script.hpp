// Settling what a reservation took in one slot, in the words of lua/claim.lua, lua/settle_less.lua
// and lua/settle_more.lua: one command corrects the counts and remembers that it did. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/charge.hpp"

namespace tidegate::store {

// That a reservation is settled, and with which cost. There is one in each slot.
struct Claim {
    std::string_view reservation;  // its name among all
    std::string_view identifier;   // of the slot: the hash tag
    std::int64_t cost = 0;
    std::chrono::milliseconds kept_for{0};
};

// Each appends the whole command, to which Redis answers the cost with which the reservation is
// settled, as a decimal number. Safe to send again. `clock` as in append_charge_command().

// Gives back what `refund` is about; that may be nothing. Runs settle_less_script().
void append_settle_less_command(const Claim& claim, const limit::Refund& refund,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);
// Takes what `charge` is about: items of which each limit counts whatever is asked
// (items_to_take()). Runs settle_more_script().
void append_settle_more_command(const Claim& claim, const limit::Charge& charge,
                                std::string_view prefix, std::optional<limit::Micros> clock,
                                std::string& out);

}  // namespace tidegate::store

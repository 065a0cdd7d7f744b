// Giving back what a charge took, and keeping what it holds, in the words of lua/give_back.lua,
// lua/renew.lua, lua/hold.lua and ZREM. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"

namespace tidegate::store {

// Appends the whole command that gives back what `refund` is about. False, with nothing appended,
// if that is nothing. `clock` as in append_charge_command().
bool append_refund_command(const limit::Refund& refund, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out);

// Its parts, for a command that does more. The number of its keys, 0 if nothing is given back; the
// keys; and ARGV[1] of lua/give_back.lua.
std::size_t refund_keys(const limit::Refund& refund);
void append_refund_keys(const limit::Refund& refund, std::string_view prefix, std::string& out);
void append_refund_argument(const limit::Refund& refund, std::string& out);

// A command for each slot that `charge` may hold. Idempotent, so they may be sent again.
std::vector<std::string> release_commands(const limit::Charge& charge, std::string_view prefix);

// Appends the whole command that renews the slots of `charge`. False if it has none. Idempotent.
bool append_renew_command(const limit::Charge& charge, std::string_view prefix,
                          std::optional<limit::Micros> clock, std::string& out);

// Appends the whole command that keeps the slots of `charge`, whose request has ended, for `hold`
// from now on. False if it has none. Idempotent.
bool append_hold_command(const limit::Charge& charge, std::string_view prefix, limit::Micros hold,
                         std::optional<limit::Micros> clock, std::string& out);

}  // namespace tidegate::store

// Asking what is counted, and forgetting it, in the words of lua/inspect.lua and lua/forget.lua.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "store/counts.hpp"

namespace tidegate::store {

// Items that one command asks about at most.
inline constexpr std::size_t kItemsCountedMax = 128;

// Appends the whole command (RESP, EVALSHA of inspect_script()). Items of one identifier; each has
// limits, and those of one policy, with other tiers, stand side by side. `clock` as in
// append_charge_command().
void append_counts_command(std::span<const limit::ChargeItem> items, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out);
// Reads the reply: appends to counts.items, sets counts.now. False if it is none.
bool read_counts_reply(std::string_view reply, std::span<const limit::ChargeItem> items,
                       Counts& counts);

// Appends the whole command (RESP, EVALSHA of forget_script()) that forgets all that is counted of
// these items but slots. What is in the state of a policy goes with it, of other tiers and of
// limits that are not known any more; not so the moments of a schedule that is not known any more:
// they are a set of their own, whose name is not known here. It expires, and counts if that limit
// comes back before. Items as above.
void append_forget_command(std::span<const limit::ChargeItem> items, std::string_view prefix,
                           std::string& out);
// Whether there was something to forget of each item's policy. Nothing if that is no reply.
std::optional<std::vector<bool>> read_forget_reply(std::string_view reply,
                                                   std::span<const limit::ChargeItem> items);

}  // namespace tidegate::store

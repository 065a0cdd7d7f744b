// Commands that charge, as lua/charge.lua takes them, and its answers as verdicts. Pure, but that
// the wall clock says which day, week or month of a time zone it is.
// docs/scripts.md shows an example with its bytes.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/bytes.hpp"
#include "limit/charge.hpp"
#include "limit/window.hpp"
#include "redis/resp.hpp"

namespace tidegate::store {

using limit::append_double;
using limit::append_packed;
using redis::append_length;
using redis::append_number;
using redis::append_string;

// The last argument of a script: what time it is. None: Redis reads its own clock.
inline void append_clock(std::optional<limit::Micros> clock, std::string& out) {
    if (!clock) return;
    assert(*clock >= limit::Micros{0} && *clock <= limit::kNowMax);
    append_number(static_cast<std::uint64_t>(clock->count()), out);
}

// At most so many charges make one command.
inline constexpr std::size_t kBatchMax = 64;

// Whether one command may decide this charge together with others of the same items: its limits are
// windows, logs and gcra that count admitted requests, and no policy is in shadow.
bool can_share_command(const limit::Charge& charge);

// Whether two charges of the same items are the same runs in the words of lua/read_states.lua, with
// costs of their own or without: only then one command may decide both.
bool have_same_runs(const limit::Charge& a, const limit::Charge& b);

// At most so many charges of different items make one command.
inline constexpr std::size_t kMixedMax = 32;

// Whether one command may decide this charge together with charges of other items under the same
// policies and tiers, in the same order: up to four items of plain windows, a cost above 0.
bool can_mix(const limit::Charge& charge);

// The key of a state: `prefix`, a format version, the policy's name and `{identifier}` as hash tag.
// Appends it as RESP.
void append_state_key(const limit::ChargeItem& item, std::string_view prefix, std::string& out);
// The key of the sorted set of a limit that has one.
void append_set_key(const limit::ChargeItem& item, const limit::Limit& limit,
                    std::string_view prefix, std::string& out);

// Appends the whole command (RESP, EVALSHA of charge_script()) to `out`. Charges have equal items,
// in the same order; several only where they can share a command. With `clock` the script counts at
// that time instead of the server's TIME (`clock: local`, tests). Allocates only to grow `out`.
void append_charge_command(std::span<const limit::Charge> charges, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out);

// The same for charges that can_mix() with each other. Their items need not be the same; some may
// be.
void append_mixed_command(std::span<const limit::Charge> charges, std::string_view prefix,
                          std::optional<limit::Micros> clock, std::string& out);

// The part of a command that lua/read_states.lua reads: the number of keys (reading_keys()), the
// keys, and the policies, for so many requests. At most 255 items. `clock` says which day, week or
// month of a time zone it is; without it, the wall clock of process_now() does.
void append_reading(std::span<const limit::ChargeItem> items, std::size_t keys,
                    std::size_t requests, std::string_view prefix,
                    std::optional<limit::Micros> clock, std::string& out);
std::size_t reading_keys(std::span<const limit::ChargeItem> items);
// The policies alone.
void append_reading_argument(std::span<const limit::ChargeItem> items, std::size_t requests,
                             std::optional<limit::Micros> clock, std::string& out);
// The keys alone.
void append_reading_keys(std::span<const limit::ChargeItem> items, std::string_view prefix,
                         std::string& out);
// ARGV[1] and ARGV[2] of lua/charge.lua.
void append_charge_arguments(std::span<const limit::Charge> charges,
                             std::optional<limit::Micros> clock, std::string& out);

// Reads the script's reply (one bulk string) into a verdict for each charge. False if it is no
// reply to them; the verdicts are then unspecified.
bool read_charge_reply(std::string_view reply, std::span<const limit::Charge> charges,
                       std::span<limit::Verdict* const> verdicts);

// Says how Redis answered one of several charges of different items.
enum class Mixed : std::uint8_t {
    decided,
    ask_alone,   // the fast path left it alone: nothing was taken for it
    unreadable,  // no reply to it; its verdict is unspecified
};
// The same of append_mixed_command(), for each charge.
bool read_mixed_reply(std::string_view reply, std::span<const limit::Charge> charges,
                      std::span<limit::Verdict* const> verdicts, std::vector<Mixed>& answers);

}  // namespace tidegate::store

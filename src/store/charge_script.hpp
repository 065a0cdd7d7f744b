// A charge in the words of lua/charge.lua, and the script's answer as a verdict. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "limit/charge.hpp"

namespace tidegate::store {

// Appends the whole command (RESP, EVALSHA of kchargeScript) to `out`. Keys are `prefix`, a
// format version, the policy's name and `{identifier}` as hash tag. With `clock` the script counts
// at that time instead of the server's TIME (`clock: local`, tests). Allocates only to grow `out`.
void append_charge_command(const limit::Charge& charge, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out);

// Reads the script's reply (one bulk string) into `verdict`. False if it is not a reply to
// `charge`; `verdict` is then unspecified.
bool read_charge_reply(std::string_view reply, const limit::Charge& charge,
                       limit::Verdict& verdict);

}  // namespace tidegate::store

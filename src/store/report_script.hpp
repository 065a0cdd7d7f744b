// What was admitted in process, in the words of lua/report.lua. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/local_ledger.hpp"

namespace tidegate::store {

// Appends the whole command that reports `taken`, sent at `now` by the clocks that it was noted by.
// `clock` as in append_charge_command().
void append_report_command(const LocalTaken& taken, const limit::Now& now, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out);

}  // namespace tidegate::store

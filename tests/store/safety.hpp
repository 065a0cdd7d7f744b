// The most important property, checked from the list of admissions alone: no window of any limit
// ever holds more than its quota. This check shares no code with the stores or the model.
#pragma once

#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "store/trace.hpp"

namespace tidegate::test {

// The fault of these verdicts; "" if there is none. Traces whose clock steps back prove nothing and
// pass: their admissions are not where their times say.
std::string unsafe(const Trace& trace, const std::vector<limit::Verdict>& verdicts,
                   bool slots_expire);

}  // namespace tidegate::test

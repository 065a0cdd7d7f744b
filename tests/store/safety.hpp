// The property everything else bends to, checked from the list of admissions alone: no window of
// any limit ever holds more than its quota. Knows neither the stores nor the model.
#pragma once

#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "store/trace.hpp"

namespace tidegate::test {

// What is wrong with these verdicts; "" if nothing is. Traces whose clock steps back prove nothing
// and pass: their admissions are not where their times say.
std::string unsafe(const Trace& trace, const std::vector<limit::Verdict>& verdicts,
                   bool slots_expire);

}  // namespace tidegate::test

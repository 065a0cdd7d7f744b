// Errors that Redis gives to everybody, whoever asks. Pure.
#pragma once

#include "doctor/answer.hpp"
#include "doctor/finding.hpp"

namespace tidegate::doctor {

// Whether `answer` is an error that is about the server and not about us: it is loading, busy, full
// and the like. Then that is a finding.
bool found_trouble(const Answer& answer, Findings& findings);

}  // namespace tidegate::doctor

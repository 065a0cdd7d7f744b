// What becomes of exceptions that no part of the program expects: bugs, and memory that is not
// there. None of them passes in silence.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include <boost/assert/source_location.hpp>

namespace tidegate {

// What `failure`, which is not null, says of itself.
std::string words_of(const std::exception_ptr& failure);

// How end_program() tells why; until one is set, on standard error. Must not throw. Any thread.
using TellEnd = void (*)(std::string_view why) noexcept;
void set_tell_end(TellEnd tell);

// Ends the program at once, with SIGABRT: `failure` ended what was begun at `from`, and the program
// is of no use without it. Any thread.
[[noreturn]] void end_program(const std::exception_ptr& failure,
                              const boost::source_location& from) noexcept;

}  // namespace tidegate

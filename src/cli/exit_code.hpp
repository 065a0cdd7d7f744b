// What the commands end with, for scripts.
#pragma once

#include <string_view>

namespace tidegate::cli {

namespace exit_code {

inline constexpr int kDone = 0;
inline constexpr int kRefused = 1;
inline constexpr int kNotReady = 1;
inline constexpr int kWrongUse = 2;
inline constexpr int kNoAnswer = 3;

}  // namespace exit_code

// Writes a line to the error output. Returns the code.
int complain(int code, std::string_view what);

}  // namespace tidegate::cli

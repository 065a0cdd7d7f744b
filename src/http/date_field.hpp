// The line `Date: ...` of answers, formatted once a second and copied into each answer.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tidegate::http {

// One a worker, one thread.
class DateField {
  public:
    // Formats the line anew if `now` lies in another second than the last time. Requires a moment
    // from the epoch to the end of the year 9999.
    void set(std::chrono::system_clock::time_point now);

    // The whole line, `Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n` (RFC 9110 section 6.6.1). Good
    // until the next set(). Empty before the first.
    std::string_view line() const { return line_; }

  private:
    std::chrono::sys_seconds second_{std::chrono::seconds{-1}};
    std::string line_;
};

}  // namespace tidegate::http

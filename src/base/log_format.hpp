// The forms of a line in the access log.
#pragma once

#include <cstdint>

namespace tidegate {

enum class LogFormat : std::uint8_t {
    json,    // one object
    text,    // the common log format, and name="value" behind it
    logfmt,  // name=value
};

}  // namespace tidegate

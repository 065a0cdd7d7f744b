// A Lua script as Redis knows it.
#pragma once

#include <string_view>

namespace tidegate::redis {

struct Script {
    std::string_view name;  // for messages
    std::string_view sha1;  // forty hexadecimal digits, what EVALSHA takes
    std::string_view text;  // what SCRIPT LOAD takes
};

}  // namespace tidegate::redis

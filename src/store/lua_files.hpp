// The files of lua/, built into the program.
#pragma once

#include <string_view>

namespace tidegate::store::lua {

extern const std::string_view state;
extern const std::string_view window;
extern const std::string_view bucket;
extern const std::string_view schedule;
extern const std::string_view slots;
extern const std::string_view fast_path;
extern const std::string_view fast_path_window;
extern const std::string_view read_states;
extern const std::string_view charge;
extern const std::string_view inspect;
extern const std::string_view forget;
extern const std::string_view give_back;
extern const std::string_view renew;
extern const std::string_view hold;
extern const std::string_view report;
extern const std::string_view claim;
extern const std::string_view settle_less;
extern const std::string_view settle_more;

}  // namespace tidegate::store::lua

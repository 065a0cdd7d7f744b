// What to write instead of a key that is unknown where it stands. Pure.
#pragma once

#include <string_view>

namespace tidegate::config {

// What to write instead of the unknown key `key` in the section named `section` (`routes[0].match`;
// empty: the whole file). Empty: not known.
std::string_view advice_for_key(std::string_view section, std::string_view key);

}  // namespace tidegate::config

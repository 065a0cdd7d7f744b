// The manual page tidegate(1), in roff. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_list.hpp"

namespace tidegate::cli {

std::string man_page(const std::vector<ListedCommand>& commands, std::string_view version);

// `text` as a paragraph of roff: what stands between backquotes is bold, and no character is taken
// for a command.
std::string roff_text(std::string_view text);

}  // namespace tidegate::cli

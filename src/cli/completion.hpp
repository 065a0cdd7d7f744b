// Scripts that complete command lines of Tidegate in a shell. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/command_list.hpp"

namespace tidegate::cli {

// For bash 4 and later, with or without the package bash-completion.
std::string bash_completion(const std::vector<ListedCommand>& commands);

// To be found as `_tidegate` in a folder of zsh's `fpath`, or to be sourced after `compinit`.
std::string zsh_completion(const std::vector<ListedCommand>& commands);

// For fish 3 and later.
std::string fish_completion(const std::vector<ListedCommand>& commands);

}  // namespace tidegate::cli

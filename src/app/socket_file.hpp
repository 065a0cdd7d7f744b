// Who may connect to a listening Unix socket: the group and the mode of its file.
#pragma once

#include <string>

#include "config/config.hpp"

namespace tidegate::app {

// Gives the socket at `path` what `wanted` names, and changes nothing else. What is wrong, as the
// end of a sentence; empty: it has both. Does not follow a link at `path`. Blocks: it looks up the
// group.
std::string set_socket_file(const std::string& path, const config::SocketFile& wanted);

}  // namespace tidegate::app

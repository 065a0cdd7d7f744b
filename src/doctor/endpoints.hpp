// Where the name of a server leads, and whether anything accepts connections there. Blocks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::doctor {

using Endpoints = std::vector<StreamProtocol::endpoint>;

// Where `address` is: of a name all its addresses, in the system's order. Or why that is not known.
Result<Endpoints, std::string> find_endpoints(const config::Address& address,
                                              std::chrono::milliseconds time);

// `10.0.0.1:6379`, `[::1]:6379`; of a Unix socket its path.
std::string endpoint_text(const StreamProtocol::endpoint& endpoint);

// Connects and closes. Returns why that failed, a clause, or nothing.
std::string try_connect(const StreamProtocol::endpoint& endpoint, std::chrono::milliseconds time);

}  // namespace tidegate::doctor

// Asks the admin listener of a running proxy.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

struct AdminPlace {
    config::Address address;  // a wildcard means this machine
    std::string token;        // empty: none is sent
    std::string origin;       // behind the address in messages; empty: the user gave the address
};

struct AdminReply {
    int status = 0;
    std::string body;
};

// `GET target` or `POST target`, without a body. Blocks, for at most `patience`. A sentence says
// why there is no answer; it holds no secret.
Result<AdminReply, std::string> ask_admin(const AdminPlace& place, bool post,
                                          std::string_view target,
                                          std::chrono::milliseconds patience);

// `text` as the value of a parameter of a query (RFC 3986 section 2.1).
std::string percent_encoded(std::string_view text);

}  // namespace tidegate::cli

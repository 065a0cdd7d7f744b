// Reads what a program asks of the check API: POST /v1/check, /v1/reserve and /v1/settle. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"

namespace tidegate::faces {

// One question: a policy and the values of its keys, or a request as a client would send it.
struct CheckItem {
    struct Request {
        std::string method = "GET";
        std::string path;  // with its query; always stated
        std::string host = "localhost";
        std::optional<IpAddress> from;
        std::vector<std::pair<std::string, std::string>> headers;
    };
    std::string policy;                                            // empty: `request`
    std::vector<std::pair<std::string, std::string>> identifiers;  // part of a key, value
    Request request;
    std::optional<std::int64_t> cost;  // unset: 1, or that of the route
};

struct CheckCall {
    enum class Form : std::uint8_t {
        one,
        all,   // one charge: all items or none
        each,  // each item for itself, in order
    };
    Form form = Form::one;
    std::vector<CheckItem> items;  // 1 to kCheckItemsMax
    std::chrono::seconds ttl{60};  // of a reservation
};

struct SettleCall {
    std::string id;
    std::int64_t cost = 0;
};

inline constexpr std::size_t kCheckItemsMax = 100;
inline constexpr std::size_t kCheckBytesMax = 65'536;
inline constexpr std::chrono::seconds kReserveTimeMax{600};

// The call that a body says, or a sentence about what is wrong and what would be right. Strict: see
// read_json_tree(); a member that has no meaning is refused, too. `reserves`: `ttl` may stand
// there, and `each` may not.
Result<CheckCall, std::string> read_check_call(std::string_view body, bool reserves);
Result<SettleCall, std::string> read_settle_call(std::string_view body);

}  // namespace tidegate::faces

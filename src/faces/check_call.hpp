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
    std::optional<double> cost;  // see units_of(); unset: that of the policy or of the route
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
    std::vector<double> costs;  // see units_of(); at least one
    bool is_list = false;       // `costs`; else `cost`, which is the only one
};

inline constexpr std::size_t kCheckItemsMax = 100;
inline constexpr std::size_t kCheckBytesMax = 65'536;
inline constexpr std::chrono::hours kReserveTimeMax{24};
// A settlement brings an id and the costs of all that it reserved.
inline constexpr std::size_t kSettleBytesMax = 2 * kCheckBytesMax;
inline constexpr std::size_t kCostsMax = 512;

// The cost that a call states, in the units that limits count: whole ones, or of a policy that
// counts money millionths of its dollars, rounded up. Nothing: there is no such cost. Requires a
// number that is not negative.
std::optional<std::int64_t> units_of(double stated, bool in_money);
// What would be right: `write a whole number from 0 to 4294967295`.
std::string cost_rule(bool in_money);
// Appends `units` as a call states them: `12`, `0.0125`.
void append_cost(std::int64_t units, bool in_money, std::string& out);

// The call that a body says, or a sentence about what is wrong and what would be right. Strict: see
// read_json_tree(); a member that has no meaning is refused, too. `reserves`: `ttl` may stand
// there, and `each` may not.
Result<CheckCall, std::string> read_check_call(std::string_view body, bool reserves);
Result<SettleCall, std::string> read_settle_call(std::string_view body);

}  // namespace tidegate::faces

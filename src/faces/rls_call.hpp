// ShouldRateLimit of Envoy's rate limit service (envoy.service.ratelimit.v3): what is asked and
// what is answered, to and from the bytes of protocol buffers. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "rls/rules.hpp"

namespace tidegate::faces {

struct RlsCall {
    struct Override {
        std::int64_t requests = 0;
        rls::Unit unit = rls::Unit::second;  // never unknown
    };
    struct Descriptor {
        std::vector<std::pair<std::string, std::string>> entries;  // key and value; at least one
        std::optional<Override> limit;  // that the caller wants in place of the configured one
        std::int64_t hits = 1;          // 0: only asks
    };
    std::string domain;
    std::vector<Descriptor> descriptors;
};

inline constexpr std::size_t kRlsDescriptorsMax = 64;
inline constexpr std::size_t kRlsEntriesMax = 16;

// The call, or a sentence about what is wrong with it.
Result<RlsCall, std::string> read_rls_call(std::string_view message);

struct RlsAnswer {
    struct Limit {
        std::string_view name;
        std::int64_t quota = 0;
        rls::Unit unit = rls::Unit::unknown;
    };
    struct Status {
        bool is_over = false;
        std::optional<Limit> limit;  // of several, the one with least left
        std::int64_t remaining = 0;  // more than fits counts as all that fits
        std::optional<std::chrono::microseconds> until_reset;
    };
    bool is_over = false;
    std::vector<Status> statuses;                             // one a descriptor, in order
    std::vector<std::pair<std::string, std::string>> fields;  // for the answer to the client
    std::string body;                                         // of a refusal
};

// Appends the message.
void append_rls_answer(const RlsAnswer& answer, std::string& out);

}  // namespace tidegate::faces

// What a client is told about its limits: RateLimit-Policy and RateLimit, the structured fields of
// draft-ietf-httpapi-ratelimit-headers-11, and the older X-RateLimit fields. Pure; any thread.
//
// All functions append to a buffer of the caller and allocate nothing beyond it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tidegate::http {

// One limit, as seen by the identifier that has the least left of it.
struct RateLimitItem {
    std::string_view name;            // printable ASCII
    std::int64_t quota = 0;           // >= 0
    std::int64_t window_seconds = 0;  // 0: below one second, `w` is left out
    std::int64_t remaining = 0;       // >= 0
    std::int64_t reset_seconds = 0;   // until the next unit is free, rounded up
};

// Appends the value of RateLimit-Policy: `"default-1s";q=10;w=1, "default-1min";q=120;w=60`.
// Nothing for no items: the field must not be sent empty.
void append_ratelimit_policy(std::span<const RateLimitItem> items, std::string& out);

// Appends the value of RateLimit: `"default-1s";r=7;t=1, "default-1min";r=12;t=3`.
void append_ratelimit(std::span<const RateLimitItem> items, std::string& out);

// The item that a client with room for only one should watch: the smallest part of its quota
// left, then the fewest units, then the longest wait. Null for no items.
const RateLimitItem* most_restrictive(std::span<const RateLimitItem> items);

// Appends three whole lines, `X-RateLimit-Limit: 10\r\n` with -Remaining and -Reset (seconds from
// now), for the most restrictive item. Nothing for no items.
void append_x_ratelimit_fields(std::span<const RateLimitItem> items, std::string& out);

}  // namespace tidegate::http

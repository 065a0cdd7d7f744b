// The fields by which a client learns its limits: RateLimit-Policy and RateLimit, the structured
// fields of draft-ietf-httpapi-ratelimit-headers-11, and the older X-RateLimit fields. Pure; any
// thread.
//
// What appends does so to a buffer of the caller, and allocates nothing beyond it for items that
// bring their texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tidegate::http {

// The part of a limit's words that is the same in every answer.
struct RateLimitTexts {
    std::string policy;  // `"default-1s";q=10;w=1`
    std::string state;   // `"default-1s";r=`
};

// One limit, as seen by the identifier that has the least left of it.
struct RateLimitItem {
    enum class Kind : std::uint8_t {
        window,     // so many in a time: all there is to tell
        in_flight,  // so many at once: has no window, and when one ends is unknown
        // So many around a moment the request names. What is left there says nothing of the next
        // request, so a client that slows down by it would be misled: it gets the policy only.
        schedule,
    };
    std::string_view name;            // printable ASCII
    std::int64_t quota = 0;           // >= 0
    std::int64_t window_seconds = 0;  // 0: below one second or none; `w` is left out
    std::int64_t remaining = 0;       // >= 0
    // Seconds until the next unit is free, rounded up; nothing when that is not known, or none will
    // be.
    std::optional<std::int64_t> reset_seconds = 0;
    Kind kind = Kind::window;
    // The part that never changes, prepared by callers that ask often (ratelimit_texts()).
    const RateLimitTexts* texts = nullptr;
    // False: how much is left is not known. The client gets the policy only.
    bool is_current = true;
};

inline bool waits_longer(const RateLimitItem& a, const RateLimitItem& b) {
    return b.reset_seconds && (!a.reset_seconds || *a.reset_seconds > *b.reset_seconds);
}

// The members of `item` in the two fields, as far as they depend on quota and window.
RateLimitTexts ratelimit_texts(const RateLimitItem& item);

// Appends the value of RateLimit-Policy: `"default-1s";q=10;w=1, "default-1min";q=120;w=60`.
// What is counted in flight says so by its unit, `qu="concurrent-requests"`. Nothing for no items:
// the field must not be sent empty.
void append_ratelimit_policy(std::span<const RateLimitItem> items, std::string& out);

// Appends the value of RateLimit: `"default-1s";r=7;t=1, "default-1min";r=12;t=3`, without `t`
// where no unit is known to come. Nothing when there is no item that it tells of.
void append_ratelimit(std::span<const RateLimitItem> items, std::string& out);

// The item that a client with room for only one should watch: the smallest part of its quota
// left, then the fewest units, then the longest wait. Never a schedule, nor one of which is not
// known how much is left. Null for no items.
const RateLimitItem* most_restrictive(std::span<const RateLimitItem> items);

// Appends three whole lines, `X-RateLimit-Limit: 10\r\n` with -Remaining and -Reset (seconds from
// now; only if that is known), for the most restrictive item. Nothing for no items.
void append_x_ratelimit_fields(std::span<const RateLimitItem> items, std::string& out);

}  // namespace tidegate::http

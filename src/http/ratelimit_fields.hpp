// The fields by which a client learns its limits: RateLimit-Policy and RateLimit, the structured
// fields of draft-ietf-httpapi-ratelimit-headers-11, the older X-RateLimit fields, and those that
// libraries of OpenAI and Anthropic read. Pure; any thread.
//
// What appends does so to a buffer of the caller, and allocates nothing beyond it for items that
// bring their texts; Anthropic's moments are the exception.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/field.hpp"

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
    enum class Unit : std::uint8_t {
        requests,  // and whatever else a route's cost or a policy's counts
        tokens,
        microdollars,  // `quota` and `remaining` are millionths of a dollar; fields show dollars
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
    Unit unit = Unit::requests;
};

inline bool waits_longer(const RateLimitItem& a, const RateLimitItem& b) {
    return b.reset_seconds && (!a.reset_seconds || *a.reset_seconds > *b.reset_seconds);
}

// The members of `item` in the two fields, as far as they depend on unit, quota and window.
RateLimitTexts ratelimit_texts(const RateLimitItem& item);

// Appends the value of RateLimit-Policy: `"default-1s";q=10;w=1, "default-1min";q=120;w=60`. A
// limit of requests in flight says so by its unit, `qu="concurrent-requests"`. No items append
// nothing: the field must not be sent empty.
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

// Appends RateLimit-Policy and, unless there is nothing to tell, RateLimit, as whole lines.
// Requires at least one item.
void append_ratelimit_fields(std::span<const RateLimitItem> items, std::string& out);

// Appends the fields of OpenAI, `x-ratelimit-limit-requests: 60\r\n` with remaining and reset
// (`6m0s`, until the next unit; only if that is known), and the same with `tokens`. Of several
// limits of one unit, that with the fewest units left is shown. Not of money, nor of what has no
// rate: slots and schedules.
void append_openai_fields(std::span<const RateLimitItem> items, std::string& out);

// The same as `anthropic-ratelimit-requests-limit: 60\r\n` and so on. The reset is a moment of
// RFC 3339, from `now` on.
void append_anthropic_fields(std::span<const RateLimitItem> items,
                             std::chrono::system_clock::time_point now, std::string& out);

// Appends `6m0s`, `59s`, `24h0m0s`. Requires seconds >= 0.
void append_duration(std::int64_t seconds, std::string& out);

// The groups of fields that `response.headers` names.
enum class LimitFields : std::uint8_t { ratelimit, retry_after, x_ratelimit, openai, anthropic };

// Describes a group of fields. The reader of the configuration, the answers of every face, the
// choice of the upstream's fields that make way, and the list of fields that scripts of other
// origins may read go over these rows.
struct LimitFieldsTraits {
    std::string_view word;   // in `response.headers`
    std::string_view names;  // of the fields, as in Access-Control-Expose-Headers
    bool is_default;
    bool is_always_exposed;  // also while the group is off, as faults have the field, too
    bool has_retry_after;    // libraries that read the group wait for Retry-After
    // Appends whole lines. Null: only a refusal has the field, and its writer knows the time.
    void (*append)(std::span<const RateLimitItem> items, std::chrono::system_clock::time_point now,
                   std::string& out);
    std::array<FieldName, 6> replaces;  // in answers of upstreams; `other` stands for none
};

inline constexpr std::array<LimitFieldsTraits, 5> kLimitFields{{
    {"ratelimit",
     "RateLimit, RateLimit-Policy",
     true,
     false,
     false,
     [](auto items, auto, std::string& out) { append_ratelimit_fields(items, out); },
     {FieldName::ratelimit, FieldName::ratelimit_policy, FieldName::ratelimit_limit,
      FieldName::ratelimit_remaining, FieldName::ratelimit_reset}},
    {"retry-after", "Retry-After", true, true, true, nullptr, {}},
    {"x-ratelimit",
     "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
     false,
     false,
     false,
     [](auto items, auto, std::string& out) { append_x_ratelimit_fields(items, out); },
     {FieldName::x_ratelimit_limit, FieldName::x_ratelimit_remaining,
      FieldName::x_ratelimit_reset}},
    {"openai",
     "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
     "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, "
     "x-should-retry",
     false,
     false,
     true,
     [](auto items, auto, std::string& out) { append_openai_fields(items, out); },
     {FieldName::x_ratelimit_limit_requests, FieldName::x_ratelimit_remaining_requests,
      FieldName::x_ratelimit_reset_requests, FieldName::x_ratelimit_limit_tokens,
      FieldName::x_ratelimit_remaining_tokens, FieldName::x_ratelimit_reset_tokens}},
    {"anthropic",
     "anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, "
     "anthropic-ratelimit-requests-reset, anthropic-ratelimit-tokens-limit, "
     "anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset, x-should-retry",
     false,
     false,
     true,
     append_anthropic_fields,
     {FieldName::anthropic_requests_limit, FieldName::anthropic_requests_remaining,
      FieldName::anthropic_requests_reset, FieldName::anthropic_tokens_limit,
      FieldName::anthropic_tokens_remaining, FieldName::anthropic_tokens_reset}},
}};

// The groups that answers have.
class LimitFieldsChoice {
  public:
    // Those of the default.
    constexpr LimitFieldsChoice() {
        for (std::size_t i = 0; i < kLimitFields.size(); ++i) {
            if (kLimitFields[i].is_default) add(static_cast<LimitFields>(i));
        }
    }
    static constexpr LimitFieldsChoice none() {
        LimitFieldsChoice choice;
        choice.bits_ = 0;
        return choice;
    }

    // Adds the group, and Retry-After where the group needs it.
    constexpr void add(LimitFields group) {
        bits_ |= bit(group);
        if (kLimitFields[static_cast<std::size_t>(group)].has_retry_after) {
            bits_ |= bit(LimitFields::retry_after);
        }
    }
    constexpr bool has(LimitFields group) const { return (bits_ & bit(group)) != 0; }

    // Appends the lines of all groups. Requires at least one item, whose times begin at `now`.
    void append(std::span<const RateLimitItem> items, std::chrono::system_clock::time_point now,
                std::string& out) const {
        for (std::size_t i = 0; i < kLimitFields.size(); ++i) {
            const auto append_group = kLimitFields[i].append;
            if (append_group != nullptr && has(static_cast<LimitFields>(i))) {
                append_group(items, now, out);
            }
        }
    }
    // Whether such a field of the upstream's answer makes way for one of the groups.
    bool replaces(FieldName field) const {
        return (bits_ & kReplacing[static_cast<std::size_t>(field)]) != 0;
    }

    bool operator==(const LimitFieldsChoice&) const = default;

  private:
    static constexpr std::uint8_t bit(LimitFields group) {
        return static_cast<std::uint8_t>(1u << static_cast<unsigned>(group));
    }

    // The bits of the groups that replace a field, by its name.
    static constexpr std::array<std::uint8_t, 256> kReplacing = [] {
        std::array<std::uint8_t, 256> bits{};
        for (std::size_t i = 0; i < kLimitFields.size(); ++i) {
            for (const FieldName field : kLimitFields[i].replaces) {
                if (field == FieldName::other) continue;
                bits[static_cast<std::size_t>(field)] |=
                    static_cast<std::uint8_t>(1u << static_cast<unsigned>(i));
            }
        }
        return bits;
    }();

    std::uint8_t bits_ = 0;
};

}  // namespace tidegate::http

// What the admin listener shows of the clients of a thread: the most frequent identifiers, and the
// last requests that a limit refused.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "telemetry/top_names.hpp"

namespace tidegate::telemetry {

// The first kBytesMax bytes of a text of a client or of the configuration: any bytes.
class DenialText {
  public:
    static constexpr std::size_t kBytesMax = 128;

    // Drops what is beyond kBytesMax. Allocates only for a text longer than all before.
    DenialText& operator=(std::string_view text) {
        bytes_.assign(text.substr(0, kBytesMax));
        return *this;
    }
    std::string_view view() const { return bytes_; }
    bool operator==(std::string_view text) const { return bytes_ == text; }

  private:
    std::string bytes_;
};

struct Denial {
    std::uint64_t number = 0;  // of its thread, from 1
    std::chrono::system_clock::time_point time;
    DenialText request_id;
    DenialText identifier;  // that was over the limit
    DenialText route;
    DenialText policy;
    DenialText limit;
    std::int64_t count = 0;  // units of the limit that were taken
    std::int64_t quota = 0;
    std::optional<std::int64_t> retry_after_seconds;  // unset: cannot be told
};

// A row of the table of fields that `/api/denials` and the reference have.
struct DenialField {
    template <class Value>
    using In = Value Denial::*;
    using Member = std::variant<In<std::chrono::system_clock::time_point>, In<DenialText>,
                                In<std::int64_t>, In<std::optional<std::int64_t>>>;

    std::string_view name;
    Member member;
    std::string_view meaning;  // for the reference: Markdown, without a full stop
};

// In the order of JSON.
inline constexpr auto kDenialFields = std::to_array<DenialField>({
    {"time_ms", &Denial::time, "when, in milliseconds since 1970"},
    {"request_id", &Denial::request_id, "the request id, as `id` in the access log"},
    {"identifier", &Denial::identifier, "the identifier that was over the limit"},
    {"route", &Denial::route, "the route of the request; empty: no route matches"},
    {"policy", &Denial::policy, "the policy of the limit"},
    {"limit", &Denial::limit, "the limit, as `limited_by` in the access log names it"},
    {"count", &Denial::count, "units of the limit that were taken"},
    {"quota", &Denial::quota, "units that the limit allows"},
    {"retry_after_seconds", &Denial::retry_after_seconds,
     "seconds until the limits may admit the request; `null`: Tidegate cannot tell"},
});

// The row of a field. In a constant expression, a name without a row does not compile.
constexpr const DenialField& denial_field(std::string_view name) {
    for (const DenialField& field : kDenialFields) {
        if (field.name == name) return field;
    }
    throw "no field of a denial has this name";
}

// The last requests that a thread has refused because of a limit, and why. One thread.
//
// A flood must not displace the rest: of one identifier the log keeps at most
// kDenialsPerIdentifierPerSecond denials a second, and of all at most kDenialsPerSecond. It counts
// those that it does not keep.
class DenialLog {
  public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr std::size_t kKept = 256;
    static constexpr std::size_t kDenialsPerIdentifierPerSecond = 4;
    static constexpr std::size_t kDenialsPerSecond = 64;

    // `secret` keys the hash of identifiers, which clients choose.
    explicit DenialLog(std::uint64_t secret) : secret_(secret | 1) {}

    // Whether the denial of `identifier` is kept; if so, the caller calls keep(). Counts what is
    // not. Requires that `now` never goes back.
    bool admits(std::string_view identifier, Time now);
    // The denial that happens at `time`: the caller fills in what else it knows. Valid until the
    // next call. Once the log is full, it has the memory of the oldest one.
    Denial& keep(std::chrono::system_clock::time_point time);

    // Those whose number is above `number`, oldest first: the first `count_max` of them.
    std::vector<Denial> after(std::uint64_t number, std::size_t count_max) const;
    std::uint64_t left_out() const { return left_out_; }

  private:
    struct Kept {
        std::uint64_t hash = 0;  // of the identifier
        std::size_t times = 0;
    };

    std::uint64_t secret_;
    // Of the current second.
    Time ends_{};
    std::array<Kept, kDenialsPerSecond> kept_{};
    std::size_t identifiers_ = 0;
    std::size_t kept_in_all_ = 0;

    std::uint64_t left_out_ = 0;
    std::uint64_t last_number_ = 0;
    std::vector<Denial> ring_;  // by number
};

// The most frequent identifiers and the last denials of a worker, on its thread. It holds names of
// clients; they leave it only through the admin listener.
class Activity {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // What it keeps while it is on. Takes about 650 KiB of addresses at 1,024 names, and memory
    // once names come.
    struct Names {
        Names(std::size_t names_max, std::uint64_t secret)
            : requests(names_max, secret), denials(names_max, secret), denied(secret) {}

        TopNames requests;  // identifiers of all requests
        TopNames denials;   // identifiers that were over a limit
        DenialLog denied;
    };

    // Keeps `names_max` names of each kind from now on; 0: none, and no denials. What was kept
    // stays if the number does. Throws std::bad_alloc; then nothing has changed.
    void set_names_max(std::size_t names_max);

    std::size_t names_max() const { return names_max_; }
    // Another one after set_names_max() has begun anew.
    std::uint64_t version() const { return version_; }
    // Null: off.
    Names* names() { return names_.get(); }

  private:
    std::size_t names_max_ = 0;
    std::uint64_t version_ = 0;
    std::unique_ptr<Names> names_;
};

// Of what a thread remembers, what the admin listener asks for.
enum class ActivityKind : std::uint8_t {
    top_requests,  // identifiers with most requests
    top_denials,   // identifiers that were most often over a limit
    denials,       // the last requests that a limit refused
};

// What the admin listener shows of a thread, as a value of its own. Made in pieces, so that
// requests wait for one piece at most.
struct ActivityCopy {
    static constexpr std::size_t kPieceDenials = 16;

    // The next piece; true: it was the last one. On the thread of `activity`.
    bool add_piece(Activity& activity, ActivityKind kind, Activity::Time now);

    NamesCopy names;              // of the kind asked for
    std::vector<Denial> denials;  // oldest first
    std::uint64_t denials_left_out = 0;
    std::uint64_t version = 0;  // of what the pieces so far are of
};

}  // namespace tidegate::telemetry

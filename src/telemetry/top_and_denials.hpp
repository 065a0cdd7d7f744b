// Activity counts the clients of a thread for `tidegate top` and `tidegate denials`: the most
// frequent identifiers of the last one to two minutes, and the last requests that a limit refused.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.hpp"

namespace tidegate::telemetry {

// Counts the most frequent names of a stream in bounded memory (the algorithm Space-Saving).
//
// There is a counter for each of a fixed number of names. A name without a counter takes that of
// the least frequent one and goes on from its count; how high that was is the new name's error. So
// a count is never too low, at most `error` too high, and no error is above total() / names_max().
// Every name that came more often than that has a counter.
//
// One thread. No allocation after the constructor; adding takes constant time.
class SpaceSaving {
  public:
    static constexpr std::size_t kNamesMax = 16'384;
    static constexpr std::size_t kNameBytesMax = 128;  // as identifiers have them

    struct Name {
        std::string_view name;    // valid until the next add() or clear()
        std::uint64_t count = 0;  // never too low
        std::uint64_t error = 0;  // how much too high `count` may be
    };

    // Requires 1 <= names_max <= kNamesMax. `secret` keys the hash of the names, which clients
    // choose.
    SpaceSaving(std::size_t names_max, std::uint64_t secret);

    // Counts `name` once. Of a longer name than kNameBytesMax, only the first bytes count.
    void add(std::string_view name);
    void clear();

    std::size_t names_max() const { return names_max_; }
    std::size_t size() const { return size_; }
    std::uint64_t total() const { return total_; }
    // How often a name without a counter may have come; 0 while there are free counters.
    std::uint64_t missed_max() const { return size_ < names_max_ ? 0 : buckets_[least_].count; }

    // Calls `visit(Name)` for the names of the counters from `begin` to before `end`, which is at
    // most size(). Counters are in no order; one keeps its place, and may get another name.
    template <class Visit>
    void for_each(std::size_t begin, std::size_t end, Visit&& visit) const {
        for (std::size_t i = begin; i < end; ++i) {
            const auto counter = static_cast<Index>(i);
            visit(Name{name_of(counter), buckets_[counters_[i].bucket].count, counters_[i].error});
        }
    }

  private:
    using Index = std::uint16_t;
    static constexpr Index kNone = std::numeric_limits<Index>::max();

    struct Counter {
        std::uint32_t hash;
        std::uint32_t error;
        Index bucket;
        Index before;  // of the same bucket
        Index after;
        std::uint8_t bytes;  // of its name
    };
    // The counters of the same count. Buckets are a list in the order of their counts.
    struct Bucket {
        std::uint32_t count;
        Index first;
        Index lower;
        Index higher;  // also the list of free buckets
    };

    std::string_view name_of(Index counter) const {
        return {&names_[counter * kNameBytesMax], counters_[counter].bytes};
    }
    std::size_t next_slot(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
    std::size_t home_slot(std::uint32_t hash) const { return hash & (slots_.size() - 1); }
    void name_counter(Index counter, std::string_view name, std::uint32_t hash, std::size_t slot);
    void remove_from_slots(Index counter);
    // Moves a counter to the bucket of the next count.
    void raise(Index counter);
    void begin_at_one(Index counter);
    void attach(Index counter, Index bucket);
    void detach(Index counter);
    // A bucket of `count` between two neighbours, either of which may be kNone.
    Index insert_bucket(std::uint32_t count, Index lower, Index higher);
    void remove_bucket(Index bucket);

    std::size_t names_max_;
    std::uint64_t secret_;
    std::vector<Index> slots_;  // open addressing: positions of counters
    // Not initialised before they are used, so that an idle thread takes no memory for them.
    std::unique_ptr<Counter[]> counters_;
    std::unique_ptr<Bucket[]> buckets_;
    std::unique_ptr<char[]> names_;
    std::size_t size_ = 0;
    std::size_t buckets_begun_ = 0;
    Index free_bucket_ = kNone;
    Index least_ = kNone;  // the bucket of the lowest count
    std::uint64_t total_ = 0;
};

// Holds what one thread has counted, as a value that another thread may read.
struct CountedNames {
    struct Name {
        std::size_t begin = 0;  // in `text`
        std::size_t bytes = 0;
        std::uint64_t count = 0;  // never too low
        std::uint64_t error = 0;  // how much too high `count` may be
    };
    std::string_view name_of(const Name& one) const {
        return std::string_view(text).substr(one.begin, one.bytes);
    }

    std::vector<Name> names;  // if a name is there twice, the last one counts
    std::string text;
    std::uint64_t total = 0;       // names that were added
    std::uint64_t missed_max = 0;  // how often a name that is not listed may have come
    std::size_t names_max = 0;
};

// A copy of a TopNames that is made in pieces, so that requests of the thread that counts wait
// for one piece at most. What that thread counts between two pieces may be missing: each count is
// right for some moment between the first piece and the last, and a name that came more often than
// `missed_max` before the first piece is there.
struct NamesCopy {
    std::array<CountedNames, 2> generations;  // the one before, and the current one

    // Where the next piece begins.
    std::size_t generation = 0;
    std::size_t next = 0;
    std::chrono::steady_clock::time_point ends{};  // of the current generation
};

// One thread. Counts begin anew every minute, at the same moment on all threads; the minute before
// is kept.
class TopNames {
  public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr std::chrono::seconds kGeneration{60};
    static constexpr std::size_t kPieceNames = 256;

    // See SpaceSaving.
    TopNames(std::size_t names_max, std::uint64_t secret)
        : current_(names_max, secret), former_(names_max, secret) {}

    // Requires that `now` never goes back.
    void add(std::string_view name, Time now) {
        if (now >= ends_) begin_generation(now);
        current_.add(name);
    }
    // Copies at most kPieceNames more names of this generation and the one before, and begins anew
    // if the generation is another than at the last piece. True: the copy is whole.
    bool copy_piece(NamesCopy& copy, Time now);

    // How long counts reach back at `now`, in a process that began at `began`.
    static std::chrono::seconds reach(Time now, Time began);

  private:
    void begin_generation(Time now);

    SpaceSaving current_;
    SpaceSaving former_;
    Time ends_{};  // of the current generation
};

// A name of several threads and generations.
struct FrequentName {
    std::string name;
    std::uint64_t at_least = 0;
    std::uint64_t error = 0;  // how much too low `at_least` may be
};

struct TopList {
    std::vector<FrequentName> names;  // most frequent first
    std::uint64_t total = 0;
    // No error is higher, and every name that came more often is in `names` unless the list was
    // cut.
    std::uint64_t error_max = 0;
};

// The `length` most frequent names of all of `parts`.
TopList merge(std::span<const CountedNames> parts, std::size_t length);

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
    std::uint64_t number = 0;  // the number among the denials of its thread, from 1
    std::chrono::system_clock::time_point time;
    DenialText request_id;
    DenialText identifier;  // the one that was over the limit
    DenialText route;
    DenialText policy;
    DenialText limit;
    Amount count;  // of the limit, that requests have taken
    Amount quota;
    Amount cost;                                      // that the request asked for
    std::optional<std::int64_t> retry_after_seconds;  // unset: Tidegate cannot tell
};

// A row of the table of fields that `/api/denials` and the reference have.
struct DenialField {
    template <class Value>
    using In = Value Denial::*;
    using Member = std::variant<In<std::chrono::system_clock::time_point>, In<DenialText>,
                                In<Amount>, In<std::optional<std::int64_t>>>;

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
    {"count", &Denial::count, "units of the limit that were taken; with `unit: usd` dollars"},
    {"quota", &Denial::quota, "units that the limit allows, or dollars"},
    {"cost", &Denial::cost, "units that the request asked for, or dollars"},
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
    // Returns the denial that happens at `time`, for the caller to fill in what else it knows.
    // Valid until the next call. Once the log is full, it reuses the memory of the oldest denial.
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
    // The next four are about the current second.
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

    // Requests over a limit: whose they were, and the last of them.
    struct Denials {
        Denials(std::size_t names_max, std::uint64_t secret)
            : names(names_max, secret), last(secret) {}

        TopNames names;
        DenialLog last;
    };

    // A thread keeps this while the activity is on. With 1,024 names it takes about 970 KiB of
    // addresses; memory only once names come.
    struct Names {
        Names(std::size_t names_max, std::uint64_t secret)
            : requests(names_max, secret),
              denials(names_max, secret),
              shadow_denials(names_max, secret),
              candidate_denials(secret) {}

        TopNames requests;            // identifiers of all requests
        Denials denials;              // that a limit refused
        Denials shadow_denials;       // that no limit refused, and one in shadow would have
        DenialLog candidate_denials;  // likewise, and one of a candidate would have
    };

    // Keeps `names_max` names of each kind from now on; 0: none, and no denials. Begins anew unless
    // the number is the same. Throws std::bad_alloc; then nothing has changed.
    void set_names_max(std::size_t names_max);

    std::size_t names_max() const { return names_max_; }
    // Changes whenever set_names_max() begins anew.
    std::uint64_t version() const { return version_; }
    // Null: off.
    Names* names() { return names_.get(); }

  private:
    std::size_t names_max_ = 0;
    std::uint64_t version_ = 0;
    std::unique_ptr<Names> names_;
};

// Which part of an activity the admin listener asks for.
enum class ActivityKind : std::uint8_t {
    top_requests,       // identifiers with most requests
    top_denials,        // identifiers that were most often over a limit
    top_shadow,         // identifiers that limits in shadow alone would have refused most often
    denials,            // the last requests that a limit refused
    shadow_denials,     // the last requests that limits in shadow alone would have refused
    candidate_denials,  // the last requests that limits of candidates alone would have refused
};

// A copy of a part of an activity, for the admin listener. It is made in pieces, so that requests
// wait for one piece at most.
struct ActivityCopy {
    static constexpr std::size_t kPieceDenials = 16;

    // Adds the next piece, on the thread of `activity`. True: it was the last one.
    bool add_piece(Activity& activity, ActivityKind kind, Activity::Time now);

    NamesCopy names;              // of the kind asked for; or
    std::vector<Denial> denials;  // oldest first
    std::uint64_t denials_left_out = 0;
    std::uint64_t version = 0;  // of the activity that the pieces so far come from

  private:
    bool add_denials(const DenialLog& log);
};

}  // namespace tidegate::telemetry

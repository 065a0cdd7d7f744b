// The most frequent names of the last one to two minutes: what a thread counts, and how the counts
// of several threads become one list.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

    // Counts `name` once. What is longer than kNameBytesMax is counted as its first bytes.
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

// What one thread has counted, as a value that another thread may read.
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

    std::vector<Name> names;  // of the same name the last one counts
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
    std::uint64_t error = 0;  // the name came at most so often more
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

}  // namespace tidegate::telemetry

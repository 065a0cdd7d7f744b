// Counts the most frequent names of a stream in bounded memory (the algorithm Space-Saving).
//
// There is a counter for each of a fixed number of names. A name without a counter takes that of
// the least frequent one and goes on from its count; how high that was is the new name's error. So
// a count is never too low, at most `error` too high, and no error is above total() / names_max().
// Every name that came more often than that has a counter.
//
// One thread. No allocation after the constructor; adding takes constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace tidegate::telemetry {

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

}  // namespace tidegate::telemetry

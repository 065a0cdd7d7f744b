// The most frequent names of the last one to two minutes: what a thread counts, and how the counts
// of several threads become one list.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/space_saving.hpp"

namespace tidegate::telemetry {

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

// Counts of requests by face, status and outcome: written by one thread, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shared_enums.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"
#include "telemetry/outcome.hpp"

namespace tidegate::proxy {

// A small table with open addressing. A route meets few of the
// 10,000 there are; what an upstream invents beyond the bound is counted together.
class StatusCounts {
  public:
    using Outcome = telemetry::Outcome;
    static constexpr int kNoAnswer = 0;
    static constexpr int kOther = 1;

    static constexpr telemetry::MetricType kType = telemetry::MetricType::counter;
    static std::vector<telemetry::MetricLabel> labels() {
        return {{.name = "route"},
                {.name = "code",
                 .note = "the status, `-` if no answer was sent, `other` for what is no status, "
                         "and once a route has seen more than 48 pairs of status and outcome"},
                {.name = "outcome",
                 .values = kEnumNames<Outcome>,
                 .notes = telemetry::kOutcomeNotes.values()},
                telemetry::label_of<Face>("face")};
    }

    void count(Face face, int status, Outcome outcome) {
        slot_of(key_of(face, normalised(status), outcome), outcome).add();
    }

    // Calls `visit(face, status, outcome, count)` for each that was met; status may be kNoAnswer or
    // kOther. Any thread. The same may come twice (kOther).
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (const Slot& slot : slots_) {
            const std::uint32_t key = slot.key.load(std::memory_order_acquire);
            if (key == 0) continue;
            const std::uint32_t pair = key / kFaces;
            visit(static_cast<Face>(key % kFaces), static_cast<int>(pair / kOutcomes - 1),
                  static_cast<Outcome>(pair % kOutcomes), slot.counter.value());
        }
        for (std::size_t i = 0; i < kOutcomes * kFaces; ++i) {
            if (const auto n = overflow_[i / kFaces][i % kFaces].value(); n != 0) {
                visit(static_cast<Face>(i % kFaces), kOther, static_cast<Outcome>(i / kFaces), n);
            }
        }
    }

  private:
    using Counter = telemetry::Counter;
    static constexpr std::size_t kOutcomes = telemetry::kOutcomes;
    static constexpr std::size_t kSlots = 64;
    static constexpr std::size_t kPairsMax = 48;  // a table that is never full ends every search

    struct Slot {
        std::atomic<std::uint32_t> key{0};  // 0: free
        Counter counter;
    };

    static int normalised(int status) {
        if (status == 0) return kNoAnswer;
        return status >= 100 && status <= 599 ? status : kOther;
    }
    static std::uint32_t key_of(Face face, int status, Outcome outcome) {
        const std::uint32_t pair = static_cast<std::uint32_t>(status + 1) * kOutcomes +
                                   static_cast<std::uint32_t>(outcome);
        return pair * kFaces + static_cast<std::uint32_t>(face);
    }

    Counter& slot_of(std::uint32_t key, Outcome outcome) {
        for (std::size_t i = key * 0x9e3779b1U >> 26;; i = (i + 1) % kSlots) {
            Slot& slot = slots_[i];
            const std::uint32_t found = slot.key.load(std::memory_order_relaxed);
            if (found == key) return slot.counter;
            if (found != 0) continue;
            if (pairs_ == kPairsMax) {
                return overflow_[static_cast<std::size_t>(outcome)][key % kFaces];
            }
            ++pairs_;
            slot.key.store(key, std::memory_order_release);
            return slot.counter;
        }
    }

    std::array<Slot, kSlots> slots_{};
    std::array<std::array<Counter, kFaces>, kOutcomes> overflow_{};
    std::size_t pairs_ = 0;  // the writer's own
};

}  // namespace tidegate::proxy

// Traced requests on their way from the threads that served them to the one that exports them, and
// which requests are worth it.
//
// A queue of pointers for each thread, without a lock; a full one drops what is new.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/units.hpp"
#include "telemetry/byte_ring.hpp"
#include "telemetry/trace_ids.hpp"
#include "telemetry/trace_record.hpp"

namespace tidegate::telemetry {

// So many in such a time, over all threads: GCRA in one number. Time is an argument.
class KeepRate {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // A quota of 0 keeps none.
    explicit KeepRate(Rate rate);

    // Any thread. A refusal writes nothing, so a flood of refused requests shares no cache line.
    bool takes(Time now);

  private:
    std::int64_t emission_ns_;
    std::int64_t burst_ns_;
    std::atomic<std::int64_t> due_{0};  // 0: none yet
};

class TraceQueue {
  public:
    struct Options {
        double sample = 0.01;  // of traces that begin here
        Rate keep_failed{10, std::chrono::seconds{1}};
        Rate keep_limited{1, std::chrono::seconds{1}};
        std::size_t spans = 8'192;  // that may wait, over all threads
    };

    TraceQueue(const Options& options, std::size_t threads);
    ~TraceQueue();
    TraceQueue(const TraceQueue&) = delete;
    TraceQueue& operator=(const TraceQueue&) = delete;

    const TraceSampler& sampler() const { return sampler_; }
    KeepRate& failed() { return failed_; }
    KeepRate& limited() { return limited_; }

    // Of the thread `thread` alone.
    TraceIds& ids(std::size_t thread) { return producers_[thread]->ids; }
    // Hands over a request, or drops it where the thread's share of the queue is full. Calls
    // `on_much`, if it is set, when a quarter of that is taken, once until take() was called.
    void push(std::size_t thread, std::unique_ptr<TraceRecord> record);

    // The thread that exports.

    // Before the first push(). Called on a thread that pushes.
    void on_much(std::function<void()> call) { on_much_ = std::move(call); }
    // The next request; null: none waits.
    std::unique_ptr<TraceRecord> take();

    // Any thread: spans that were dropped because the queue was full.
    std::uint64_t dropped() const;

  private:
    static constexpr std::size_t kPointerBytes = sizeof(void*);

    struct alignas(64) Producer {
        explicit Producer(std::size_t spans) : ring(spans * kPointerBytes) {}

        ByteRing ring;  // of pointers, which it owns
        TraceIds ids;
        std::uint64_t pushed = 0;  // spans
        std::atomic<std::uint64_t> dropped{0};
        alignas(64) std::atomic<std::uint64_t> taken{0};
    };

    TraceSampler sampler_;
    KeepRate failed_;
    KeepRate limited_;
    std::size_t share_;  // spans of each thread
    std::function<void()> on_much_;
    std::atomic<bool> has_called_{false};
    std::vector<std::unique_ptr<Producer>> producers_;
    std::size_t next_ = 0;  // whose turn it is to be taken from
};

}  // namespace tidegate::telemetry

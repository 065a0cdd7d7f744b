// Which requests are traced, with which identifiers, and how they reach the exporter.
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/trace_export.hpp"

namespace tidegate::telemetry::trace_queue_test {
namespace {

using namespace std::chrono_literals;
using Time = KeepRate::Time;

std::unique_ptr<TraceRecord> request_of(std::size_t spans, int status = 200) {
    auto record = std::make_unique<TraceRecord>();
    record->request.status = status;
    record->forwards.resize(spans - 1);
    return record;
}

TraceQueue::Options options(std::size_t spans) {
    TraceQueue::Options made;
    made.spans = spans;
    return made;
}

TEST_CASE("trace_ids: no two of several threads are the same, and none is zero") {
    constexpr int kEach = 20'000;
    std::set<SpanId> spans;
    std::set<TraceId> traces;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            TraceIds ids;
            std::vector<SpanId> own_spans;
            std::vector<TraceId> own_traces;
            for (int n = 0; n < kEach; ++n) {
                own_traces.push_back(ids.next_trace());
                own_spans.push_back(ids.next_span());
            }
            const std::lock_guard lock(mutex);
            spans.insert(own_spans.begin(), own_spans.end());
            traces.insert(own_traces.begin(), own_traces.end());
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(spans.size() == 4 * kEach);
    CHECK(traces.size() == 4 * kEach);
    CHECK(spans.count(SpanId{}) == 0);
    CHECK(traces.count(TraceId{}) == 0);
}

TEST_CASE("trace_sampler: the sampler takes its share, none at 0 and all at 1") {
    TraceIds ids;
    const TraceSampler none(0.0);
    const TraceSampler some(0.1);
    const TraceSampler all(1.0);
    int taken = 0;
    for (int i = 0; i < 100'000; ++i) {
        const TraceId id = ids.next_trace();
        CHECK_FALSE(none.takes(id));
        CHECK(all.takes(id));
        taken += some.takes(id) ? 1 : 0;
    }
    CHECK(taken > 9'500);
    CHECK(taken < 10'500);
}

TEST_CASE("keep_rate: a quota at once, then one in each part of the time") {
    KeepRate rate({10, 1s});
    const Time begin{std::chrono::hours{1}};
    int taken = 0;
    for (int i = 0; i < 50; ++i) taken += rate.takes(begin) ? 1 : 0;
    CHECK(taken == 10);
    CHECK_FALSE(rate.takes(begin + 99ms));
    CHECK(rate.takes(begin + 100ms));
    CHECK_FALSE(rate.takes(begin + 100ms));
    for (int i = 0; i < 50; ++i) taken += rate.takes(begin + 1h) ? 1 : 0;
    CHECK(taken == 20);
}

TEST_CASE("keep_rate: a quota of 0 takes none, one of 1 takes one") {
    KeepRate none({0, 1s});
    CHECK_FALSE(none.takes(Time{1h}));
    KeepRate one({1, 1s});
    CHECK(one.takes(Time{1h}));
    CHECK_FALSE(one.takes(Time{1h + 999ms}));
    CHECK(one.takes(Time{1h + 1s}));
}

TEST_CASE("trace_queue: requests come out whole, of every thread in turn") {
    TraceQueue queue(options(1'000), 2);
    for (int i = 0; i < 3; ++i) {
        queue.push(0, request_of(2, 200 + i));
        queue.push(1, request_of(2, 300 + i));
    }
    std::multiset<int> statuses;
    while (const auto record = queue.take()) statuses.insert(record->request.status);
    CHECK(statuses == std::multiset<int>{200, 201, 202, 300, 301, 302});
    CHECK(queue.dropped() == 0);
}

TEST_CASE("trace_queue: spans that a full queue drops are counted, and room comes back") {
    TraceQueue queue(options(64), 2);  // 32 a thread
    for (int i = 0; i < 20; ++i) queue.push(0, request_of(3));
    CHECK(queue.dropped() == 30);
    queue.push(1, request_of(3));  // the other thread's share is its own
    CHECK(queue.dropped() == 30);
    queue.take();
    queue.take();
    queue.push(0, request_of(3));
    CHECK(queue.dropped() == 30);
    std::size_t left = 0;
    while (queue.take()) ++left;
    CHECK(left == 10);
}

TEST_CASE("trace_queue: it calls once when it fills, and again after it was emptied") {
    TraceQueue queue(options(128), 1);
    int calls = 0;
    queue.on_much([&] { ++calls; });
    for (int i = 0; i < 31; ++i) queue.push(0, request_of(1));
    CHECK(calls == 0);
    for (int i = 0; i < 31; ++i) queue.push(0, request_of(1));
    CHECK(calls == 1);
    while (queue.take()) {
    }
    for (int i = 0; i < 62; ++i) queue.push(0, request_of(1));
    CHECK(calls == 2);
}

TEST_CASE("trace_queue: requests that still wait at its end are freed") {
    TraceQueue queue(options(64), 1);
    queue.push(0, request_of(5));
    queue.push(0, request_of(5));
}

TEST_CASE("trace_queue: one thread pushes while another takes, and nothing is lost or doubled") {
    TraceQueue queue(options(256), 1);
    constexpr int kPushed = 20'000;
    std::thread pusher([&] {
        for (int i = 0; i < kPushed; ++i) queue.push(0, request_of(1, i));
    });
    std::uint64_t taken = 0;
    int last = -1;
    while (taken + queue.dropped() < kPushed) {
        const auto record = queue.take();
        if (!record) continue;
        CHECK(record->request.status > last);
        last = record->request.status;
        ++taken;
    }
    pusher.join();
    CHECK(taken + queue.dropped() == kPushed);
}

}  // namespace
}  // namespace tidegate::telemetry::trace_queue_test

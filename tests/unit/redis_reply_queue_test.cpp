#include <chrono>
#include <deque>
#include <vector>

#include <doctest/doctest.h>

#include "redis/reconnects.hpp"
#include "redis/reply_queue.hpp"
#include "unit/redis_asker.hpp"

namespace tidegate::redis {
namespace {

using namespace std::chrono_literals;

const SteadyTime kStart{1h};

// A queue and requests that nobody sends.
struct Rig {
    Asker& push(SteadyTime deadline) {
        Asker& asker = askers.emplace_back("");
        queue.push({&asker, deadline});
        return asker;
    }
    std::vector<Request*> late(SteadyTime now) {
        std::vector<Request*> found;
        looked_at = queue.take_late(now, found);
        return found;
    }

    ReplyQueue queue;
    std::deque<Asker> askers;
    std::size_t looked_at = 0;
};

using Late = std::vector<Request*>;

}  // namespace

TEST_CASE("reply queue: tickets go up by one, whatever leaves") {
    Rig rig;
    CHECK(rig.queue.next_ticket() == 1);
    for (int i = 0; i < 3; ++i) rig.push(kStart);
    CHECK(rig.queue.next_ticket() == 4);
    CHECK(rig.queue.pop().request == &rig.askers[0]);
    CHECK(rig.queue.first_ticket() == 2);
    CHECK(rig.queue.take_all().size() == 2);
    CHECK(rig.queue.empty());
    CHECK(rig.queue.first_ticket() == 4);
    CHECK(rig.queue.next_ticket() == 4);
}

TEST_CASE("reply queue: a search among ten thousand commands in time looks at one") {
    Rig rig;
    for (int i = 0; i < 10'000; ++i) rig.push(kStart + i * 1us);
    for (int tick = 1; tick <= 100; ++tick) {
        CHECK(rig.late(kStart - 1s + tick * 10ms - 1us).empty());
        CHECK(rig.looked_at == 1);
    }
}

TEST_CASE("reply queue: each command is late at its deadline, once, and is looked at once more") {
    Rig rig;
    for (int i = 0; i < 1'000; ++i) rig.push(kStart + i * 1ms);
    std::size_t looked_at = 0;
    for (int tick = 0; tick < 100; ++tick) {
        const Late found = rig.late(kStart + tick * 10ms);
        looked_at += rig.looked_at;
        REQUIRE(found.size() == (tick == 0 ? 1 : 10));
        const auto last = static_cast<std::size_t>(tick) * 10;
        CHECK(found.back() == &rig.askers[last]);
    }
    CHECK(looked_at <= 1'000 + 100);
    // Their places are kept.
    CHECK(rig.queue.size() == 1'000);
    CHECK(rig.queue.pop().request == nullptr);
    CHECK(rig.late(kStart + 1h).size() == 9);
    CHECK(rig.late(kStart + 2h).empty());
}

TEST_CASE("reply queue: behind those that were abandoned the search goes on where it was") {
    Rig rig;
    for (int i = 0; i < 10'000; ++i) rig.push(kStart);
    CHECK(rig.late(kStart).size() == 10'000);
    rig.push(kStart + 10ms);
    CHECK(rig.late(kStart + 1ms).empty());
    CHECK(rig.looked_at == 1);
    CHECK(rig.late(kStart + 10ms) == Late{&rig.askers[10'000]});
}

TEST_CASE("reply queue: commands sent again behind later ones are late at their own deadline") {
    Rig rig;
    for (int i = 0; i < 5; ++i) rig.push(kStart + 100ms);
    Asker& early = rig.push(kStart + 20ms);
    Asker& earlier = rig.push(kStart + 10ms);
    Asker& between = rig.push(kStart + 50ms);
    Asker& answered = rig.push(kStart + 5ms);
    CHECK(rig.late(kStart).empty());
    CHECK(rig.looked_at == 1);
    CHECK(rig.late(kStart + 5ms) == Late{&answered});
    CHECK(rig.late(kStart + 20ms) == Late{&earlier, &early});
    CHECK(rig.late(kStart + 49ms).empty());
    CHECK(rig.late(kStart + 50ms) == Late{&between});
    CHECK(rig.late(kStart + 100ms).size() == 5);
}

TEST_CASE("reply queue: a command whose reply came is never late, and no other for it") {
    Rig rig;
    rig.push(kStart + 100ms);
    rig.push(kStart + 10ms);
    Asker& last = rig.push(kStart + 100ms);
    rig.queue.pop();
    rig.queue.pop();
    CHECK(rig.late(kStart + 10ms).empty());
    CHECK(rig.late(kStart + 100ms) == Late{&last});
    rig.queue.pop();
    // Empty: what comes next is in order again.
    Asker& next = rig.push(kStart);
    CHECK(rig.late(kStart) == Late{&next});
}

TEST_CASE("reply queue: the first of a new connection is found by its own deadline") {
    Rig rig;
    rig.push(kStart + 1h);
    rig.push(kStart + 1ms);
    rig.queue.take_all();
    CHECK(rig.late(kStart + 2h).empty());
    Asker& next = rig.push(kStart + 2ms);
    CHECK(rig.late(kStart + 1ms).empty());
    CHECK(rig.late(kStart + 2ms) == Late{&next});
}

TEST_CASE("reply queue: what nobody waits for is passed by") {
    Rig rig;
    rig.queue.push({nullptr, kStart + 1h});
    Asker& asker = rig.push(kStart + 1ms);
    rig.queue.push({nullptr, kStart});
    CHECK(rig.late(kStart).empty());
    CHECK(rig.late(kStart + 1ms) == Late{&asker});
}

TEST_CASE("reconnects: some at once, then so many a second") {
    Reconnects reconnects;
    for (int i = 0; i < Reconnects::kMax; ++i) CHECK(reconnects.take(kStart));
    CHECK_FALSE(reconnects.take(kStart));
    CHECK_FALSE(reconnects.take(kStart + 199ms));
    CHECK(reconnects.take(kStart + 200ms));
    CHECK_FALSE(reconnects.take(kStart + 200ms));
    for (int i = 0; i < Reconnects::kMax; ++i) CHECK(reconnects.take(kStart + 2s));
    CHECK_FALSE(reconnects.take(kStart + 2s));
}

TEST_CASE("reconnects: two a second are never refused") {
    Reconnects reconnects;
    for (int i = 0; i < 100; ++i) CHECK(reconnects.take(kStart + i * 500ms));
}

}  // namespace tidegate::redis

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "redis/breaker_and_pipeline.hpp"
#include "unit/redis_asker.hpp"

namespace tidegate::redis::breaker_and_pipeline_test {

using namespace std::chrono_literals;

namespace {

const SteadyTime kStart{1h};

struct BreakerRig {
    BreakerRig() : BreakerRig(Breaker::Options{}) {}
    explicit BreakerRig(const Breaker::Options& options) : breaker(options) {}

    // A connection that is cut `after` it was made, and the pause before the next.
    milliseconds cut(SteadyTime made, bool answered, milliseconds after = 1ms) {
        breaker.on_connected(made);
        if (answered) breaker.on_answer();
        breaker.on_connection_lost();
        return breaker.pause_after_loss(made + after, random);
    }

    Breaker breaker;
    std::minstd_rand random;
};

}  // namespace

TEST_CASE("breaker: it is neither up nor down before the first attempt") {
    BreakerRig rig;
    CHECK_FALSE(rig.breaker.is_up());
    CHECK_FALSE(rig.breaker.is_down());
    CHECK_FALSE(rig.breaker.on_connected(kStart));
    CHECK(rig.breaker.is_up());
}

TEST_CASE("breaker: it opens once, and a connection closes it") {
    BreakerRig rig;
    CHECK(rig.breaker.open());
    CHECK_FALSE(rig.breaker.open());
    CHECK(rig.breaker.is_down());
    CHECK(rig.breaker.on_connected(kStart));
    CHECK(rig.breaker.is_up());
    // A connection that is back at once was never away.
    rig.breaker.on_connection_lost();
    CHECK_FALSE(rig.breaker.is_up());
    CHECK_FALSE(rig.breaker.is_down());
    CHECK_FALSE(rig.breaker.on_connected(kStart));
}

TEST_CASE("breaker: a lost connection does not close it") {
    BreakerRig rig;
    rig.breaker.open();
    rig.breaker.on_connection_lost();
    CHECK(rig.breaker.is_down());
}

TEST_CASE("breaker: unanswered commands in a row open it, and an answer restarts the count") {
    BreakerRig rig;
    rig.breaker.on_connected(kStart);
    rig.breaker.on_timeouts(4);
    CHECK_FALSE(rig.breaker.must_open());
    rig.breaker.on_answer();
    rig.breaker.on_timeouts(3);
    rig.breaker.on_timeouts(0);
    rig.breaker.on_timeouts(1);
    CHECK_FALSE(rig.breaker.must_open());
    rig.breaker.on_timeouts(1);
    CHECK(rig.breaker.must_open());
    CHECK(rig.breaker.unanswered_in_a_row() == 5);
    rig.breaker.open();
    CHECK_FALSE(rig.breaker.must_open());
    // Back, the count begins at zero.
    rig.breaker.on_connected(kStart);
    CHECK(rig.breaker.unanswered_in_a_row() == 0);
}

TEST_CASE("breaker: unanswered commands of all threads count, if one of its own is among them") {
    const Breaker::Options options;
    BreakerRig one(options);
    BreakerRig other(options);
    one.breaker.on_connected(kStart);
    other.breaker.on_connected(kStart);
    other.breaker.on_timeouts(4);
    CHECK_FALSE(one.breaker.must_open());
    one.breaker.on_timeouts(1);
    CHECK(one.breaker.must_open());
    CHECK(other.breaker.must_open());
    // An answer to either shows that Redis is well.
    other.breaker.on_answer();
    CHECK_FALSE(one.breaker.must_open());
}

TEST_CASE("breaker: the pauses between failed attempts grow up to the longest, and are jittered") {
    BreakerRig rig;
    milliseconds longest{50};
    for (int i = 0; i < 10; ++i) {
        const milliseconds pause = rig.breaker.pause_after_failure(rig.random);
        CHECK(pause >= longest / 2);
        CHECK(pause <= longest);
        longest = std::min(longest * 2, milliseconds{1'000});
    }
    rig.breaker.reset_pauses();
    CHECK(rig.breaker.pause_after_failure(rig.random) <= 50ms);
}

TEST_CASE("breaker: a pause that is as long as a command may wait refuses commands") {
    BreakerRig rig;
    CHECK(rig.breaker.outlasts_commands(100ms));
    CHECK_FALSE(rig.breaker.outlasts_commands(99ms));
}

TEST_CASE("breaker: connections that are cut are made again at once, so many a second") {
    BreakerRig rig;
    for (int i = 0; i < Breaker::kReconnects; ++i) CHECK(rig.cut(kStart, true) == 0ms);
    CHECK(rig.cut(kStart, true) >= 25ms);
    CHECK(rig.cut(kStart + 190ms, true) >= 25ms);
    CHECK(rig.cut(kStart + 200ms, true) == 0ms);
    CHECK(rig.cut(kStart + 200ms, true) >= 25ms);
    for (int i = 0; i < Breaker::kReconnects; ++i) CHECK(rig.cut(kStart + 2s, true) == 0ms);
    CHECK(rig.cut(kStart + 2s, true) >= 25ms);
}

TEST_CASE("breaker: two cuts a second never cost a pause") {
    BreakerRig rig;
    for (int i = 0; i < 100; ++i) CHECK(rig.cut(kStart + i * 500ms, true) == 0ms);
}

TEST_CASE(
    "breaker: a server that closes each connection without an answer is tried less and less") {
    BreakerRig rig;
    for (int i = 0; i < Breaker::kReconnects; ++i) rig.cut(kStart, false);
    CHECK(rig.cut(kStart, false) <= 50ms);
    CHECK(rig.cut(kStart, false) >= 50ms);
    CHECK(rig.cut(kStart, false) >= 100ms);
    // One that answered, or lasted, is tried soon again.
    CHECK(rig.cut(kStart, true) <= 50ms);
    rig.cut(kStart, false);
    CHECK(rig.cut(kStart, false, 1s) == 0ms);
    CHECK(rig.cut(kStart, false) <= 50ms);
}

TEST_CASE("breaker: a connection that is given up for its silence is not made again at once") {
    BreakerRig rig;
    rig.breaker.on_connected(kStart);
    rig.breaker.on_answer();
    rig.breaker.open();
    CHECK(rig.breaker.pause_after_loss(kStart + 1ms, rig.random) >= 25ms);
    rig.breaker.on_connected(kStart);
    rig.breaker.open();
    CHECK(rig.breaker.pause_after_loss(kStart + 1s, rig.random) == 0ms);
}

namespace {

// A queue, and requests that are never sent.
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

    CommandQueue queue;
    std::deque<Asker> askers;
    std::size_t looked_at = 0;
};

using Late = std::vector<Request*>;

// A pipeline whose commands go into a list.
struct Sent {
    std::string bytes;
    std::uint64_t ticket;

    bool is(std::string_view word) const { return bytes.find(word) != std::string::npos; }
};
struct PipelineRig {
    explicit PipelineRig(std::size_t commands_max = 100) : pipeline(commands_max) {}

    Asker& add(std::string name, SteadyTime deadline = kStart + 1s) {
        Asker& asker = askers.emplace_back(std::move(name));
        added = pipeline.add({&asker, deadline});
        return asker;
    }
    auto sink() {
        return [this](std::string_view bytes, std::uint64_t ticket) {
            sent.push_back({std::string(bytes), ticket});
        };
    }
    void send() { pipeline.send_waiting(sink()); }
    bool load_and_resend(const QueuedCommand& command, std::uint64_t ticket) {
        return pipeline.load_and_resend(command, ticket, sink());
    }
    Late late(SteadyTime now) {
        Late found;
        pipeline.take_late(now, found);
        return found;
    }

    Pipeline pipeline;
    std::deque<Asker> askers;
    std::vector<Sent> sent;
    bool added = false;
};

}  // namespace

TEST_CASE("command queue: tickets go up by one, whatever leaves") {
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

TEST_CASE("command queue: a search among ten thousand commands in time looks at one") {
    Rig rig;
    for (int i = 0; i < 10'000; ++i) rig.push(kStart + i * 1us);
    for (int tick = 1; tick <= 100; ++tick) {
        CHECK(rig.late(kStart - 1s + tick * 10ms - 1us).empty());
        CHECK(rig.looked_at == 1);
    }
}

TEST_CASE("command queue: each command is late at its deadline, once, and is looked at once more") {
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

TEST_CASE("command queue: a caller's early deadline says nothing of the server") {
    Rig rig;
    const auto push = [&](SteadyTime deadline) {
        Asker& asker = rig.askers.emplace_back("");
        rig.queue.push({&asker, deadline, kStart + 100ms});
        return &asker;
    };
    Asker* const hurried = push(kStart + 10ms);
    Asker* const answered = push(kStart + 20ms);
    Asker* const patient = push(kStart + 100ms);
    CHECK(rig.late(kStart + 20ms) == Late{hurried, answered});
    CHECK(rig.queue.take_unanswered(kStart + 20ms) == 0);
    CHECK(rig.queue.take_unanswered(kStart + 99ms) == 0);
    SUBCASE("it has answered one of them in time, if not in the caller's") {
        rig.queue.pop();
        rig.queue.pop();
        CHECK(rig.late(kStart + 100ms) == Late{patient});
        CHECK(rig.queue.take_unanswered(kStart + 100ms) == 1);
    }
    SUBCASE("it has answered nothing") {
        CHECK(rig.late(kStart + 100ms) == Late{patient});
        CHECK(rig.queue.take_unanswered(kStart + 100ms) == 3);
    }
    CHECK(rig.queue.take_unanswered(kStart + 200ms) == 0);
}

TEST_CASE("command queue: behind those that were abandoned the search goes on where it was") {
    Rig rig;
    for (int i = 0; i < 10'000; ++i) rig.push(kStart);
    CHECK(rig.late(kStart).size() == 10'000);
    rig.push(kStart + 10ms);
    CHECK(rig.late(kStart + 1ms).empty());
    CHECK(rig.looked_at == 1);
    CHECK(rig.late(kStart + 10ms) == Late{&rig.askers[10'000]});
}

TEST_CASE("command queue: commands sent again behind later ones are late at their own deadline") {
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

TEST_CASE("command queue: a command whose reply came is never late, and no other for it") {
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

TEST_CASE("command queue: the first of a new connection is found by its own deadline") {
    Rig rig;
    rig.push(kStart + 1h);
    rig.push(kStart + 1ms);
    rig.queue.take_all();
    CHECK(rig.late(kStart + 2h).empty());
    Asker& next = rig.push(kStart + 2ms);
    CHECK(rig.late(kStart + 1ms).empty());
    CHECK(rig.late(kStart + 2ms) == Late{&next});
}

TEST_CASE("command queue: commands without a request are passed by") {
    Rig rig;
    rig.queue.push({nullptr, kStart + 1h});
    Asker& asker = rig.push(kStart + 1ms);
    rig.queue.push({nullptr, kStart});
    CHECK(rig.late(kStart).empty());
    CHECK(rig.late(kStart + 1ms) == Late{&asker});
}

TEST_CASE("pipeline: commands are written when they are sent, in order, and replies go to them") {
    PipelineRig rig;
    Asker& first = rig.add("a");
    Asker& second = rig.add("b");
    CHECK(first.written == 0);
    rig.send();
    REQUIRE(rig.sent.size() == 2);
    CHECK(rig.sent[0].is("a"));
    CHECK(rig.sent[1].is("b"));
    CHECK(rig.sent[1].ticket == rig.sent[0].ticket + 1);
    CHECK(rig.pipeline.take_answered(rig.sent[0].ticket)->request == &first);
    CHECK(rig.pipeline.take_answered(rig.sent[1].ticket)->request == &second);
    CHECK(rig.pipeline.empty());
    CHECK_FALSE(rig.pipeline.take_answered(rig.sent[1].ticket + 1));
}

TEST_CASE("pipeline: it holds no more than it may, whether waiting or sent") {
    PipelineRig rig(2);
    rig.add("a");
    rig.send();
    rig.add("b");
    CHECK(rig.added);
    rig.add("c");
    CHECK_FALSE(rig.added);
    rig.send();
    CHECK(rig.pipeline.take_answered(rig.sent[0].ticket));
    rig.add("d");
    CHECK(rig.added);
}

TEST_CASE("pipeline: an abandoned command keeps its place: its late reply goes to no request") {
    PipelineRig rig;
    Asker& slow = rig.add("slow", kStart + 10ms);
    Asker& next = rig.add("next");
    rig.send();
    CHECK(rig.late(kStart + 10ms) == Late{&slow});
    CHECK_FALSE(rig.pipeline.empty());
    CHECK_FALSE(rig.pipeline.take_answered(rig.sent[0].ticket));
    CHECK(rig.pipeline.take_answered(rig.sent[1].ticket)->request == &next);
}

TEST_CASE("pipeline: a command that is late before it is sent is never sent") {
    PipelineRig rig;
    Asker& early = rig.add("early", kStart + 1ms);
    rig.add("later");
    CHECK(rig.late(kStart + 1ms) == Late{&early});
    rig.send();
    REQUIRE(rig.sent.size() == 1);
    CHECK(rig.sent[0].is("later"));
    // Nor is one behind another that is in time.
    Asker& behind = rig.add("behind", kStart + 2ms);
    CHECK(rig.late(kStart + 2ms) == Late{&behind});
    CHECK(rig.pipeline.take_answered(rig.sent[0].ticket));
    CHECK(rig.pipeline.empty());
}

TEST_CASE(
    "pipeline: the first of many commands whose script is gone loads it, each is sent again") {
    PipelineRig rig;
    rig.pipeline.begin_connection({&kScript});
    for (const char* name : {"a", "b", "c"}) rig.add(name);
    rig.send();
    for (std::size_t i = 0; i < 3; ++i) {
        const auto command = rig.pipeline.take_answered(rig.sent[i].ticket);
        REQUIRE(command);
        CHECK_FALSE(command->sent_again);
        CHECK(rig.load_and_resend(*command, rig.sent[i].ticket) == (i == 0));
    }
    REQUIRE(rig.sent.size() == 7);
    CHECK(rig.sent[3].is("SCRIPT"));
    CHECK(rig.sent[3].is(kScript.text));
    for (const std::size_t i : {4, 5, 6}) CHECK(rig.sent[i].is("EVALSHA"));
    CHECK_FALSE(rig.pipeline.take_answered(rig.sent[3].ticket));
    CHECK(rig.pipeline.take_answered(rig.sent[4].ticket)->sent_again);
}

TEST_CASE("pipeline: a script that this connection did not have is loaded without being missed") {
    PipelineRig rig;
    rig.pipeline.begin_connection({});
    const auto resend = [&] {
        rig.add("x");
        rig.send();
        const std::uint64_t ticket = rig.sent.back().ticket;
        const auto command = rig.pipeline.take_answered(ticket);
        REQUIRE(command);
        const bool was_missed = rig.load_and_resend(*command, ticket);
        rig.pipeline.take_sent();
        return was_missed;
    };
    CHECK_FALSE(resend());
    CHECK(resend());
    rig.pipeline.begin_connection({});
    CHECK_FALSE(resend());
}

TEST_CASE(
    "pipeline: ASKING goes before a command whose slot is moving, and has a reply of its own") {
    PipelineRig rig;
    Asker& asker = rig.add("x");
    QueuedCommand command = rig.pipeline.take_waiting().front();
    command.asking = true;
    REQUIRE(rig.pipeline.add(command));
    rig.send();
    REQUIRE(rig.sent.size() == 2);
    CHECK(rig.sent[0].bytes == "*1\r\n$6\r\nASKING\r\n");
    CHECK_FALSE(rig.pipeline.take_answered(rig.sent[0].ticket));
    CHECK(rig.pipeline.take_answered(rig.sent[1].ticket)->request == &asker);
}

TEST_CASE("pipeline: a lost connection takes what was sent; what waits goes on waiting") {
    PipelineRig rig;
    rig.add("a");
    rig.send();
    Asker& waiting = rig.add("b");
    CHECK(rig.pipeline.take_sent().size() == 1);
    CHECK_FALSE(rig.pipeline.take_answered(rig.sent[0].ticket));
    rig.send();
    CHECK(rig.sent.back().ticket > rig.sent.front().ticket);
    CHECK(rig.pipeline.take_answered(rig.sent.back().ticket)->request == &waiting);
}

}  // namespace tidegate::redis::breaker_and_pipeline_test

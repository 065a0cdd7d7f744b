#include <array>
#include <functional>

#include <doctest/doctest.h>

#include "h2/settings_and_abuse.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_abuse_test {

using namespace h2_world;
using h2::Malformed;

namespace {

constexpr std::uint32_t kBurst = 50;

// Sends what `make` gives for 0, 1, 2, ... until the server ends the connection or `max` are sent,
// and acknowledges nothing. Returns how many were sent.
std::uint32_t flood(World& world, std::uint32_t max,
                    const std::function<std::string(std::uint32_t)>& make) {
    std::uint32_t count = 0;
    while (count < max && world.server.error() == NGHTTP2_NO_ERROR) {
        world.receive(make(count++));
        // The coroutine of a request that was reset ends at once.
        for (const Event& event : world.events) {
            if (event.kind == Kind::reset) world.server.release(*event.stream);
        }
    }
    return count;
}

// Whether the server has ended the connection, with the reason, and is done.
void check_ended(World& world) {
    CHECK(world.server.is_abused());
    CHECK(world.server.deadline() == world.now + 1s);
    world.receive(headers(1'001, request()));
    CHECK(world.events.empty());
    CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(world.server.is_done());
}

// Floods a connection that has one stream, 1, open in both directions.
void check_costs(const std::function<std::string(std::uint32_t)>& make, std::uint32_t free = 0) {
    World world(with(kBurst));
    world.begin();
    // The client's first SETTINGS have cost one already.
    world.ask(1, request("POST"), false);
    CHECK(flood(world, 10'000, make) == kBurst + free);
    check_ended(world);
}

void check_free(const std::function<std::string(std::uint32_t)>& make) {
    World world(with(kBurst));
    world.begin();
    world.ask(1, request("POST"), false);
    CHECK(flood(world, 4 * kBurst, make) == 4 * kBurst);
    CHECK(goaway_error(world.sent()) == -1);
}

auto each(const std::string& bytes) {
    return [bytes](std::uint32_t) { return bytes; };
}

void check_abused(World& world) {
    CHECK(world.server.is_abused());
    CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(world.server.is_done());
}

}  // namespace

// Things that an honest client never does, each with its outcome and its bound.

TEST_CASE(
    "h2 abuse: resets of the client cost, also of requests that were begun in the same read") {
    check_costs([](std::uint32_t i) {
        const std::uint32_t id = 2 * i + 3;
        return headers(id, request()) + rst_stream(id);
    });
}

TEST_CASE("h2 abuse: rapid resets are not served faster than requests that are waited for") {
    Settings settings;
    settings.streams = 10;
    World world(settings);
    world.begin();
    std::string bytes;
    for (std::uint32_t id = 1; id < 200; id += 2) bytes += headers(id, request()) + rst_stream(id);
    world.receive(bytes);
    std::size_t requests = 0;
    for (const Event& event : world.events) requests += event.kind == Kind::head;
    CHECK(requests == 10);
    CHECK(world.server.streams() == 10);
}

TEST_CASE("h2 abuse: a reset behind the answer's end costs nothing") {
    World world(with(kBurst));
    world.begin();
    for (std::uint32_t id = 1; id < 8 * kBurst; id += 2) {
        Stream* const stream = world.ask(id, request("POST"), false);
        REQUIRE(stream);
        world.server.send_head(*stream, 413, "", false);
        world.sent();
        world.receive(rst_stream(id));
        world.server.release(*stream);
    }
    CHECK(goaway_error(world.sent()) == -1);
}

TEST_CASE("h2 abuse: resets of the server that the client provokes cost as much") {
    SUBCASE("by a malformed head") {
        check_costs([](std::uint32_t i) {
            return headers(2 * i + 3, request_with({{"connection", "close"}}));
        });
    }
    SUBCASE("by a window that overflows") {
        World world(with(kBurst));
        world.begin();
        std::uint32_t count = 0;
        while (count < 1'000 && world.server.error() == NGHTTP2_NO_ERROR) {
            const std::uint32_t id = 2 * count++ + 1;
            world.receive(headers(id, request()) + window_update(id, 0x7fffffff));
            world.sent();
            const Event* const reset = world.event(Kind::reset, id);
            REQUIRE((reset != nullptr || world.server.is_abused()));
            if (reset == nullptr) break;
            CHECK(reset->error == NGHTTP2_FLOW_CONTROL_ERROR);
            world.server.release(*reset->stream);
        }
        CHECK(count <= kBurst);
        CHECK(world.server.is_abused());
    }
    SUBCASE("by more content than announced") {
        check_costs([](std::uint32_t i) {
            const std::uint32_t id = 2 * i + 3;
            return headers(id, request_with({{"content-length", "1"}}), false) + data(id, "ab");
        });
    }
    SUBCASE("by trailers that do not end the request") {
        check_costs([](std::uint32_t i) {
            const std::uint32_t id = 2 * i + 3;
            return headers(id, request(), false) + headers(id, {{"a", "b"}}, false);
        });
    }
}

TEST_CASE("h2 abuse: streams over the bound cost, and leave no trace in memory") {
    Settings settings = with(kBurst);
    settings.streams = 1;
    World world(settings);
    SUBCASE("of a client that has not acknowledged it") {
        world.receive(preface());
        world.receive(headers(1, request()));
    }
    SUBCASE("of one that has, behind a reset") {
        world.begin();
        world.receive(headers(1, request()) + rst_stream(1));
    }
    std::uint32_t id = 3;
    std::uint32_t count = 0;
    while (count < 1'000 && !world.server.is_abused()) {
        world.receive(headers(id, request()));
        CHECK(world.event(Kind::head) == nullptr);
        CHECK((world.event(Kind::refused) != nullptr || world.server.is_abused()));
        world.sent();
        id += 2;
        ++count;
    }
    CHECK(count <= kBurst);
    CHECK(world.server.streams() == 1);
}

TEST_CASE("h2 abuse: SETTINGS, PING, PRIORITY and unknown frames cost") {
    SUBCASE("SETTINGS") {
        check_costs(each(settings({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 70'000}})));
    }
    SUBCASE("PING") {
        check_costs(each(ping()));
    }
    SUBCASE("PING ACK of no PING") {
        check_costs(each(ping(NGHTTP2_FLAG_ACK)));
    }
    SUBCASE("PRIORITY") {
        check_costs(each(frame(NGHTTP2_PRIORITY, 0, 5, number(3, 4) + "w")));
    }
    SUBCASE("PRIORITY_UPDATE") {
        check_costs(each(frame(NGHTTP2_PRIORITY_UPDATE, 0, 0, number(1, 4) + "u=1")));
    }
    SUBCASE("unknown") {
        check_costs(each(frame(0xfa, 0xff, 1, "what is it")));
    }
    SUBCASE("resets of streams that are gone") {
        check_costs([](std::uint32_t i) {
            return i == 0 ? headers(3, request()) + rst_stream(3) : rst_stream(3);
        });
    }
}

TEST_CASE("h2 abuse: empty frames cost, but those that end a request") {
    SUBCASE("DATA") {
        check_costs(each(data(1, "")));
    }
    SUBCASE("DATA of padding") {
        check_costs(
            each(frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, std::string(1, '\x3') + "123")));
    }
    SUBCASE("HEADERS") {
        check_costs([](std::uint32_t i) {
            const std::uint32_t id = 2 * i + 3;
            return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, id) +
                   frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, id, block(request())) +
                   frame(NGHTTP2_DATA, 0, 1, "x");
        });
    }
    SUBCASE("CONTINUATION") {
        World world(with(3));
        world.begin();
        world.receive(frame(NGHTTP2_HEADERS, 0, 1, block(request())));
        for (int i = 0; i < 3; ++i) {
            CHECK_FALSE(world.server.is_abused());
            world.receive(frame(NGHTTP2_CONTINUATION, 0, 1));
        }
        check_ended(world);
    }
    SUBCASE("content does not") {
        check_free(each(data(1, "x")));
    }
}

TEST_CASE("h2 abuse: updates of windows cost where no DATA was sent since") {
    SUBCASE("on the connection") {
        check_costs(each(window_update(0, 1)), 1);
    }
    SUBCASE("on a stream") {
        check_costs(each(window_update(1, 1)), 1);
    }
    SUBCASE("on streams that are gone") {
        check_costs(
            [](std::uint32_t i) {
                return i == 0 ? headers(3, request()) + rst_stream(3) : window_update(3, 1);
            },
            1 + 1);
    }
}

TEST_CASE("h2 abuse: an update for each frame of DATA costs nothing") {
    World world(with(10));
    world.begin();
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    const std::string content(16'000, 'x');
    const std::array<std::string_view, 1> pieces{content};
    for (int i = 0; i < 1'000; ++i) {
        world.server.offer(stream, pieces, false);
        const auto frames = world.sent();
        std::string updates = ping();  // and measures the round trip by it
        for (const Frame& frame : frames) {
            if (!frame.is(NGHTTP2_DATA)) continue;
            for (std::uint32_t part = 0; part < frame.head.length; part += 4'096) {
                const std::uint32_t bytes = std::min(frame.head.length - part, 4'096U);
                updates += window_update(0, bytes) + window_update(1, bytes);
            }
        }
        world.receive(updates);
        REQUIRE(world.server.error() == NGHTTP2_NO_ERROR);
    }
}

TEST_CASE("h2 abuse: an answer is not sent byte by byte for long") {
    World world(with(kBurst));
    world.receive(preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1}}));
    world.sent();
    world.receive(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    const std::string content(16'000, 'x');
    const std::array<std::string_view, 1> pieces{content};
    world.server.offer(stream, pieces, true);
    std::size_t turns = 0;
    while (!world.server.is_abused() && turns < 1'000) {
        world.sent();
        world.receive(window_update(1, 1));
        ++turns;
    }
    CHECK(turns <= kBurst + 2);
}

TEST_CASE("h2 abuse: a small rest of a window costs nothing") {
    World world(with(10));
    world.receive(preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 16'385}}));
    world.sent();
    world.receive(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    const std::string content(1'000'000, 'x');
    const std::array<std::string_view, 1> pieces{content};
    world.server.offer(stream, pieces, true);
    while (!stream.is_sent()) {
        world.sent();
        world.receive(window_update(0, 16'385) + window_update(1, 16'385));
        REQUIRE(world.server.error() == NGHTTP2_NO_ERROR);
    }
}

TEST_CASE("h2 abuse: answers that end well pay for as many resets") {
    World world(with(10));
    world.begin();
    for (std::uint32_t id = 1; id < 2'000; id += 4) {
        world.answer(*world.ask(id));
        world.sent();
        world.receive(headers(id + 2, request()) + rst_stream(id + 2));
        world.server.release(*world.stream(id + 2));
        REQUIRE(world.server.error() == NGHTTP2_NO_ERROR);
    }
}

TEST_CASE("h2 abuse: the budget comes back with time") {
    World world(with(kBurst));
    world.begin();
    for (int i = 0; i < 1'000; ++i) {
        world.now += 10ms;
        world.receive(ping());
        world.sent();
    }
    CHECK_FALSE(world.server.is_abused());
}

TEST_CASE("h2 abuse: a client that does not read its answers fills no memory with them") {
    Settings settings = with(1'000);
    World world(settings);
    world.begin();
    const std::string pings = [] {
        std::string bytes;
        for (int i = 0; i < 5'000; ++i) bytes += ping();
        return bytes;
    }();
    world.receive(pings);
    CHECK(world.server.is_abused());
    CHECK(world.sent().size() <= 1'001);
}

// Requests and frames that break the rules, each with its outcome.

TEST_CASE(
    "h2 violations: a block may have eight CONTINUATION frames, in any pieces, and no ninth") {
    const std::string bytes = block(request());
    const auto in_frames = [&](std::size_t count) {
        std::string frames = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, bytes.substr(0, 2));
        for (std::size_t i = 1; i <= count; ++i) {
            frames += frame(NGHTTP2_CONTINUATION, i == count ? NGHTTP2_FLAG_END_HEADERS : 0, 1,
                            i == count ? bytes.substr(2 * i) : bytes.substr(2 * i, 2));
        }
        return frames;
    };
    World world;
    world.begin();
    bool has_come = false;
    for (const char c : in_frames(8)) {
        world.receive({&c, 1});
        if (world.stream(1) != nullptr) has_come = true;
    }
    CHECK(has_come);
    World other;
    other.begin();
    other.receive(in_frames(9));
    CHECK(other.events.empty());
    check_abused(other);
}

TEST_CASE(
    "h2 violations: a head that is too large gets 431, and one that is much too large no answer") {
    Settings settings;
    settings.head.bytes = 1'000;
    World world(settings);
    world.begin();
    Stream* const stream = world.ask(1, request_with({{"x-a", std::string(2'000, 'x')}}));
    REQUIRE(stream);
    CHECK(stream->head_fault() == http::HeadFault::too_large);
    CHECK(stream->head().fields.empty());
    world.server.send_head(*stream, 431, "", false);
    CHECK(find(world.sent(), NGHTTP2_HEADERS));
    world.server.release(*stream);
    // HPACK goes on with the next request.
    CHECK(world.ask(3));
    world.receive(headers(5, request_with({{"x-a", std::string(4'001, 'x')}})));
    CHECK(world.events.empty());
    check_abused(world);
}

TEST_CASE("h2 violations: a header block that is small and becomes very large is given up early") {
    World world;
    world.begin();
    // 4,000 bytes into the table, then one byte for each use of them.
    std::string bytes = block(request());
    bytes += "\x40" + length_of(1) + "a" + length_of(4'000) + std::string(4'000, 'x');
    bytes += std::string(12'000, static_cast<char>(0x80 | 62));
    world.receive(
        frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, bytes));
    CHECK(world.events.empty());
    check_abused(world);
}

TEST_CASE("h2 violations: fields without bytes are counted, too") {
    World world;
    world.begin();
    FieldList fields = request();
    for (int i = 0; i < 101; ++i) fields.emplace_back("a", "");
    Stream* const stream = world.ask(1, fields);
    REQUIRE(stream);
    CHECK(stream->head_fault() == http::HeadFault::too_many_fields);
}

TEST_CASE("h2 violations: malformed requests are reset and reported for the log") {
    World world;
    world.begin();
    SUBCASE("by their head") {
        world.receive(headers(1, request_with({{"te", "gzip"}})));
        const Event* const event = world.event(Kind::malformed);
        REQUIRE(event);
        CHECK(event->malformed == Malformed::te);
        CHECK(event->stream == nullptr);
        CHECK(world.events.size() == 1);
    }
    SUBCASE("by a body that is shorter than announced") {
        world.receive(headers(1, request_with({{"content-length", "5"}}), false) +
                      data(1, "1234", true));
        REQUIRE(world.event(Kind::reset));
        CHECK(world.event(Kind::reset)->malformed == Malformed::length);
        CHECK_FALSE(world.event(Kind::end));
    }
    SUBCASE("by a body that is longer") {
        world.receive(headers(1, request_with({{"content-length", "5"}}), false) + data(1, "12") +
                      data(1, "3456"));
        REQUIRE(world.event(Kind::reset));
        CHECK(world.event(Kind::reset)->malformed == Malformed::length);
        CHECK(world.body(1) == "12345");  // however it comes in pieces
    }
    SUBCASE("by no body where one is announced") {
        world.receive(headers(1, request_with({{"content-length", "5"}})));
        REQUIRE(world.event(Kind::malformed));
        CHECK(world.event(Kind::malformed)->malformed == Malformed::length);
    }
    SUBCASE("by trailers") {
        world.receive(headers(1, request(), false) + headers(1, {{":path", "/"}}));
        REQUIRE(world.event(Kind::reset));
        CHECK(world.event(Kind::reset)->malformed == Malformed::pseudo_field);
    }
    CHECK(reset_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
}

TEST_CASE("h2 violations: frames behind the client's end or reset of a stream end the connection") {
    World world;
    world.begin();
    world.receive(headers(1, request()) + headers(3, request(), false) + rst_stream(3));
    SUBCASE("by DATA behind its end") {
        world.receive(data(1, "x"));
    }
    SUBCASE("by HEADERS behind its end") {
        world.receive(headers(1, request()));
    }
    SUBCASE("by DATA behind its reset") {
        world.receive(data(3, "x"));
    }
    SUBCASE("by HEADERS behind its reset") {
        world.receive(headers(3, request()));
    }
    CHECK(goaway_error(world.sent()) == NGHTTP2_STREAM_CLOSED);
}

TEST_CASE("h2 violations: errors of the protocol that nghttp2 does not see end the connection") {
    World world;
    world.begin();
    SUBCASE("a stream older than the last") {
        world.receive(headers(5, request()) + headers(3, request()));
    }
    SUBCASE("PRIORITY of the connection") {
        world.receive(frame(NGHTTP2_PRIORITY, 0, 0, number(3, 4) + "w"));
    }
    SUBCASE("PRIORITY of a stream before itself") {
        world.receive(frame(NGHTTP2_PRIORITY, 0, 5, number(5, 4) + "w"));
    }
    CHECK(goaway_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
    CHECK(world.server.error() == NGHTTP2_PROTOCOL_ERROR);
    CHECK_FALSE(world.server.is_abused());
}

TEST_CASE("h2 violations: late frames behind a reset of the server are ignored") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1, request("POST"), false);
    world.server.reset(stream, NGHTTP2_INTERNAL_ERROR);
    world.server.release(stream);
    world.sent();
    world.receive(data(1, "late") + headers(1, {{"a", "b"}}));
    CHECK(world.events.empty());
    CHECK(goaway_error(world.sent()) == -1);
}

TEST_CASE("h2 server: a stream that ends inside its trailers leaves them to no other") {
    World world;
    world.begin();
    Stream& first = *world.ask(1, request("POST"), false);
    const std::string trailers = block({{"a", "b"}, {"c", "d"}});
    world.receive(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, trailers.substr(0, 6)));
    world.answer(first);
    world.sent();
    world.wait(500ms);
    CHECK(reset_error(world.sent()) == NGHTTP2_NO_ERROR);
    world.receive(frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, trailers.substr(6)));
    CHECK(world.server.is_idle());
    world.receive(headers(3, request_with({{"Bad", "name"}})));
    REQUIRE(world.events.size() == 1);
    CHECK(world.events[0].kind == Kind::malformed);
    const auto frames = world.sent();
    CHECK(reset_error(frames) == NGHTTP2_PROTOCOL_ERROR);
    CHECK(frames.at(0).head.stream == 3);
}

TEST_CASE("h2 budget: the burst may be taken at once, then what comes back") {
    h2::AbuseBudget budget({3, {100, 1s}});
    h2::Time now{1'000s};
    for (int i = 0; i < 3; ++i) CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    now += 9ms;
    CHECK_FALSE(budget.take(now));
    now += 1ms;
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    now += 1h;
    for (int i = 0; i < 3; ++i) CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
}

TEST_CASE("h2 budget: an answer that ended well gives one back, and never more than the burst") {
    h2::AbuseBudget budget({2, {1, 1h}});
    const h2::Time now{1'000s};
    for (int i = 0; i < 100; ++i) budget.give_one();
    CHECK(budget.take(now));
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
    budget.give_one();
    CHECK(budget.take(now));
    CHECK_FALSE(budget.take(now));
}

TEST_CASE("h2 budget: a frame of DATA earns an update, large ones more, frames cut small none") {
    h2::UpdateAllowance updates;
    CHECK(updates.take());  // the one at the beginning
    CHECK_FALSE(updates.take());
    updates.data_was_sent(10, false);
    CHECK(updates.take());
    CHECK_FALSE(updates.take());
    updates.data_was_sent(16'384, false);
    for (int i = 0; i < 5; ++i) CHECK(updates.take());
    CHECK_FALSE(updates.take());
    updates.data_was_sent(1, true);
    CHECK_FALSE(updates.take());
}

}  // namespace tidegate::h2_abuse_test

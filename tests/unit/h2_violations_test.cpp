// Requests and frames that break the rules, each with its outcome.
#include <doctest/doctest.h>

#include "h2_world.hpp"

namespace tidegate::h2_violations_test {

using namespace h2_world;
using h2::Malformed;

namespace {

void check_abused(World& world) {
    CHECK(world.server.is_abused());
    CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(world.server.is_done());
}

}  // namespace

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

}  // namespace tidegate::h2_violations_test

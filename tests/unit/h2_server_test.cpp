#include <array>

#include <doctest/doctest.h>

#include "h2_world.hpp"

namespace tidegate::h2_server_test {

using namespace h2_world;

TEST_CASE("h2 server: the first frames announce its settings and the connection's window") {
    Settings settings;
    settings.streams = 7;
    settings.head.bytes = 4'096;
    World world(settings);
    const auto frames = world.sent();
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].is(NGHTTP2_SETTINGS));
    const std::string& payload = frames[0].payload;
    CHECK(payload == number(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2) + number(7, 4) +
                         number(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2) + number(262'144, 4) +
                         number(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 2) + number(4'096, 4) +
                         number(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 2) + number(1, 4));
    CHECK(frames[1].is(NGHTTP2_WINDOW_UPDATE));
    CHECK(frames[1].word(0) == 1'048'576 - 65'535);
}

TEST_CASE("h2 server: RFC 8441 is announced, and its requests arrive, where a route allows it") {
    Settings settings;
    settings.connect_protocol = true;
    World world(settings);
    world.receive(preface());
    const auto frames = world.sent();
    CHECK(frames[0].payload.ends_with(number(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 2) +
                                      number(1, 4)));
    FieldList fields = request("CONNECT", "/chat");
    fields.insert(fields.begin(), {":protocol", "websocket"});
    Stream* const stream = world.ask(1, fields, false);
    REQUIRE(stream);
    CHECK(stream->protocol() == "websocket");
    CHECK(stream->head().path == "/chat");
}

TEST_CASE("h2 server: a request arrives with its body, its trailers and its end") {
    World world;
    world.begin();
    world.receive(headers(1, request("POST", "/up?x=1"), false) + data(1, "hello ") +
                  data(1, "world") + headers(1, {{"x-sum", "11"}}));
    REQUIRE(world.events.size() == 4);
    Stream& stream = *world.events[0].stream;
    CHECK(world.events[0].kind == Kind::request);
    CHECK(stream.id() == 1);
    CHECK(stream.has_body());
    CHECK(stream.head().method == "POST");
    CHECK(stream.head().path == "/up");
    CHECK(stream.head().query == "?x=1");
    CHECK(world.body(1) == "hello world");
    CHECK(world.events[3].kind == Kind::end);
    REQUIRE(stream.trailers().size() == 1);
    CHECK(stream.trailers()[0].value == "11");
    CHECK(stream.has_ended());
}

TEST_CASE("h2 server: a head without a body ends at once") {
    World world;
    world.begin();
    Stream* const stream = world.ask(1);
    REQUIRE(stream);
    CHECK_FALSE(stream->has_body());
    CHECK(world.event(Kind::end, 1));
}

TEST_CASE("h2 server: wherever the bytes are cut, the events are the same") {
    const std::string bytes =
        preface() + headers(1, request("POST"), false) + data(1, std::string(300, 'x')) + ping() +
        frame(NGHTTP2_PRIORITY, 0, 1, number(0, 5)) + headers(3, request_with({{"Bad", "name"}})) +
        headers(1, {{"a", "b"}}) + rst_stream(1);
    for (const std::size_t portion :
         {std::size_t{1}, std::size_t{2}, std::size_t{7}, bytes.size()}) {
        CAPTURE(portion);
        World world;
        std::string told;
        for (std::size_t at = 0; at < bytes.size(); at += portion) {
            world.receive(std::string_view(bytes).substr(at, portion));
            for (const Event& event : world.events) {
                if (event.kind != Kind::body) told += "rbeRdm"[static_cast<int>(event.kind)];
            }
        }
        CHECK(told ==
              "rme"
              "R");
    }
}

TEST_CASE(
    "h2 server: a reset of the client is an event, and later frames of the stream are ignored") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1);
    world.receive(rst_stream(1, NGHTTP2_CANCEL));
    const Event* const reset = world.event(Kind::reset, 1);
    REQUIRE(reset);
    CHECK(reset->error == NGHTTP2_CANCEL);
    CHECK(reset->malformed == h2::Malformed::none);
    CHECK(stream.is_closed());
    world.server.send_head(stream, 200, "", true);
    const std::array<std::string_view, 1> pieces{"late"};
    world.server.offer(stream, pieces, true);
    CHECK(world.sent().empty());
    world.server.release(stream);
    CHECK(world.server.is_idle());
}

TEST_CASE("h2 server: the events of a stream that is released meanwhile have no owner") {
    World world;
    world.begin();
    world.receive(headers(1, request("POST"), false) + data(1, "abc"));
    REQUIRE(world.events.size() == 2);
    int owner = 0;
    world.events[0].stream->owner = &owner;
    world.answer(*world.events[0].stream);
    CHECK(world.events[1].stream->owner == nullptr);
    CHECK(world.events[1].stream->id() == 1);
}

TEST_CASE("h2 server: the client gets room as its bytes are consumed, and no sooner") {
    Settings settings;
    settings.stream_window = 65'535;
    World world(settings);
    world.begin();
    Stream& stream = *world.ask(1, request("POST"), false);
    const std::string content(16'384, 'x');
    for (int i = 0; i < 3; ++i) world.receive(data(1, content));
    CHECK_FALSE(find(world.sent(), NGHTTP2_WINDOW_UPDATE));
    world.server.consume(stream, 40'000);
    const auto frames = world.sent();
    const Frame* const update = find(frames, NGHTTP2_WINDOW_UPDATE);
    REQUIRE(update);
    CHECK(update->head.stream == 1);
    CHECK(update->word(0) == 40'000);
}

TEST_CASE("h2 server: what a released stream left unread is room on the connection again") {
    Settings settings;
    settings.connection_window = 65'535;
    World world(settings);
    world.begin();
    Stream& stream = *world.ask(1, request("POST"), false);
    const std::string content(16'384, 'x');
    for (int i = 0; i < 3; ++i) world.receive(data(1, content));
    world.answer(stream);
    const auto frames = world.sent();
    const Frame* const update = find(frames, NGHTTP2_WINDOW_UPDATE);
    REQUIRE(update);
    CHECK(update->head.stream == 0);
    CHECK(update->word(0) == 3 * 16'384);
}

TEST_CASE("h2 server: a stream over those in service is refused, also behind resets") {
    Settings settings;
    settings.streams = 2;
    World world(settings);
    world.begin();
    Stream& first = *world.ask(1);
    world.ask(3);
    world.receive(rst_stream(1) + rst_stream(3));
    SUBCASE("while the coroutines of those that were reset go on") {
        CHECK_FALSE(world.ask(5));
        CHECK(reset_error(world.sent()) == NGHTTP2_REFUSED_STREAM);
    }
    SUBCASE("not once one of them has ended") {
        world.server.release(first);
        CHECK(world.ask(5));
    }
}

TEST_CASE("h2 server: a stream whose answer is out makes room for the next") {
    Settings settings;
    settings.streams = 1;
    World world(settings);
    world.begin();
    Stream& first = *world.ask(1);
    world.server.send_head(first, 200, "", false);
    world.sent();
    // Its coroutine still writes the log.
    CHECK(world.ask(3));
    world.server.release(first);
}

}  // namespace tidegate::h2_server_test

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
    CHECK(world.events[0].kind == Kind::head);
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

TEST_CASE("h2 server: an answer goes out as head, content and end") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 203, "Content-Type: text/plain\r\nConnection: close\r\n", true);
    const std::array<std::string_view, 2> pieces{"one ", "two"};
    world.server.offer(stream, pieces, true);
    CHECK_FALSE(stream.is_taking());
    const auto frames = world.sent();
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].fields == FieldList{{":status", "203"}, {"content-type", "text/plain"}});
    CHECK_FALSE(frames[0].ends_stream());
    CHECK(frames[1].payload == "one two");
    CHECK(frames[1].ends_stream());
    CHECK(world.event(Kind::drained, 1));
    CHECK(stream.is_sent());
    CHECK(stream.is_taking());
    world.server.release(stream);
    CHECK(world.server.streams() == 0);
    CHECK(world.server.is_idle());
}

TEST_CASE(
    "h2 server: content comes when it is there, and a stream without it lets others go first") {
    World world;
    world.begin();
    Stream& slow = *world.ask(1);
    Stream& quick = *world.ask(3);
    world.server.send_head(slow, 200, "", true);
    world.server.send_head(quick, 200, "", true);
    const std::array<std::string_view, 1> piece{"content"};
    world.server.offer(quick, piece, true);
    CHECK(world.sent().size() == 3);
    world.server.offer(slow, piece, false);
    auto frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].head.stream == 1);
    CHECK_FALSE(frames[0].ends_stream());
    world.server.offer(slow, {}, true);
    frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].payload.empty());
    CHECK(frames[0].ends_stream());
}

TEST_CASE("h2 server: streams take turns by frame") {
    World world;
    world.begin();
    Stream& first = *world.ask(1);
    // RFC 9218 asks for the other order; the proxy ignores it.
    Stream& second = *world.ask(3, request_with({{"priority", "u=0"}}));
    const std::string content(32'000, 'x');
    const std::array<std::string_view, 1> pieces{content};
    for (Stream* const stream : {&first, &second}) {
        world.server.send_head(*stream, 200, "", true);
        world.server.offer(*stream, pieces, true);
    }
    std::vector<std::uint32_t> order;
    for (const Frame& frame : world.sent(65'536)) {
        if (frame.is(NGHTTP2_DATA)) order.push_back(frame.head.stream);
    }
    CHECK(order == std::vector<std::uint32_t>{1, 3, 1, 3});
}

TEST_CASE("h2 server: trailers end an answer") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    http::Fields trailers{{http::FieldName::other, "Grpc-Status", "0"},
                          {http::FieldName::content_length, "Content-Length", "3"}};
    const FieldList expected{{"grpc-status", "0"}};
    std::array<std::string_view, 1> pieces{"abc"};
    SUBCASE("behind content") {
        world.server.offer(stream, pieces, true, &trailers);
        CHECK_FALSE(stream.is_taking());
        const auto frames = world.sent();
        REQUIRE(frames.size() == 3);
        CHECK(frames[1].payload == "abc");
        CHECK_FALSE(frames[1].ends_stream());
        CHECK(frames[2].fields == expected);
        CHECK(frames[2].ends_stream());
    }
    SUBCASE("without content") {
        world.server.offer(stream, {}, true, &trailers);
        CHECK_FALSE(stream.is_taking());
        const auto frames = world.sent();
        REQUIRE(frames.size() == 2);
        CHECK(frames[1].fields == expected);
        CHECK(frames[1].ends_stream());
    }
    SUBCASE("none that may be sent") {
        trailers.erase(trailers.begin());
        world.server.offer(stream, {}, true, &trailers);
        const auto frames = world.sent();
        REQUIRE(frames.size() == 2);
        CHECK(frames[1].is(NGHTTP2_DATA));
        CHECK(frames[1].ends_stream());
    }
    CHECK(world.event(Kind::drained, 1));
    CHECK(stream.is_sent());
    CHECK(stream.is_taking());
}

TEST_CASE("h2 server: interim answers come before the final one") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1, request("PUT"), false);
    world.server.send_interim(stream, 100, "");
    world.server.send_head(stream, 204, "", false);
    const auto frames = world.sent();
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].fields == FieldList{{":status", "100"}});
    CHECK_FALSE(frames[0].ends_stream());
    CHECK(frames[1].fields == FieldList{{":status", "204"}});
    CHECK(frames[1].ends_stream());
}

TEST_CASE("h2 server: an early answer goes out and leaves the stream to its client") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1, request("PUT"), false);
    world.server.send_head(stream, 413, "", false);
    std::vector<Frame> frames;
    SUBCASE("released once the answer is out") {
        frames = world.sent();
        world.server.release(stream);
        CHECK(world.sent().empty());
    }
    SUBCASE("released before that") {
        world.server.release(stream);
        frames = world.sent();
    }
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].ends_stream());
    CHECK(world.server.streams() == 0);
    CHECK(world.server.deadline() == world.now + 500ms);
}

TEST_CASE("h2 server: after an early answer the client has half a second to end its request") {
    World world;
    world.begin();
    world.answer(*world.ask(1, request("PUT"), false));
    world.sent();
    // Frames that are on their way are ignored.
    world.receive(data(1, "late"));
    CHECK(world.events.empty());
    SUBCASE("it ends it") {
        world.receive(data(1, "st", true));
        CHECK(world.events.empty());
        CHECK(world.sent().empty());
        CHECK(world.server.is_idle());
        world.wait(500ms);
        CHECK(world.sent().empty());
    }
    SUBCASE("with trailers") {
        world.receive(headers(1, {{"a", "b"}}));
        CHECK(world.sent().empty());
        CHECK(world.server.is_idle());
    }
    SUBCASE("it resets it") {
        world.receive(rst_stream(1, NGHTTP2_CANCEL));
        CHECK(world.sent().empty());
        CHECK(world.server.is_idle());
    }
    SUBCASE("else the stream is reset, without a fault") {
        world.wait(499ms);
        CHECK(world.sent().empty());
        world.wait(1ms);
        CHECK(reset_error(world.sent()) == NGHTTP2_NO_ERROR);
        CHECK(world.server.is_idle());
        world.receive(data(1, "later"));
        CHECK(world.events.empty());
        CHECK(goaway_error(world.sent()) == -1);
    }
}

TEST_CASE("h2 server: each early answer has a half second of its own") {
    World world;
    world.begin();
    Stream& first = *world.ask(1, request("PUT"), false);
    Stream& second = *world.ask(3, request("PUT"), false);
    world.answer(first);
    world.sent();
    world.wait(400ms);
    world.answer(second);
    world.sent();
    world.wait(100ms);
    auto frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].head.stream == 1);
    CHECK(world.server.deadline() == world.now + 400ms);
    world.wait(400ms);
    frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].head.stream == 3);
}

TEST_CASE("h2 server: an announced body that no window holds is reset with the early answer") {
    Settings settings;
    settings.stream_window = 100'000;
    World world(settings);
    world.begin();
    const auto put = [](std::string length) {
        FieldList fields = request("PUT");
        fields.push_back({"content-length", std::move(length)});
        return fields;
    };
    world.answer(*world.ask(1, put("100000"), false));
    CHECK(reset_error(world.sent()) == -1);
    world.answer(*world.ask(3, put("100001"), false));
    CHECK(reset_error(world.sent()) == NGHTTP2_NO_ERROR);
}

TEST_CASE("h2 server: what comes behind an early answer opens no window of its stream") {
    Settings settings;
    settings.stream_window = 65'535;
    World world(settings);
    world.begin();
    world.answer(*world.ask(1, request("PUT"), false));
    world.sent();
    const std::string piece(16'000, 'x');
    for (int i = 0; i < 4; ++i) world.receive(data(1, piece));
    for (const Frame& frame : world.sent()) CHECK(frame.head.stream == 0);
    world.receive(data(1, piece));
    CHECK(reset_error(world.sent()) == NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_CASE("h2 server: an answer that breaks off is reset and never ended") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    const std::array<std::string_view, 1> pieces{"half"};
    world.server.offer(stream, pieces, false);
    world.sent();
    SUBCASE("by reset()") {
        world.server.reset(stream, NGHTTP2_INTERNAL_ERROR);
    }
    SUBCASE("by release() before its end") {}
    world.server.release(stream);
    const auto frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(reset_error(frames) == NGHTTP2_INTERNAL_ERROR);
    CHECK(world.server.is_idle());
}

TEST_CASE("h2 server: the client's window bounds what is taken, and is waited for") {
    World world;
    world.receive(preface({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 5}}));
    world.sent();
    Stream& stream = *world.ask(1);
    world.server.send_head(stream, 200, "", true);
    const std::array<std::string_view, 2> pieces{"12345", "6789"};
    world.server.offer(stream, pieces, true);
    auto frames = world.sent();
    REQUIRE(frames.size() == 2);
    CHECK(frames[1].payload == "12345");
    CHECK_FALSE(stream.is_taking());
    CHECK_FALSE(world.event(Kind::drained));
    CHECK_FALSE(world.server.wants_write());
    world.receive(window_update(1, 100));
    frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].payload == "6789");
    CHECK(frames[0].ends_stream());
}

TEST_CASE("h2 server: small buffers get the same bytes") {
    World world;
    world.begin();
    Stream& stream = *world.ask(1);
    const std::string long_field(5'000, 'v');
    world.server.send_head(stream, 200, "X-Long: " + long_field + "\r\n", true);
    const std::string content(20'000, 'c');
    const std::array<std::string_view, 1> pieces{content};
    world.server.offer(stream, pieces, true);
    std::string body;
    for (const Frame& frame : world.sent(2'048)) {
        if (frame.is(NGHTTP2_HEADERS)) CHECK(frame.fields.at(1).second == long_field);
        if (frame.is(NGHTTP2_DATA)) body += frame.payload;
    }
    CHECK(body == content);
    CHECK_FALSE(world.reader.has_rest());
    CHECK(stream.is_sent());
}

TEST_CASE("h2 server: a drain warns, waits a round trip, and lets streams end") {
    World world;
    world.begin();
    Stream& before = *world.ask(1);
    world.server.drain(world.now);
    auto frames = world.sent();
    const Frame* goaway = find(frames, NGHTTP2_GOAWAY);
    REQUIRE(goaway);
    CHECK(goaway->word(0) == 0x7fffffff);
    REQUIRE(find(frames, NGHTTP2_PING));
    Stream* const meanwhile = world.ask(3);
    REQUIRE(meanwhile);
    SUBCASE("the client answers the PING") {
        world.receive(frame(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, std::string(8, '\0')));
    }
    SUBCASE("a second is over") {
        CHECK(world.server.deadline() == world.now + 1s);
        world.now += 1s;
        world.events.clear();
        world.server.tick(world.now, world.events);
    }
    // It came before the last GOAWAY was out: the client may send it elsewhere.
    CHECK_FALSE(world.ask(5));
    frames = world.sent();
    goaway = find(frames, NGHTTP2_GOAWAY);
    REQUIRE(goaway);
    CHECK(goaway->word(0) == 3);
    CHECK(goaway->word(4) == NGHTTP2_NO_ERROR);
    CHECK(reset_error(frames) == NGHTTP2_REFUSED_STREAM);
    CHECK_FALSE(world.ask(7));
    CHECK(world.sent().empty());
    CHECK_FALSE(world.server.is_done());
    world.answer(before);
    world.answer(*meanwhile);
    CHECK(world.sent().size() == 2);
    CHECK(world.server.is_done());
    CHECK(world.server.error() == NGHTTP2_NO_ERROR);
}

TEST_CASE("h2 server: frames of streams behind the last GOAWAY are ignored") {
    World world;
    world.begin();
    world.ask(1);
    world.server.finish();
    world.sent();
    world.receive(headers(3, request("POST"), false) + data(3, "late") + headers(3, {{"a", "b"}}));
    CHECK(world.events.empty());
    CHECK(goaway_error(world.sent()) == -1);
}

TEST_CASE("h2 server: an idle connection ends with one GOAWAY") {
    World world;
    world.begin();
    world.answer(*world.ask(1));
    world.sent();
    world.server.finish();
    CHECK(goaway_error(world.sent()) == NGHTTP2_NO_ERROR);
    CHECK(world.server.is_done());
}

TEST_CASE("h2 server: a connection of very many streams is drained") {
    World world;
    world.begin();
    for (std::uint32_t i = 0; i + 1 < h2::kStreamsOfConnection; ++i) {
        Stream* const stream = world.ask(2 * i + 1);
        REQUIRE(stream);
        world.answer(*stream);
        world.sent();
    }
    CHECK_FALSE(world.server.is_draining());
    world.ask(2 * h2::kStreamsOfConnection - 1);
    CHECK(world.server.is_draining());
    CHECK(goaway_error(world.sent()) == NGHTTP2_NO_ERROR);
}

TEST_CASE("h2 server: SETTINGS that are not acknowledged in time end the connection") {
    World world;
    world.receive(preface());
    world.sent();
    CHECK(world.server.deadline() == world.now + 10s);
    world.now += 10s;
    world.server.tick(world.now, world.events);
    CHECK(goaway_error(world.sent()) == NGHTTP2_SETTINGS_TIMEOUT);
    CHECK(world.server.is_done());
}

TEST_CASE("h2 server: a header block has to come to its end in time") {
    World world;
    world.begin();
    CHECK(world.server.deadline() == h2::Time::max());
    const std::string bytes = block(request());
    world.receive(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, bytes.substr(0, 5)));
    CHECK(world.server.deadline() == world.now + 10s);
    SUBCASE("it does") {
        world.receive(frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, bytes.substr(5)));
        CHECK(world.stream(1));
        CHECK(world.server.deadline() == h2::Time::max());
    }
    SUBCASE("it does not") {
        world.now += 10s;
        world.server.tick(world.now, world.events);
        CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

TEST_CASE("h2 server: a client that does not speak HTTP/2 is closed without an answer") {
    World world;
    world.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(world.server.is_done());
    CHECK(world.events.empty());
}

TEST_CASE("h2 server: a client of nghttp2 gets what it asks for") {
    // What its upload is, and what it gets.
    struct Client {
        std::string content = std::string(200'000, 'u');
        std::string answer;
        std::uint32_t closed_with = 99;
    } client;
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t, const std::uint8_t* bytes,
                      std::size_t count, void* self) {
            static_cast<Client*>(self)->answer.append(reinterpret_cast<const char*>(bytes), count);
            return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, std::int32_t, std::uint32_t error, void* self) {
            static_cast<Client*>(self)->closed_with = error;
            return 0;
        });
    nghttp2_session* session = nullptr;
    nghttp2_session_client_new(&session, callbacks, &client);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    const FieldList fields = request("POST");
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
        const auto bytes = [](const std::string& text) {
            return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
        };
        list.push_back({bytes(name), bytes(value), name.size(), value.size(), 0});
    }
    nghttp2_data_provider upload{
        {.ptr = &client},
        [](nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t max,
           std::uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
            std::string& left = static_cast<Client*>(source->ptr)->content;
            const std::size_t count = left.copy(reinterpret_cast<char*>(buffer), max);
            left.erase(0, count);
            if (left.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
            return static_cast<ssize_t>(count);
        }};
    nghttp2_submit_request(session, nullptr, list.data(), list.size(), &upload, nullptr);

    World world;
    std::string echoed;
    Stream* stream = nullptr;
    bool has_ended = false;
    std::array<std::string_view, 1> pieces;
    for (int turn = 0; turn < 200 && client.closed_with == 99; ++turn) {
        const std::uint8_t* bytes = nullptr;
        const auto count = nghttp2_session_mem_send(session, &bytes);
        world.receive({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count)});
        for (const Event& event : world.events) {
            if (event.kind == Kind::head) {
                stream = event.stream;
                world.server.send_head(*stream, 200, "", true);
            } else if (event.kind == Kind::body) {
                echoed += event.bytes;
                world.server.consume(*stream, event.bytes.size());
            } else if (event.kind == Kind::end) {
                has_ended = true;
            }
        }
        if (has_ended && stream->is_taking() && !stream->is_sent()) {
            pieces[0] = echoed;
            world.server.offer(*stream, pieces, true);
            has_ended = false;
        }
        char buffer[4'096];
        while (const auto size = world.server.gather(buffer, world.now, world.events)) {
            nghttp2_session_mem_recv(session, reinterpret_cast<const std::uint8_t*>(buffer), size);
        }
    }
    CHECK(client.closed_with == NGHTTP2_NO_ERROR);
    CHECK(client.answer == std::string(200'000, 'u'));
    nghttp2_session_del(session);
}

}  // namespace tidegate::h2_server_test

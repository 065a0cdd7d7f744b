#include <array>

#include <doctest/doctest.h>

#include "h2_world.hpp"

namespace tidegate::h2_end_test {

using namespace h2_world;

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
            if (event.kind == Kind::request) {
                stream = event.stream;
                world.server.send_head(*stream, 200, "", true);
            } else if (event.kind == Kind::body) {
                echoed += event.bytes;
                world.server.consume(*stream, event.bytes.size());
            } else if (event.kind == Kind::end) {
                has_ended = true;
            }
        }
        if (has_ended && stream->is_taking() && !stream->is_answered()) {
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

}  // namespace tidegate::h2_end_test

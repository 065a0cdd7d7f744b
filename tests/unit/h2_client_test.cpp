#include <array>

#include "h2_client_world.hpp"

namespace tidegate::h2_client_test {

using namespace h2_client_world;
using h2::Malformed;

namespace {

// Requests that are sent and then given up, so many, or until the connection has had enough.
int reset_requests(ClientWorld& world, int count) {
    int done = 0;
    while (done < count && !world.client.has_reset_many()) {
        ClientStream& stream = world.ask();
        world.sent();
        world.client.release(stream);
        world.sent();
        ++done;
    }
    return done;
}

std::string part_of_block(std::uint8_t type, std::uint32_t stream, std::string_view bytes,
                          bool is_last = false) {
    return frame(type, is_last ? NGHTTP2_FLAG_END_HEADERS : 0, stream, bytes);
}

}  // namespace

// The client's side of HTTP/2: requests, answers, and the rules for answers.

TEST_CASE("h2 client: it sends its settings before anything else") {
    ClientWorld world;
    const auto frames = world.sent();
    REQUIRE(!frames.empty());
    CHECK(frames[0].is(NGHTTP2_SETTINGS));
    std::string wanted;
    for (const auto& [id, value] :
         std::vector<std::pair<int, std::uint32_t>>{{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                                    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 32'768},
                                                    {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}}) {
        wanted += number(static_cast<std::uint64_t>(id), 2) + number(value, 4);
    }
    CHECK(frames[0].payload == wanted);
    // The window of the connection is never what a stream waits for.
    const Frame* const window = find_for(frames, NGHTTP2_WINDOW_UPDATE, 0);
    REQUIRE(window != nullptr);
    CHECK(window->word(0) == 2'147'483'647 - 65'535);
}

TEST_CASE("h2 client: a request has its pseudo-fields first, and Host is the authority") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    const auto frames = world.sent();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].ends_stream());
    CHECK(frames[0].fields == FieldList{{":method", "GET"},
                                        {":scheme", "http"},
                                        {":path", "/a?b"},
                                        {":authority", "a.example"},
                                        {"x-one", "1"}});
    CHECK(stream.id() == 1);
    CHECK(stream.is_sent());
}

TEST_CASE("h2 client: an answer with body and trailers") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(headers(1, answer("200", {{"content-type", "a/b"}}), false) + data(1, "abc"));
    CHECK(world.has(ClientKind::head, stream));
    REQUIRE(stream.next_head() != nullptr);
    CHECK(stream.next_head()->status == 200);
    CHECK(stream.next_head()->reason == "OK");
    CHECK(stream.framing().body == http::BodyKind::chunked);
    CHECK(world.body(stream) == "abc");
    CHECK_FALSE(stream.has_ended());
    world.client.consume(stream, 3);
    world.receive(headers(1, {{"grpc-status", "0"}}));
    CHECK(world.has(ClientKind::end, stream));
    CHECK_FALSE(world.has(ClientKind::reset, stream));
    REQUIRE(stream.trailers().size() == 1);
    CHECK(stream.trailers()[0].name == "grpc-status");
    world.client.release(stream);
    CHECK(world.sent().empty());
    CHECK(world.client.streams() == 0);
}

TEST_CASE("h2 client: an answer may be its head alone, as errors of gRPC are") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(headers(1, answer("200", {{"grpc-status", "12"}})));
    CHECK(stream.has_ended());
    CHECK(stream.next_head()->fields.size() == 1);
    CHECK(stream.framing().body == http::BodyKind::chunked);
    CHECK(stream.trailers().empty());
}

TEST_CASE("h2 client: interim answers come one by one before the final one") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(headers(1, answer("100"), false) +
                  headers(1, answer("103", {{"link", "</a-style-sheet-of-some-length>"}}), false) +
                  headers(1, answer("204")));
    CHECK(stream.next_head()->status == 100);
    stream.drop_interim();
    CHECK(stream.next_head()->status == 103);
    CHECK(stream.next_head()->reason == "Early Hints");
    CHECK(stream.next_head()->fields[0].value == "</a-style-sheet-of-some-length>");
    stream.drop_interim();
    CHECK(stream.next_head()->status == 204);
    CHECK(stream.next_head()->reason == "No Content");
    CHECK(stream.framing().body == http::BodyKind::none);
    CHECK(stream.has_ended());
}

TEST_CASE("h2 client: a server that sends interim answers without end is stopped") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    std::string many;
    for (int i = 0; i < 101; ++i) many += headers(1, answer("102"), false);
    world.receive(many);
    CHECK(world.has(ClientKind::reset, stream));
    CHECK(stream.malformed() == Malformed::order);
    CHECK(reset_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
}

TEST_CASE("h2 client: the body goes as far as the server's window is open") {
    ClientWorld world;
    world.begin({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}});
    ClientStream& stream = world.ask(true, "POST");
    const std::string content(25, 'x');
    const std::array<std::string_view, 1> pieces{content};
    const http::Fields trailers{{http::FieldName::other, "X-Sum", "1"}};
    world.client.offer(stream, pieces, true, &trailers);
    auto frames = world.sent();
    REQUIRE(find(frames, NGHTTP2_DATA) != nullptr);
    CHECK(find(frames, NGHTTP2_DATA)->payload == std::string(10, 'x'));
    CHECK_FALSE(stream.is_taking());
    CHECK(stream.offered_bytes() == 15);
    world.receive(window_update(1, 100));
    frames = world.sent();
    CHECK(find(frames, NGHTTP2_DATA)->payload == std::string(15, 'x'));
    REQUIRE(find(frames, NGHTTP2_HEADERS) != nullptr);
    CHECK(find(frames, NGHTTP2_HEADERS)->fields == FieldList{{"x-sum", "1"}});
    CHECK(find(frames, NGHTTP2_HEADERS)->ends_stream());
    CHECK(stream.is_sent());
    CHECK(world.has(ClientKind::drained, stream));
}

TEST_CASE("h2 client: the server gets room for what was consumed") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    std::string much = headers(1, answer(), false);
    for (int i = 0; i < 4; ++i) much += data(1, std::string(16'383, 'x'));
    world.receive(much);
    CHECK(world.sent().empty());
    world.client.consume(stream, 65'532);
    const auto frames = world.sent();
    REQUIRE(find_for(frames, NGHTTP2_WINDOW_UPDATE, 1) != nullptr);
    CHECK(find_for(frames, NGHTTP2_WINDOW_UPDATE, 1)->word(0) == 65'532);
    // More than the window is the server's fault.
    world.receive(much.substr(much.size() - 4 * (16'383 + 9)) + data(1, "xxxx"));
    world.sent();
    CHECK(world.has(ClientKind::reset, stream));
}

TEST_CASE("h2 client: answers that break the rules are no answers") {
    struct Case {
        std::string what;
        std::string bytes;
        Malformed malformed;
    };
    const std::vector<Case> cases{
        {"no status", headers(1, {{"a", "b"}}), Malformed::pseudo_field},
        {"a status that is none", headers(1, answer("20x")), Malformed::pseudo_field},
        {"101", headers(1, answer("101"), false), Malformed::pseudo_field},
        {"a pseudo-field of requests", headers(1, answer("200", {{":path", "/"}})),
         Malformed::pseudo_field},
        {"upper case", headers(1, answer("200", {{"A", "b"}})), Malformed::field_name},
        {"a line break", headers(1, answer("200", {{"a", "b\r\nc: d"}})), Malformed::line_break},
        {"connection", headers(1, answer("200", {{"connection", "close"}})), Malformed::hop_field},
        {"a control character", headers(1, answer("200", {{"a", "\x01"}})), Malformed::head},
        {"two lengths",
         headers(1, answer("200", {{"content-length", "1"}, {"content-length", "1"}}), false),
         Malformed::length},
        {"too long",
         headers(1, answer("200", {{"content-length", "1"}}), false) + data(1, "ab", true),
         Malformed::length},
        {"too short",
         headers(1, answer("200", {{"content-length", "3"}}), false) + data(1, "ab", true),
         Malformed::length},
        {"no body at all", headers(1, answer("200", {{"content-length", "3"}})), Malformed::length},
        {"a body of 204", headers(1, answer("204"), false) + data(1, "ab", true), Malformed::order},
        {"an end inside an interim answer", headers(1, answer("103")), Malformed::order},
        {"trailers that do not end", headers(1, answer(), false) + headers(1, {{"a", "b"}}, false),
         Malformed::trailers},
        {"trailers with a status", headers(1, answer(), false) + headers(1, answer()),
         Malformed::pseudo_field},
    };
    for (const Case& one : cases) {
        CAPTURE(one.what);
        ClientWorld world;
        world.begin();
        ClientStream& stream = world.ask();
        world.sent();
        world.receive(one.bytes);
        CHECK(world.has(ClientKind::reset, stream));
        CHECK(stream.malformed() == one.malformed);
        CHECK_FALSE(stream.has_ended());
        CHECK(reset_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
        world.client.release(stream);
        CHECK(world.client.has_room());
        CHECK(world.client.error() == NGHTTP2_NO_ERROR);
    }
}

TEST_CASE("h2 client: a body without a head ends the connection") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(data(1, "ab", true));
    CHECK(goaway_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
    CHECK(world.client.is_leaving());
    CHECK_FALSE(stream.has_answered());
}

TEST_CASE("h2 client: an answer to HEAD has a length and no body") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask(false, "HEAD");
    world.sent();
    world.receive(headers(1, answer("200", {{"content-length", "7"}})));
    CHECK(stream.has_ended());
    CHECK(stream.framing().body == http::BodyKind::none);
    CHECK(stream.framing().length == 7);
}

TEST_CASE("h2 client: heads are bounded") {
    h2::ClientSettings settings;
    settings.head = {1'000, 3, 1'000};
    const FieldList four{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
    for (const bool is_large : {false, true}) {
        ClientWorld world(settings);
        world.begin();
        ClientStream& stream = world.ask();
        world.sent();
        world.receive(
            headers(1, answer("200", is_large ? FieldList{{"a", std::string(1'001, 'x')}} : four)));
        CHECK(stream.malformed() == Malformed::head);
    }
    // Far beyond, the connection ends.
    ClientWorld world(settings);
    world.begin();
    world.ask();
    world.sent();
    world.receive(headers(1, answer("200", {{"a", std::string(4'001, 'x')}})));
    CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK(world.client.is_leaving());
}

TEST_CASE("h2 client: the server says how many requests it takes") {
    ClientWorld world;
    CHECK(world.client.streams_max() == 100);
    CHECK_FALSE(world.client.has_settings());
    world.begin({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2}});
    CHECK(world.client.has_settings());
    CHECK(world.client.streams_max() == 2);
    ClientStream& first = world.ask();
    CHECK(world.client.has_room());
    ClientStream& second = world.ask();
    CHECK_FALSE(world.client.has_room());
    world.sent();
    world.receive(headers(1, answer()));
    CHECK(world.client.has_room());
    world.client.release(first);
    world.client.release(second);
    CHECK(reset_error(world.sent()) == NGHTTP2_CANCEL);
    CHECK(world.client.has_room());
    // Before SETTINGS it takes many, but not more than the client wants.
    ClientWorld silent;
    silent.begin();
    CHECK(silent.client.streams_max() == 100);
}

TEST_CASE("h2 client: a refused request was not processed") {
    ClientWorld world;
    world.begin();
    ClientStream& refused = world.ask();
    ClientStream& cancelled = world.ask();
    world.sent();
    world.receive(rst_stream(1, NGHTTP2_REFUSED_STREAM) + rst_stream(3, NGHTTP2_CANCEL));
    CHECK(world.has(ClientKind::reset, refused));
    CHECK(refused.is_unprocessed());
    CHECK(refused.is_refused());
    CHECK_FALSE(refused.is_behind_others());
    CHECK(world.has(ClientKind::reset, cancelled));
    CHECK_FALSE(cancelled.is_unprocessed());
    // A reset is an answer of a kind: the server knows the request.
    CHECK_FALSE(refused.has_answered());
    CHECK(cancelled.has_answered());
}

TEST_CASE("h2 client: GOAWAY names the last request that was processed") {
    ClientWorld world;
    world.begin();
    ClientStream& first = world.ask();
    ClientStream& second = world.ask();
    ClientStream& unsent = world.ask();
    world.sent();
    ClientStream& queued = world.ask();
    world.receive(goaway(1));
    CHECK_FALSE(first.is_closed());
    CHECK(world.has(ClientKind::reset, second));
    CHECK(second.is_unprocessed());
    CHECK(unsent.is_unprocessed());
    // It says nothing about load.
    CHECK_FALSE(second.is_refused());
    CHECK(second.is_behind_others());
    CHECK(world.client.is_leaving());
    CHECK_FALSE(world.client.has_room());
    // What was not sent yet never is.
    world.events.clear();
    const auto frames = world.sent();
    CHECK(find(frames, NGHTTP2_HEADERS) == nullptr);
    CHECK(queued.is_unprocessed());
    CHECK(queued.is_closed());
    world.receive(headers(1, answer()));
    CHECK(first.has_ended());
    for (ClientStream* const stream : {&first, &second, &unsent, &queued}) {
        world.client.release(*stream);
    }
    world.sent();
    CHECK(world.client.is_done());
}

TEST_CASE("h2 client: a GOAWAY that names no request says that the server has taken none") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(goaway(0));
    CHECK(stream.is_unprocessed());
    CHECK_FALSE(stream.is_refused());
    CHECK_FALSE(stream.is_behind_others());
}

TEST_CASE("h2 client: an answer may end before the request does") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask(true, "POST");
    world.sent();
    world.receive(headers(1, answer("413")) + rst_stream(1, NGHTTP2_NO_ERROR));
    CHECK(stream.has_ended());
    CHECK(world.has(ClientKind::reset, stream));
    CHECK_FALSE(stream.is_unprocessed());
    const std::array<std::string_view, 1> pieces{"late"};
    world.client.offer(stream, pieces, true);
    CHECK(stream.is_taking());
    world.client.release(stream);
    CHECK(world.sent().empty());
}

TEST_CASE("h2 client: late frames of a request that was given up do no harm") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.client.release(stream);
    CHECK(reset_error(world.sent()) == NGHTTP2_CANCEL);
    world.receive(headers(1, answer(), false) + data(1, "abc") + headers(1, {{"a", "b"}}));
    CHECK(world.events.empty());
    CHECK(world.sent().empty());
    CHECK_FALSE(world.client.is_leaving());
    // HPACK's table is the same on both sides.
    ClientStream& next = world.ask();
    world.sent();
    world.receive(headers(3, answer()));
    CHECK(next.has_ended());
}

TEST_CASE("h2 client: a server without SETTINGS is given up") {
    ClientWorld world;
    world.sent();
    CHECK(world.client.deadline() == world.now + h2::kSettingsTime);
    world.now += h2::kSettingsTime;
    world.client.tick(world.now, world.events);
    CHECK(goaway_error(world.sent()) == NGHTTP2_SETTINGS_TIMEOUT);
    CHECK(world.client.is_done());
}

TEST_CASE("h2 client: a server that speaks HTTP/1 is recognised") {
    ClientWorld world;
    world.ask();
    world.sent();
    world.receive("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    world.sent();
    CHECK(world.client.error() != NGHTTP2_NO_ERROR);
    CHECK_FALSE(world.client.has_settings());
    CHECK(world.client.is_done());
}

TEST_CASE("h2 client: PING is answered, a push is refused") {
    ClientWorld world;
    world.begin();
    world.receive(ping());
    const auto frames = world.sent();
    REQUIRE(find(frames, NGHTTP2_PING) != nullptr);
    CHECK(find(frames, NGHTTP2_PING)->head.has(NGHTTP2_FLAG_ACK));
    world.receive(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    world.ask();
    world.sent();
    world.receive(
        frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, number(2, 4) + block(request())));
    CHECK(goaway_error(world.sent()) == NGHTTP2_PROTOCOL_ERROR);
}

TEST_CASE("h2 client: pushes that SETTINGS never end are not answered without end") {
    ClientWorld world;
    world.begin();
    world.ask();
    world.sent();
    for (std::uint32_t i = 1; i <= 16; ++i) {
        world.receive(frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1,
                            number(2 * i, 4) + block(request())));
    }
    CHECK_FALSE(world.client.has_failed());
    world.receive(
        frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, number(34, 4) + block(request())));
    CHECK(world.client.has_failed());
}

TEST_CASE("h2 client: an idle session gives its frame buffer back, and ends with GOAWAY") {
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    CHECK_FALSE(world.client.is_idle());
    world.sent();
    world.receive(headers(1, answer()));
    world.client.release(stream);
    CHECK(world.client.is_idle());
    world.client.drop_memory();
    world.client.finish();
    CHECK(goaway_error(world.sent()) == NGHTTP2_NO_ERROR);
    CHECK(world.client.is_done());
}

TEST_CASE("h2 client: however an answer is cut, it is the same") {
    const std::string bytes = settings() + headers(1, answer("103", {{"link", "</a>"}}), false) +
                              headers(1, answer("200", {{"content-length", "5"}}), false) +
                              data(1, "hello") + headers(1, {{"x-sum", "1"}});
    for (std::size_t portion = 1; portion < 12; ++portion) {
        ClientWorld world;
        ClientStream& stream = world.ask();
        world.sent();
        std::string body;
        for (std::size_t at = 0; at < bytes.size(); at += portion) {
            world.receive(bytes.substr(at, portion));
            body += world.body(stream);
        }
        CHECK(body == "hello");
        CHECK(stream.next_head()->status == 103);
        stream.drop_interim();
        CHECK(stream.next_head()->status == 200);
        CHECK(stream.has_ended());
        CHECK(stream.trailers().size() == 1);
    }
}

// What one side of an HTTP/2 connection to a server may cost the requests that share it: the size
// of heads, resets, and the time of a header block.

TEST_CASE("h2 client: a head that is larger than the server takes is not sent") {
    // :method GET, :scheme http, :path /a?b, :authority a.example, x-one 1, with 32 bytes each.
    constexpr std::uint32_t kBytes = 10 + 11 + 9 + 19 + 6 + 5 * 32;
    ClientWorld exact;
    exact.begin({{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kBytes}});
    ClientStream& fits = exact.ask();
    CHECK_FALSE(fits.is_too_large());
    CHECK(exact.sent().size() == 1);

    ClientWorld world;
    world.begin({{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kBytes - 1}});
    ClientStream& stream = world.ask();
    CHECK(stream.is_too_large());
    CHECK(stream.is_closed());
    CHECK_FALSE(stream.is_unprocessed());
    CHECK(world.sent().empty());
    CHECK(world.client.streams() == 1);
    world.client.release(stream);
    CHECK(world.client.streams() == 0);
    CHECK_FALSE(world.client.is_leaving());
    CHECK_FALSE(world.client.has_reset_many());
    // The stream is as new for the next request.
    world.receive(settings({{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kBytes}}));
    world.sent();
    CHECK_FALSE(world.ask().is_too_large());
    CHECK(find_for(world.sent(), NGHTTP2_HEADERS, 1) != nullptr);
}

TEST_CASE("h2 client: what the server took the last time holds until it says so again") {
    h2::ClientSettings known;
    known.list_bytes = 100;
    ClientWorld world(known);
    ClientStream& early = world.ask();
    CHECK(early.is_too_large());
    world.client.release(early);
    world.begin();
    CHECK(world.client.list_bytes_max() == UINT32_MAX);
    CHECK_FALSE(world.ask().is_too_large());
}

TEST_CASE("h2 client: trailers that are larger than the server takes are not sent") {
    ClientWorld world;
    world.begin({{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 300}});
    ClientStream& stream = world.ask(true, "POST");
    const std::string_view body = "body";
    world.client.offer(stream, {&body, 1}, false);
    CHECK(find_for(world.sent(), NGHTTP2_DATA, 1) != nullptr);
    http::Fields trailers;
    const std::string value(300 - 32 - 5, 'x');
    SUBCASE("one byte too much") {
        const std::string larger = value + 'x';
        trailers.push_back({.name = "x-sum", .value = larger});
        world.client.offer(stream, {}, true, &trailers);
        CHECK(stream.is_too_large());
        CHECK(stream.is_closed());
        const auto sent = world.sent();
        CHECK(find_for(sent, NGHTTP2_HEADERS, 1) == nullptr);
        CHECK(find_for(sent, NGHTTP2_RST_STREAM, 1) != nullptr);
        CHECK_FALSE(world.client.is_leaving());
    }
    SUBCASE("exactly as large") {
        trailers.push_back({.name = "x-sum", .value = value});
        world.client.offer(stream, {}, true, &trailers);
        CHECK_FALSE(stream.is_too_large());
        CHECK(find_for(world.sent(), NGHTTP2_HEADERS, 1) != nullptr);
    }
    world.client.release(stream);
}

TEST_CASE("h2 client: a connection on which many requests were reset should get no more") {
    ClientWorld world;
    world.begin();
    CHECK(reset_requests(world, 99) == 99);
    CHECK_FALSE(world.client.has_reset_many());
    CHECK(reset_requests(world, 10) == 1);
    CHECK(world.client.has_reset_many());
    // The connection reports it and no more: its present requests go on.
    CHECK_FALSE(world.client.is_leaving());
    world.now += 1h;
    ClientStream& stream = world.ask();
    world.sent();
    world.receive(headers(stream.id(), answer()));
    CHECK(stream.has_ended());
    CHECK(world.client.has_reset_many());
}

TEST_CASE("h2 client: there is a reset for each request in flight") {
    ClientWorld world;
    world.begin();
    CHECK(world.client.requests_max() == 100);
    CHECK(reset_requests(world, 90) == 90);
    std::vector<ClientStream*> streams;
    while (world.client.has_room()) streams.push_back(&world.ask());
    CHECK(streams.size() == 10);
    world.sent();
    CHECK_FALSE(world.client.has_reset_many());
    // Resets come back with time.
    world.now += 1s;
    world.client.tick(world.now, world.events);
    CHECK(world.client.requests_max() == 13);
    for (ClientStream* const stream : streams) world.client.release(*stream);
    CHECK(world.client.requests_max() == 3);
    CHECK_FALSE(world.client.has_reset_many());
}

TEST_CASE("h2 client: a few resets a second wear no connection out, nor do answers") {
    ClientWorld world;
    world.begin();
    CHECK(reset_requests(world, 99) == 99);
    for (int i = 0; i < 300; ++i) {
        world.now += 334ms;
        CHECK(reset_requests(world, 1) == 1);
        ClientStream& stream = world.ask();
        world.sent();
        world.receive(headers(stream.id(), answer()));
        world.client.release(stream);
    }
    CHECK_FALSE(world.client.has_reset_many());
}

TEST_CASE("h2 client: a header block has a time of its own, however it drips") {
    const std::string whole = block(answer("200", {{"a", "b"}}));
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    CHECK(world.client.deadline() == h2::Time::max());
    world.receive(part_of_block(NGHTTP2_HEADERS, 1, whole.substr(0, 1)));
    const h2::Time due = world.client.deadline();
    CHECK(due == world.now + 10s);
    world.now += 9s;
    world.receive(part_of_block(NGHTTP2_CONTINUATION, 1, whole.substr(1, 1)));
    CHECK(world.client.deadline() == due);
    world.client.tick(world.now, world.events);
    CHECK(world.client.error() == NGHTTP2_NO_ERROR);
    SUBCASE("in time") {
        world.receive(part_of_block(NGHTTP2_CONTINUATION, 1, whole.substr(2), true));
        CHECK(world.client.deadline() == h2::Time::max());
        CHECK(stream.next_head() != nullptr);
    }
    SUBCASE("too late") {
        world.now += 1s;
        world.client.tick(world.now, world.events);
        CHECK(goaway_error(world.sent()) == NGHTTP2_ENHANCE_YOUR_CALM);
        CHECK(world.client.is_done());
    }
    SUBCASE("too late, and the server takes nothing") {
        world.now += 1s;
        world.client.tick(world.now, world.events);
        CHECK(world.client.wants_write());
        CHECK(world.client.deadline() == world.now + 1s);
        world.now += 1s;
        world.client.tick(world.now, world.events);
        CHECK(world.client.has_failed());
        CHECK(world.client.deadline() == h2::Time::max());
    }
}

TEST_CASE("h2 client: the block of a request that was given up has that time, too") {
    const std::string whole = block(answer());
    ClientWorld world;
    world.begin();
    ClientStream& stream = world.ask();
    world.sent();
    world.client.release(stream);
    world.sent();
    world.receive(part_of_block(NGHTTP2_HEADERS, 1, whole.substr(0, 1)));
    CHECK(world.client.deadline() == world.now + 10s);
    // And once it is whole, none, though nothing else comes.
    world.receive(part_of_block(NGHTTP2_CONTINUATION, 1, whole.substr(1), true));
    CHECK(world.client.deadline() == h2::Time::max());
    CHECK_FALSE(world.client.has_failed());
}

TEST_CASE("h2 client: a block that begins with the bytes that end another has its own time") {
    ClientWorld world;
    world.begin();
    world.ask();
    world.ask();
    world.sent();
    const std::string first = block(answer("200", {{"a", "b"}}));
    world.receive(part_of_block(NGHTTP2_HEADERS, 1, first.substr(0, 1)));
    world.now += 9s;
    // The last byte of the block comes with the head of the next.
    const std::string rest = part_of_block(NGHTTP2_CONTINUATION, 1, first.substr(1), true);
    world.receive(rest.substr(0, rest.size() - 1));
    world.receive(rest.substr(rest.size() - 1) + part_of_block(NGHTTP2_HEADERS, 3, "\x88"));
    CHECK(world.client.deadline() == world.now + 10s);
}

}  // namespace tidegate::h2_client_test

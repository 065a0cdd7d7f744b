// What one side of an HTTP/2 connection to a server may cost the requests that share it: the size
// of heads, resets, and the time of a header block.
#include "h2_client_world.hpp"

namespace tidegate::h2_client_bounds_test {

using namespace h2_client_world;

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

}  // namespace

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

namespace {

std::string part_of_block(std::uint8_t type, std::uint32_t stream, std::string_view bytes,
                          bool is_last = false) {
    return frame(type, is_last ? NGHTTP2_FLAG_END_HEADERS : 0, stream, bytes);
}

}  // namespace

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

}  // namespace tidegate::h2_client_bounds_test

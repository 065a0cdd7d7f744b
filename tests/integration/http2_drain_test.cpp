// What happens to streams when the program drains or reads its configuration anew, and when their
// connection is idle.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_world.hpp"

namespace tidegate::test::http2_drain_test {

namespace {

constexpr int kConnections = 100;
constexpr std::uint32_t kRequestsEach = 100;

// The fate of each request that a client has sent.
struct Tally {
    std::atomic<int> answered{0};
    std::atomic<int> refused{0};  // the client may repeat it, and be counted once
    std::atomic<int> lost{0};
    std::atomic<int> unfinished{0};  // connections that were closed before all was asked
};

// A client that reacts to GOAWAY only when the connection ends, like one whose requests cross the
// frame on their way.
class Heedless {
  public:
    Heedless(std::uint16_t port, Tally& tally) : wire_(port), tally_(tally) {}

    void ask(std::uint32_t requests) {
        bool is_open = true;
        while (is_open && asked_ < requests) {
            std::string bytes;
            for (int i = 0; i < 4; ++i) {
                const std::uint32_t id = stream_of(asked_++);
                bytes += h2_headers(id, h2_request());
                in_flight_[id] = false;
            }
            is_open = wire_.send(bytes);
            while (!in_flight_.empty() && hear()) {
            }
            is_open = is_open && in_flight_.empty();
        }
        if (asked_ < requests) ++tally_.unfinished;
        for (const auto& [id, has_head] : in_flight_) {
            ++(!has_head && id > last_stream_ ? tally_.refused : tally_.lost);
        }
    }

  private:
    // False: the connection has ended.
    bool hear() {
        std::optional<H2Frame> frame;
        try {
            frame = wire_.next();
        } catch (const std::exception&) {
            return false;  // nothing came: what is in flight is lost
        }
        if (!frame) return false;
        if (frame->is(NGHTTP2_GOAWAY)) last_stream_ = frame->word(0) & kLastOfAll;
        const auto its = in_flight_.find(frame->stream);
        if (its == in_flight_.end()) return true;
        if (frame->is(NGHTTP2_RST_STREAM)) {
            ++(frame->error() == NGHTTP2_REFUSED_STREAM ? tally_.refused : tally_.lost);
            in_flight_.erase(its);
        } else if (frame->is(NGHTTP2_HEADERS)) {
            its->second = true;
            if (frame->status() != 200) ++tally_.lost;
        }
        if ((frame->is(NGHTTP2_HEADERS) || frame->is(NGHTTP2_DATA)) && frame->ends_stream()) {
            ++tally_.answered;
            in_flight_.erase(its);
        }
        return true;
    }

    H2Wire wire_;
    Tally& tally_;
    std::uint32_t asked_ = 0;
    std::uint32_t last_stream_ = kLastOfAll;  // without GOAWAY nothing may be repeated
    std::map<std::uint32_t, bool> in_flight_;
};

// 10,000 requests in 100 connections, all open before the first is asked; `in_the_middle` happens
// when a third of them is answered.
void ask_many(const Http2Proxy& proxy, Tally& tally, const std::function<void()>& in_the_middle) {
    std::atomic<int> open{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < kConnections; ++i) {
        clients.emplace_back([&] {
            try {
                Heedless client(proxy.port(), tally);
                ++open;
                await_quietly([&] { return open == kConnections; });
                client.ask(kRequestsEach);
            } catch (const std::exception&) {
                ++tally.lost;
                ++open;
            }
        });
    }
    CHECK_SOON(tally.answered > 3'000);
    in_the_middle();
    for (std::thread& client : clients) client.join();
}

}  // namespace

TEST_CASE("http2 drain: GOAWAY twice, and what is in flight is answered") {
    GatedUpstream gated;
    Http2Proxy proxy(unlimited({gated.upstream().url()}));
    H2Wire wire(proxy.port());
    wire.send(h2_headers(1, h2_request()) + h2_headers(3, h2_request()));
    CHECK_SOON(gated.waiting() == 2);
    proxy.tidegate().signal(SIGTERM);
    const H2Frame first = wire.await(NGHTTP2_GOAWAY);
    CHECK(first.error() == NGHTTP2_NO_ERROR);
    CHECK(first.word(0) == kLastOfAll);
    // This one was on its way.
    wire.send(h2_headers(5, h2_request()));
    CHECK_SOON(gated.waiting() == 3);
    wire.send(h2_ping(NGHTTP2_FLAG_ACK));
    const H2Frame second = wire.await(NGHTTP2_GOAWAY);
    CHECK(second.error() == NGHTTP2_NO_ERROR);
    CHECK(second.word(0) == 5);
    wire.send(h2_headers(7, h2_request()));  // which is above that: the server ignores it
    gated.open();
    std::vector<std::uint32_t> answered;
    for (const H2Frame& frame : wire.rest()) {
        if (frame.is(NGHTTP2_HEADERS) && frame.status() == 200) answered.push_back(frame.stream);
    }
    std::sort(answered.begin(), answered.end());
    CHECK(answered == std::vector<std::uint32_t>{1, 3, 5});
    CHECK(gated.come() == 3);
    CHECK(proxy.tidegate().wait() == 0);
}

TEST_CASE("http2 drain: a client that answers no PING has a second until the last GOAWAY") {
    GatedUpstream gated;
    Http2Proxy proxy(unlimited({gated.upstream().url()}));
    H2Wire wire(proxy.port());
    wire.send(h2_headers(1, h2_request()));
    CHECK_SOON(gated.waiting() == 1);
    proxy.tidegate().signal(SIGTERM);
    wire.await(NGHTTP2_GOAWAY);
    const auto begin = Clock::now();
    CHECK(wire.await(NGHTTP2_GOAWAY).word(0) == 1);
    CHECK(Clock::now() - begin > milliseconds{800});
    CHECK(Clock::now() - begin < milliseconds{2'000} + slack());
    gated.open();
    CHECK(wire.await(NGHTTP2_HEADERS, 1).status() == 200);
    CHECK(proxy.tidegate().wait() == 0);
}

TEST_CASE("http2 drain: the deadline and a second signal cut off what is left") {
    GatedUpstream gated;
    for (const bool by_signal : {false, true}) {
        CAPTURE(by_signal);
        Http2Proxy proxy(std::string("timeouts: {drain: ") + (by_signal ? "1h" : "1500ms") + "}\n" +
                         unlimited({gated.upstream().url()}));
        H2Client client(proxy.port());
        const int before = gated.come();
        const int stream = client.begin({});
        CHECK_SOON(gated.come() == before + 1);
        proxy.tidegate().signal(SIGTERM);
        CHECK(client.run_until([&] { return client.goaways().size() == 2; }));
        if (by_signal) proxy.tidegate().signal(SIGTERM);
        CHECK(client.answer(stream).broken);
        CHECK(client.was_reset());
        CHECK(proxy.tidegate().wait() == 0);
        CHECK(proxy.tidegate().access_log(1).at(0).at("error") == "stopped");
    }
}

TEST_CASE("http2 drain: of 10,000 requests in 100 connections none is lost when it begins") {
    const Upstream upstream(ok());
    Http2Proxy proxy("timeouts: {drain: 1min}\n" + unlimited({upstream.url()}));
    Tally tally;
    ask_many(proxy, tally, [&] { proxy.tidegate().signal(SIGTERM); });
    CHECK(tally.lost == 0);
    CHECK(tally.answered > 3'000);
    CHECK(proxy.tidegate().wait() == 0);
    // What was refused reached no upstream: repeated elsewhere, it is served once.
    CHECK(upstream.requests() == tally.answered);
    const std::size_t lines = proxy.tidegate().access_log(1).size();
    CHECK(lines == static_cast<std::size_t>(tally.answered));
}

TEST_CASE("http2 drain: of 10,000 requests in 100 connections all are answered beside a reload") {
    const Upstream upstream(ok());
    const std::string rest = unlimited({upstream.url()});
    Http2Proxy proxy(rest);
    Tally tally;
    ask_many(proxy, tally, [&] {
        for (int i = 0; i < 3; ++i) {
            proxy.write_configuration("http2: {streams: " + std::to_string(50 + i) + "}\n" + rest);
            CHECK(proxy.tidegate().reload().status() == 200);
        }
    });
    CHECK(tally.answered == kConnections * static_cast<int>(kRequestsEach));
    CHECK(tally.refused == 0);
    CHECK(tally.lost == 0);
    // A connection keeps what it has announced; new ones get what is in force.
    H2Client client(proxy.port());
    CHECK(client.get().status() == 200);
    CHECK(client.server_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) == 52);
}

TEST_CASE("http2 idle: a connection without streams ends in client_idle, with GOAWAY") {
    const Upstream upstream(Upstream::answering([](const Message& request) {
        if (request.target() == "/slow") std::this_thread::sleep_for(milliseconds{900});
        return ok();
    }));
    Http2Proxy proxy("timeouts: {client_idle: 300ms}\n" + unlimited({upstream.url()}));
    H2Client used(proxy.port());
    // A connection with a waiting stream is not idle.
    CHECK(used.get("/slow").status() == 200);
    CHECK_FALSE(used.goaway());
    const auto begin = Clock::now();
    CHECK(used.closed());
    CHECK(Clock::now() - begin >= milliseconds{250});
    CHECK(Clock::now() - begin < milliseconds{1'500} + slack());
    REQUIRE(used.goaway());
    CHECK(used.goaway()->error == NGHTTP2_NO_ERROR);
    CHECK(used.goaway()->last_stream == 1);
    CHECK_FALSE(used.was_reset());
    H2Wire fresh(proxy.port());
    CHECK(fresh.await(NGHTTP2_GOAWAY).error() == NGHTTP2_NO_ERROR);
    CHECK(fresh.rest().empty());
    CHECK_SOON(proxy.tidegate().metric("tidegate_client_connections_idle_closed_total") == 2);
    // PINGs do not make it busy.
    H2Wire pinging(proxy.port());
    std::thread pings([&] {
        while (pinging.send(h2_ping())) std::this_thread::sleep_for(milliseconds{50});
    });
    pinging.await(NGHTTP2_GOAWAY);
    pinging.rest();
    pinging.socket().shutdown();
    pings.join();
}

}  // namespace tidegate::test::http2_drain_test

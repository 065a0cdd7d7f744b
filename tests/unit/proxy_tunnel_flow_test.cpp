#include <cstddef>
#include <string>

#include <doctest/doctest.h>

#include "proxy/tunnel.hpp"

namespace tidegate::proxy::tunnel_flow_test {

using http::FrameSource;
using limit::Micros;

namespace {

constexpr Micros kSecond{1'000'000};

// A frame of a client, shorter than 64 KiB.
std::string frame(unsigned first, std::size_t size) {
    std::string out(1, static_cast<char>(first));
    if (size < 126) {
        out += static_cast<char>(0x80 | size);
    } else {
        out += static_cast<char>(0xfe);
        out += static_cast<char>(size >> 8);
        out += static_cast<char>(size & 0xff);
    }
    out += "mask";
    return out.append(size, 'x');
}

const std::string kHello = frame(0x81, 5);

config::TunnelBounds messages(std::int64_t quota, Micros per, std::int64_t burst) {
    config::TunnelBounds bounds;
    const auto limit = limit::make_limit(
        {.algorithm = limit::Algorithm::gcra, .quota = quota, .duration = per, .burst = burst});
    REQUIRE(limit.has_value());
    bounds.messages = *limit;
    return bounds;
}

// Whether a whole frame goes on.
bool passes(TunnelFlow& flow, const std::string& bytes, Micros now = {}) {
    const std::size_t admitted = flow.admit(bytes, now);
    flow.sent(admitted);
    return admitted == bytes.size();
}

}  // namespace

TEST_CASE("tunnel_flow: frame heads go on when they are whole, payloads as they come, at any cut") {
    const std::string bytes = kHello + frame(0x89, 0) + frame(0x82, 200);
    TunnelFlow flow(FrameSource::client);
    std::string held;
    std::string out;
    for (const char c : bytes) {
        held += c;
        const std::size_t admitted = flow.admit(held, {});
        out += held.substr(0, admitted);
        held.erase(0, admitted);
        flow.sent(admitted);
        CHECK(held.size() < http::kFrameHeadBytesMax);
        CHECK_FALSE(flow.has_stopped());
    }
    CHECK(out == bytes);
    CHECK(flow.fault() == FlowFault::none);
}

TEST_CASE("tunnel_flow: bytes that were admitted and not sent stay admitted") {
    TunnelFlow flow(FrameSource::client);
    const std::string bytes = kHello + kHello;
    CHECK(flow.admit(bytes, {}) == bytes.size());
    flow.sent(3);
    CHECK(flow.admit(bytes.substr(3) + kHello, {}) == 3 * kHello.size() - 3);
}

TEST_CASE("tunnel_flow: it stops at the end of the frame that has begun") {
    TunnelFlow idle(FrameSource::client);
    idle.stop();
    CHECK(idle.admit(kHello, {}) == 0);
    CHECK(idle.has_stopped());

    TunnelFlow flow(FrameSource::client);
    const std::string half = kHello.substr(0, 8);
    CHECK(passes(flow, half));
    flow.stop();
    CHECK(flow.admit("", {}) == 0);
    CHECK_FALSE(flow.has_stopped());
    const std::string rest = kHello.substr(8);
    CHECK(flow.admit(rest + kHello, {}) == rest.size());
    CHECK_FALSE(flow.has_stopped());  // the rest has not gone on
    flow.sent(rest.size());
    CHECK(flow.has_stopped());
    CHECK_FALSE(flow.has_closed());
    CHECK(flow.admit(kHello, {}) == 0);

    // Of a head nothing has gone on before it is whole.
    TunnelFlow between(FrameSource::client);
    CHECK(between.admit(kHello.substr(0, 5), {}) == 0);
    between.stop();
    CHECK(between.admit(kHello, {}) == 0);
    CHECK(between.has_stopped());
}

TEST_CASE("tunnel_flow: nothing goes on behind a Close frame of the sender") {
    TunnelFlow flow(FrameSource::client);
    const std::string close = frame(0x88, 2);
    CHECK(flow.admit(close + kHello, {}) == close.size());
    CHECK(flow.has_closed());
    CHECK_FALSE(flow.has_stopped());
    flow.sent(close.size());
    CHECK(flow.has_stopped());
    CHECK(flow.fault() == FlowFault::none);
}

TEST_CASE(
    "tunnel_flow: frames are bounded for each second, and those of one second may come at once") {
    const config::TunnelBounds bounds = messages(100, kSecond, 100);
    TunnelFlow flow(FrameSource::client, &bounds);
    for (int i = 0; i < 100; ++i) CHECK(passes(flow, kHello));
    CHECK(passes(flow, kHello, Micros{10'000}));  // one has left
    const std::string close = frame(0x88, 2);
    CHECK(passes(flow, close, Micros{10'000}));  // counts nothing

    TunnelFlow fast(FrameSource::client, &bounds);
    std::string many;
    for (int i = 0; i < 101; ++i) many += i % 2 == 0 ? kHello : frame(0x89, 0);
    CHECK(fast.admit(many, {}) == many.size() - kHello.size());
    CHECK(fast.fault() == FlowFault::too_many_messages);
    CHECK_FALSE(fast.has_stopped());
    fast.sent(many.size() - kHello.size());
    CHECK(fast.has_stopped());
    CHECK_FALSE(fast.has_closed());
    CHECK(fast.admit(kHello, kSecond) == 0);
}

TEST_CASE("tunnel_flow: a message over its bytes does not go on, in one frame or in several") {
    config::TunnelBounds bounds;
    bounds.message_bytes = 300;
    TunnelFlow flow(FrameSource::client, &bounds);
    for (int i = 0; i < 3; ++i) CHECK(passes(flow, frame(0x82, 300)));
    CHECK(passes(flow, frame(0x02, 200)));
    CHECK(passes(flow, frame(0x89, 125)));
    CHECK(passes(flow, frame(0x00, 100)));
    CHECK(flow.admit(frame(0x80, 1), {}) == 0);
    CHECK(flow.fault() == FlowFault::message_too_large);
    CHECK(flow.has_stopped());

    // The head is enough.
    TunnelFlow whole(FrameSource::client, &bounds);
    CHECK(whole.admit(frame(0x82, 301).substr(0, 7), {}) == 0);
    CHECK(whole.admit(frame(0x82, 301).substr(0, 8), {}) == 0);
    CHECK(whole.fault() == FlowFault::message_too_large);
}

TEST_CASE("tunnel_flow: malformed bytes do not go on, and the frames before them do") {
    TunnelFlow flow(FrameSource::client);
    CHECK(flow.admit(kHello + "\x81\x05hello", {}) == kHello.size());
    CHECK(flow.fault() == FlowFault::bad_frames);
    flow.sent(kHello.size());
    CHECK(flow.has_stopped());
}

}  // namespace tidegate::proxy::tunnel_flow_test

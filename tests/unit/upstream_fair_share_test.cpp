#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "upstream/fair_share.hpp"

namespace tidegate::upstream::fair_share_test {

using namespace std::chrono_literals;

namespace {

const SteadyTime kStart = SteadyTime{} + 1h;

// A request that says when it is evicted.
struct Holding {
    explicit Holding(const std::string& address, const IpPrefixes& prefixes)
        : client(parse_ip(address)),
          request(
              client, prefixes, [](void* self) { static_cast<Holding*>(self)->evicted = true; },
              this) {}

    std::optional<IpAddress> client;  // none if `address` is none
    bool evicted = false;
    ActiveRequest request;
};

struct Upstream {
    explicit Upstream(std::size_t max) : requests(max) {}

    Holding& hold(const std::string& address) {
        Holding& one = *all.emplace_back(std::make_unique<Holding>(address, prefixes));
        requests.add(one.request);
        return one;
    }
    // Whose body came as far as `bytes` and then no further, `ago`.
    Holding& upload(const std::string& address, std::uint64_t bytes,
                    std::chrono::nanoseconds ago = 1s) {
        Holding& one = hold(address);
        one.request.body.begin_wait(kStart - ago, bytes);
        return one;
    }
    Holding& unread(const std::string& address, std::chrono::nanoseconds ago = 1s) {
        Holding& one = hold(address);
        one.request.answer.begin_wait(kStart - ago, 0);
        return one;
    }
    // Whose request makes room for one of `address`.
    const Holding* asks(const std::string& address, SteadyTime now = kStart) {
        Holding& asking = hold(address);
        ActiveRequest* const found = requests.find_evictable(asking.request, now);
        asking.request.unlink();
        for (const auto& one : all) {
            if (&one->request == found) return one.get();
        }
        return nullptr;
    }
    // `count` requests, 1 ms apart, that find no connection free and make no room.
    void ask_in_vain(const std::string& address, int count, SteadyTime begin = kStart) {
        for (int i = 0; i < count; ++i) CHECK(asks(address, begin + i * 1ms) == nullptr);
    }
    bool admits(const std::string& address, std::size_t free, SteadyTime now = kStart) {
        const Holding asking(address, prefixes);
        return !requests.is_short() || requests.admits(asking.request, free, now);
    }

    IpPrefixes prefixes;
    FairShare requests;
    std::deque<std::unique_ptr<Holding>> all;
};

const std::string kGreedy = "192.0.2.1";
const std::string kOther = "198.51.100.7";

constexpr TransferBounds kBounds{30s, 240, 1h};

// A client moves `bytes` at the end of each wait of `wait`. How long it may go on, at most `most`.
std::chrono::nanoseconds lasts(const TransferBounds& bounds, std::uint64_t bytes,
                               std::chrono::milliseconds wait, std::chrono::nanoseconds most) {
    TransferRate rate;
    SteadyTime now = kStart;
    for (std::uint64_t moved = 0; now - kStart < most; moved += bytes) {
        rate.begin_wait(now, moved);
        const auto left = rate.time_left(bounds, now);
        if (left < wait) return now - kStart + std::max(left, 0ms);
        now += wait;
        rate.end_wait(now);
    }
    return most;
}

}  // namespace

TEST_CASE("fair_share: the upload furthest behind, of an address over its share, makes room") {
    Upstream upstream(8);
    for (int i = 0; i < 5; ++i) upstream.upload(kGreedy, 100'000);
    const Holding& slowest = upstream.upload(kGreedy, 10, 2s);
    upstream.upload(kGreedy, 10);
    upstream.unread(kGreedy, 4s);
    CHECK(upstream.asks(kOther) == &slowest);
    // The request does not make room for itself: its address may have all connections, and gets an
    // answer when there are no more.
    CHECK(upstream.asks(kGreedy) == nullptr);
    // However often it asks in vain, others find a connection.
    CHECK(upstream.asks(kOther) == &slowest);
}

TEST_CASE("fair_share: requests that the upstream works on stay, and so does a fair share") {
    Upstream working(8);
    for (int i = 0; i < 8; ++i) working.hold(kGreedy);
    CHECK(working.asks(kOther) == nullptr);

    Upstream fair(8);
    for (int i = 0; i < 8; ++i) fair.upload("192.0.2." + std::to_string(1 + i / 2), 10);
    CHECK(fair.asks(kOther) == nullptr);
    Holding& third = fair.upload("192.0.2.2", 10);
    const Holding* const one = fair.asks(kOther, kStart + 1ms);
    REQUIRE(one != nullptr);
    CHECK(one->client == third.client);
}

TEST_CASE("fair_share: without a slow upload, an answer that is not taken makes room") {
    Upstream upstream(8);
    for (int i = 0; i < 6; ++i) upstream.hold(kGreedy);
    upstream.unread(kGreedy, 3s);
    const Holding& longest = upstream.unread(kGreedy, 4s);
    CHECK(upstream.asks(kOther) == &longest);
}

TEST_CASE("fair_share: requests of an address are evicted down to its share") {
    Upstream upstream(16);
    for (int i = 0; i < 16; ++i) upstream.upload(kGreedy, 10);
    int made = 0;
    while (const Holding* one = upstream.asks(kOther)) {
        const_cast<Holding*>(one)->request.evict();
        CHECK(one->evicted);
        ++made;
    }
    CHECK(made == 12);
    CHECK(upstream.requests.held_by(parse_ip(kGreedy)) == 4);
}

TEST_CASE("fair_share: up to three addresses can be over a quarter, among many that are not") {
    Upstream upstream(100);
    std::vector<std::string> crowd{"192.0.2.1", "192.0.2.2", "192.0.2.3"};
    for (int i = 0; i < 78; ++i) upstream.upload(crowd[static_cast<std::size_t>(i) % 3], 1'000'000);
    for (int i = 0; i < 22; ++i) upstream.upload("203.0.113." + std::to_string(i), 10);
    for (int i = 0; i < 3; ++i) {
        const Holding* const one = upstream.asks(kOther);
        REQUIRE(one != nullptr);
        CHECK(one->client->to_string().starts_with("192.0.2."));
        const_cast<Holding*>(one)->request.evict();
    }
    CHECK(upstream.asks(kOther) == nullptr);
}

TEST_CASE("fair_share: an upload far behind makes room for any request, its own address's too") {
    Upstream upstream(8);
    for (int i = 0; i < 7; ++i) upstream.upload(kGreedy, 5'000, 9s);  // 4.1 s behind
    CHECK(upstream.asks(kGreedy) == nullptr);
    const Holding& slow = upstream.upload(kGreedy, 2'048, 7s);
    CHECK(upstream.asks(kGreedy, kStart + 1ms) == &slow);

    // Four that hold a quarter each hold all, and none of them more than its share.
    Upstream shared(8);
    for (int i = 0; i < 8; ++i) shared.upload("192.0.2." + std::to_string(i / 2), 10, 6s);
    CHECK(shared.asks(kOther) != nullptr);
}

TEST_CASE("fair_share: an answer far behind makes room for any request, after the uploads") {
    Upstream upstream(8);
    upstream.unread(kGreedy, 4s);
    CHECK(upstream.asks(kOther) == nullptr);
    const Holding& slow = upstream.unread(kOther, 6s);
    CHECK(upstream.asks(kOther, kStart + 1ms) == &slow);
    const Holding& upload = upstream.upload(kOther, 0, 6s);
    CHECK(upstream.asks(kOther, kStart + 2ms) == &upload);
    CHECK(upstream.requests.find_slow(kStart) == &upload.request);
    const_cast<Holding&>(upload).request.evict();
    CHECK(upstream.requests.find_slow(kStart) == &slow.request);
}

TEST_CASE(
    "fair_share: an answer counts by what its client has taken by now, however long it waits") {
    struct Taking {
        std::uint64_t bytes = 0;
    } taking;
    const std::optional<IpAddress> client = parse_ip(kGreedy);
    const IpPrefixes prefixes;
    FairShare requests(8);
    ActiveRequest request(
        client, prefixes, [](void*) {}, &taking,
        [](const void* self) { return static_cast<const Taking*>(self)->bytes; });
    requests.add(request);
    request.answer.begin_wait(kStart, 0);
    CHECK(requests.find_slow(kStart + 4s) == nullptr);
    CHECK(requests.find_slow(kStart + 10s) == &request);
    taking.bytes = 6 * 1'024;
    CHECK(requests.find_slow(kStart + 10s) == nullptr);
    CHECK(requests.find_slow(kStart + 11s) == &request);
}

TEST_CASE("fair_share: for other threads, a request of an address over its share makes room") {
    Upstream upstream(8);
    for (int i = 0; i < 2; ++i) upstream.upload(kOther, 10, 3s);
    upstream.upload(kGreedy, 10, 1s);
    Holding& slowest = upstream.upload(kGreedy, 10, 2s);
    CHECK(upstream.requests.crowds().empty());
    CHECK(upstream.requests.find_evictable_for_others(kStart) == nullptr);
    upstream.hold(kGreedy);
    CHECK(upstream.requests.crowds() == std::vector<IpAddress>{*parse_ip(kGreedy)});
    CHECK(upstream.requests.find_evictable_for_others(kStart) == &slowest.request);
    slowest.request.evict();
    CHECK(upstream.requests.crowds().empty());
    CHECK(upstream.requests.find_evictable_for_others(kStart) == nullptr);
    CHECK_FALSE(upstream.requests.is_short());
    // Nor does a search for others keep the thread's own from searching.
    Holding& behind = upstream.upload(kOther, 10, 6s);
    CHECK(upstream.asks("203.0.113.5") == &behind);
}

TEST_CASE("fair_share: after searches in vain by two addresses, neither begins one for a while") {
    Upstream upstream(8);
    for (int i = 0; i < 4; ++i) {
        upstream.hold(kGreedy);
        upstream.hold(kOther);
    }
    CHECK(upstream.asks(kGreedy) == nullptr);
    CHECK(upstream.asks(kOther, kStart + 1us) == nullptr);
    const Holding& slow = upstream.upload("203.0.113.5", 10, 9s);
    CHECK(upstream.asks(kGreedy, kStart + 2us) == nullptr);
    CHECK(upstream.asks(kOther, kStart + 3us) == nullptr);
    CHECK(upstream.asks("203.0.113.6", kStart + 4us) == &slow);
    CHECK(upstream.asks(kGreedy, kStart + 1ms) == &slow);
    CHECK(upstream.asks(kOther, kStart + 1ms) == &slow);
}

TEST_CASE("fair_share: during a shortage an address with its share gets no more") {
    Upstream upstream(8);
    for (int i = 0; i < 8; ++i) upstream.hold(kGreedy);
    CHECK(upstream.asks(kOther) == nullptr);
    CHECK(upstream.requests.is_short());
    upstream.all.resize(7);  // one of them ends
    CHECK_FALSE(upstream.admits(kGreedy, 1));
    CHECK(upstream.admits(kOther, 1));
    CHECK(upstream.admits("203.0.113.5", 1));
    // One was missing, and one is reserved.
    CHECK(upstream.admits(kGreedy, 2));
    upstream.all.resize(1);
    CHECK(upstream.admits(kGreedy, 1));

    upstream.all.clear();
    for (int i = 0; i < 7; ++i) upstream.hold(kGreedy);
    CHECK_FALSE(upstream.admits(kGreedy, 1, kStart + FairShare::kShortage - 1ms));
    CHECK(upstream.admits(kGreedy, 1, kStart + FairShare::kShortage));
    CHECK_FALSE(upstream.requests.is_short());
}

TEST_CASE("fair_share: for one address no more than its share is reserved, however often it asks") {
    for (const std::string& address : {kOther, std::string()}) {
        CAPTURE(address);
        Upstream upstream(16);
        for (int i = 0; i < 16; ++i) upstream.hold(kGreedy);
        upstream.ask_in_vain(address, 2);
        CHECK_FALSE(upstream.admits(kGreedy, 2, kStart + 20ms));
        CHECK(upstream.admits(kGreedy, 3, kStart + 20ms));
        upstream.ask_in_vain(address, 12, kStart + 30ms);
        CHECK_FALSE(upstream.admits(kGreedy, 4, kStart + 50ms));
        CHECK(upstream.admits(kGreedy, 5, kStart + 50ms));
    }
    // What it holds already is part of its share.
    Upstream upstream(16);
    for (int i = 0; i < 13; ++i) upstream.hold(kGreedy);
    for (int i = 0; i < 3; ++i) upstream.hold(kOther);
    upstream.ask_in_vain(kOther, 12);
    CHECK_FALSE(upstream.admits(kGreedy, 1, kStart + 20ms));
    CHECK(upstream.admits(kGreedy, 2, kStart + 20ms));
}

TEST_CASE(
    "fair_share: what is reserved shrinks as the short address gets connections, down to nothing") {
    Upstream upstream(16);
    for (int i = 0; i < 16; ++i) upstream.hold(kGreedy);
    upstream.ask_in_vain(kOther, 12);
    upstream.all.clear();
    for (int i = 0; i < 12; ++i) upstream.hold(kGreedy);
    const SteadyTime now = kStart + 20ms;
    for (std::size_t kept = 4; kept > 0; --kept) {
        CAPTURE(kept);
        CHECK_FALSE(upstream.admits(kGreedy, kept, now));
        CHECK(upstream.admits(kGreedy, kept + 1, now));
        CHECK(upstream.admits(kOther, kept, now));
        upstream.hold(kOther);
    }
    CHECK(upstream.admits(kGreedy, 1, now));
    // With its share it may still search for a request that makes room.
    CHECK(upstream.admits(kOther, 0, now));
}

TEST_CASE("fair_share: the shortage of an address that got a connection does not begin anew") {
    const auto is_kept = [](Upstream& upstream, std::chrono::nanoseconds since) {
        return !upstream.admits(kGreedy, 1, kStart + since);
    };
    for (const bool served : {false, true}) {
        CAPTURE(served);
        Upstream upstream(8);
        for (int i = 0; i < 8; ++i) upstream.hold(kGreedy);
        upstream.ask_in_vain(kOther, 1);
        if (served) CHECK(upstream.admits(kOther, 1, kStart + 1s));
        upstream.ask_in_vain(kOther, 1, kStart + 1500ms);
        CHECK(is_kept(upstream, 1999ms));
        CHECK(is_kept(upstream, 2s) == !served);
        CHECK(is_kept(upstream, 3499ms) == !served);
        CHECK_FALSE(is_kept(upstream, 3500ms));
        CHECK_FALSE(upstream.requests.is_short());
        // The next is a new one.
        upstream.ask_in_vain(kOther, 1, kStart + 4s);
        CHECK(is_kept(upstream, 4s));
    }
    // Others made room for each.
    Upstream upstream(8);
    for (int i = 0; i < 8; ++i) upstream.upload(kGreedy, 10);
    CHECK(upstream.asks(kOther) != nullptr);
    CHECK(upstream.asks(kOther, kStart + 1500ms) != nullptr);
    CHECK(is_kept(upstream, 1999ms));
    CHECK_FALSE(is_kept(upstream, 2s));
}

TEST_CASE("fair_share: what is reserved for several addresses adds up, to all but one share") {
    Upstream upstream(16);
    for (int i = 0; i < 16; ++i) upstream.hold(kGreedy);
    std::size_t kept = 0;
    for (int i = 0; i < 6; ++i) {
        CAPTURE(i);
        upstream.ask_in_vain("203.0.113." + std::to_string(i), 12, kStart + i * 20ms);
        kept = std::min<std::size_t>(kept + 4, 12);
        CHECK_FALSE(upstream.admits(kGreedy, kept, kStart + i * 20ms + 15ms));
        CHECK(upstream.admits(kGreedy, kept + 1, kStart + i * 20ms + 15ms));
    }
    // An address with less than its share may have what is reserved for others.
    CHECK(upstream.admits(kOther, 1, kStart + 200ms));
}

TEST_CASE("fair_share: an address alone may have all connections, and never has a shortage") {
    for (const std::size_t max : {1U, 2U, 3U, 16U}) {
        CAPTURE(max);
        Upstream upstream(max);
        for (std::size_t i = 0; i < max; ++i) upstream.upload(kGreedy, 10);
        for (int i = 0; i < 20; ++i) CHECK(upstream.asks(kGreedy) == nullptr);
        CHECK_FALSE(upstream.requests.is_short());
        CHECK(upstream.admits(kGreedy, 1));
    }
}

TEST_CASE("fair_share: a network can be one client; so is each client without an address") {
    Upstream upstream(8);
    for (int i = 0; i < 8; ++i) upstream.upload("2001:db8::" + std::to_string(i), 10);
    CHECK(upstream.asks("2001:db8::99") == nullptr);
    CHECK(upstream.asks("2001:db8:0:1::1", kStart + 1ms) != nullptr);

    Upstream networks(8);
    networks.prefixes.ipv4 = {32, 24};
    for (int i = 0; i < 8; ++i) networks.upload("203.0.113." + std::to_string(i + 1), 10);
    CHECK(networks.asks("203.0.113.99") == nullptr);
    CHECK(networks.asks("203.0.112.1", kStart + 1ms) != nullptr);

    Upstream nameless(8);
    for (int i = 0; i < 8; ++i) nameless.upload("", 10);
    CHECK(nameless.asks(kOther) == nullptr);
    CHECK(nameless.admits("", 1));
}

TEST_CASE("fair_share: a request that takes the place of another one counts in its stead") {
    Upstream upstream(8);
    Holding& former = upstream.hold("192.0.2.1");
    upstream.hold("192.0.2.2");
    const auto held = [&] { return upstream.requests.held_by(parse_ip("192.0.2.1")); };
    {
        const ActiveRequest taking(
            former.request, [](void*) {}, nullptr);
        CHECK(taking.key() == former.request.key());
        CHECK_FALSE(former.request.is_linked());
        CHECK(held() == 1);
    }
    CHECK(held() == 0);
    CHECK(upstream.requests.held_by(parse_ip("192.0.2.2")) == 1);
}

TEST_CASE("transfer_rate: the first wait may last as long as `idle`") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    CHECK(rate.time_left(kBounds, kStart) == 30s);
    CHECK(rate.time_left({30s, 0, 0ms}, kStart) == 30s);
    CHECK(rate.time_left({30s, 240, 10s}, kStart) == 10s);
}

TEST_CASE("transfer_rate: a byte a second is too slow, however short the waits") {
    // 30 s, and a second for each 240 bytes: t = 30 + t / 240.
    CHECK(lasts(kBounds, 1, 1s, 2h) > 30s);
    CHECK(lasts(kBounds, 1, 1s, 2h) < 31s);
    CHECK(lasts(kBounds, 120, 1s, 2h) > 59s);
    CHECK(lasts(kBounds, 120, 1s, 2h) < 61s);
    // Without a rate, it is.
    CHECK(lasts({30s, 0, 0ms}, 1, 1s, 2h) == 2h);
}

TEST_CASE("transfer_rate: a client that keeps up has `total` for one message, and no more") {
    CHECK(lasts(kBounds, 240, 1s, 2h) == 1h);
    CHECK(lasts({30s, 240, 0ms}, 240, 1s, 2h) == 2h);
    CHECK(lasts(kBounds, 1'000'000, 31s, 2h) == 30s);
}

TEST_CASE("transfer_rate: a client that was fast may be slow for the time it gained") {
    TransferRate rate;
    rate.begin_wait(kStart, 24'000);  // a hundred seconds' worth
    rate.end_wait(kStart + 25s);
    rate.begin_wait(kStart + 25s, 24'000);
    CHECK(rate.time_left(kBounds, kStart + 25s) == 30s);
    rate.end_wait(kStart + 120s);
    rate.begin_wait(kStart + 120s, 24'000);
    CHECK(rate.time_left(kBounds, kStart + 120s) == 10s);
}

TEST_CASE("transfer_rate: time between waits does not count") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    rate.end_wait(kStart + 5s);
    CHECK(rate.waited(kStart + 1h) == 5s);
    rate.begin_wait(kStart + 2h, 0);
    CHECK(rate.time_left(kBounds, kStart + 2h) == 25s);
    CHECK(rate.waited(kStart + 2h + 3s) == 8s);
    CHECK(rate.lag(1, kStart + 2h + 3s) == 8s);
}

TEST_CASE("transfer_rate: a client that is held back is not silent, but behind, and has `total`") {
    TransferRate rate;
    rate.begin_wait(kStart, 240);
    rate.let_go(kStart + 10s);  // has room
    rate.hold_back();
    CHECK(rate.is_waiting());
    CHECK(rate.held_back(kStart + 40s) == 30s);
    CHECK(rate.waited(kStart + 40s) == 40s);
    CHECK(rate.lag(1'024, kStart + 40s) > 39s);
    rate.let_go(kStart + 40s);
    CHECK(rate.time_left(kBounds, kStart + 40s) == 20s);
    CHECK(rate.time_left({30s, 240, 45s}, kStart + 40s) == 5s);
    CHECK(rate.time_left(kBounds, kStart + 60s) == 0s);
    // The next silence is another one, and the pace is that of the time with room.
    rate.end_wait(kStart + 60s);
    rate.begin_wait(kStart + 60s, 240);
    CHECK(rate.time_left({30s, 0, 1h}, kStart + 60s) == 30s);
    CHECK(rate.time_left(kBounds, kStart + 60s) == 1s);
    // The end of a wait lets the client go.
    rate.hold_back();
    rate.end_wait(kStart + 70s);
    CHECK_FALSE(rate.is_held_back());
    CHECK(rate.held_back(kStart + 1h) == 40s);
    CHECK(rate.waited(kStart + 1h) == 70s);
}

TEST_CASE("transfer_rate: a wait at whose end the client has no room was no silence") {
    TransferRate rate;
    rate.begin_wait(kStart, 0);
    CHECK(rate.time_left(kBounds, kStart + 30s) == 0s);
    rate.hold_back();
    rate.let_go(kStart + 31s);
    CHECK(rate.time_left(kBounds, kStart + 31s) == 30s);
    CHECK(rate.time_left({30s, 240, 31s}, kStart + 31s) == 0s);
}

TEST_CASE("transfer_rate: no number of bytes makes the sums overflow") {
    TransferRate rate;
    rate.begin_wait(kStart, UINT64_MAX);
    rate.end_wait(kStart + 1s);
    rate.begin_wait(kStart + 1s, UINT64_MAX);
    CHECK(rate.time_left({24h, 1, 24h}, kStart + 1s) == 24h - 1s);
    CHECK(rate.lag(1, kStart + 1s) < -8'760h);
}

}  // namespace tidegate::upstream::fair_share_test

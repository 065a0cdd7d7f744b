#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "app/jwks_fetcher.hpp"
#include "identity/jwk.hpp"
#include "unit/app_tls_world.hpp"

namespace tidegate::app::jwks_fetcher_test {

namespace {

using namespace std::chrono_literals;
using identity::KeySource;
using test::tls_answer;
using test::TlsServer;

// RFC 7517 appendix A.1, the first key; RFC 7515 appendix A.3.
constexpr const char* kFirst =
    R"({"kty":"EC","crv":"P-256","kid":"1",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"})";
constexpr const char* kSecond =
    R"({"kty":"EC","crv":"P-256","kid":"2",
        "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";

std::string key_set(const std::string& keys) {
    return R"({"keys":[)" + keys + "]}";
}

std::shared_ptr<KeySource> source_of(const std::string& url) {
    return std::make_shared<KeySource>(url);
}

std::size_t keys_in(const KeySource& source) {
    const auto keys = source.keys();
    return keys ? keys->size() : 0;
}

// Everything at once but what a test asks for.
JwksFetcher::Options options() {
    JwksFetcher::Options quick;
    quick.timing = {.every = 1h, .retry = 10ms, .retry_max = 20ms, .wanted_every = 1h};
    return quick;
}

struct World {
    explicit World(const JwksFetcher::Options& how = options())
        : server(trusted.authority.issue(),
                 [this](TlsServer::Conversation& client) {
                     client.read_head();
                     client.send(answer());
                     client.finish();
                 }),
          fetcher(std::in_place, io.get_executor(), how) {}

    std::string answer() {
        const std::lock_guard lock(mutex);
        return answer_;
    }
    void set_answer(std::string answer) {
        const std::lock_guard lock(mutex);
        answer_ = std::move(answer);
    }
    void serve(const std::string& keys) { set_answer(tls_answer(key_set(keys))); }

    // One of this server, in force.
    std::shared_ptr<KeySource> use_one() {
        auto source = source_of(server.url());
        fetcher->use({source});
        return source;
    }
    Gauges gauges() const {
        Gauges told;
        fetcher->fill_in(told);
        return told;
    }
    void await_fetches(std::uint64_t ok, std::uint64_t failed = 0) {
        run_until(io, [&] {
            const auto told = gauges();
            return told.jwks_fetches_ok >= ok && told.jwks_fetches_failed >= failed;
        });
    }

    TrustedAuthority trusted;
    std::mutex mutex;
    std::string answer_ = tls_answer(key_set(kFirst));  // guarded by mutex
    asio::io_context io{1};
    TlsServer server;
    std::optional<JwksFetcher> fetcher;
};

TEST_CASE("jwks_fetcher: keys are there as soon as they have come") {
    World world;
    const auto source = world.use_one();
    CHECK(source->version() == 0);
    CHECK(source->keys() == nullptr);
    world.await_fetches(1);
    CHECK(source->version() != 0);
    CHECK(keys_in(*source) == 1);
    const auto told = world.gauges();
    REQUIRE(told.jwks.size() == 1);
    CHECK(told.jwks[0].url == world.server.url());
    CHECK(told.jwks[0].keys == 1);
    CHECK(told.jwks[0].age.has_value());
    CHECK(told.jwks_fetches_failed == 0);
}

TEST_CASE("jwks_fetcher: other keys replace those before, the same ones change nothing") {
    JwksFetcher::Options how = options();
    how.timing.every = 5ms;
    World world(how);
    const auto source = world.use_one();
    world.await_fetches(3);
    const auto version = source->version();
    const auto keys = source->keys();
    world.await_fetches(world.gauges().jwks_fetches_ok + 2);
    CHECK(source->version() == version);
    CHECK(source->keys() == keys);
    world.serve(kSecond);
    run_until(world.io, [&] { return source->version() != version; });
    CHECK(source->version() > version);
    CHECK_FALSE(*source->keys() == *keys);
}

TEST_CASE("jwks_fetcher: keys stay when a fetch fails, in any way") {
    JwksFetcher::Options how = options();
    how.timing.every = how.timing.wanted_every = 5ms;
    how.bounds.patience = 500ms;
    how.bounds.body_bytes_max = 2'000;
    World world(how);
    const auto source = world.use_one();
    world.await_fetches(1);
    const auto version = source->version();
    for (const std::string& wrong :
         {tls_answer("{}", "500 Oops"),
          tls_answer(key_set(kSecond), "301 Moved", "Location: /\r\n"), tls_answer("<html>"),
          tls_answer(""), tls_answer(key_set("")), tls_answer(key_set(R"({"kty":"unknown"})")),
          tls_answer("[]"), tls_answer(key_set(kSecond) + std::string(2'000, ' ')),
          std::string()}) {
        CAPTURE(wrong);
        world.set_answer(wrong);
        world.await_fetches(0, world.gauges().jwks_fetches_failed + 2);
        CHECK(source->version() == version);
        CHECK(keys_in(*source) == 1);
    }
    world.serve(kSecond);
    run_until(world.io, [&] { return source->version() != version; });
}

TEST_CASE("jwks_fetcher: a fetch that fails at first is repeated until it succeeds") {
    World world;
    world.set_answer(tls_answer("", "503 Service Unavailable"));
    const auto source = world.use_one();
    world.await_fetches(0, 3);
    CHECK(source->version() == 0);
    CHECK(world.gauges().jwks[0].keys == 0);
    CHECK_FALSE(world.gauges().jwks[0].age.has_value());
    world.serve(kFirst);
    world.await_fetches(1);
    CHECK(keys_in(*source) == 1);
}

TEST_CASE("jwks_fetcher: keys that are wanted too soon after a fetch are fetched when it is time") {
    JwksFetcher::Options how = options();
    SUBCASE("not before") {
        World world(how);
        const auto source = world.use_one();
        world.await_fetches(1);
        CHECK(source->fetches().begun == 1);
        CHECK(source->fetches().succeeded == 1);
        CHECK(source->fetches().next > steady_now() + how.timing.wanted_every / 2);
        for (int i = 0; i < 100; ++i) source->want();
        run_ready(world.io);
        CHECK(source->fetches().begun == 1);
    }
    SUBCASE("then") {
        how.timing.wanted_every = 200ms;
        World world(how);
        const auto source = world.use_one();
        world.await_fetches(1);
        world.serve(std::string(kFirst) + "," + kSecond);
        source->want();
        world.await_fetches(2);
        CHECK(keys_in(*source) == 2);
        CHECK(source->fetches().succeeded == 2);
    }
}

TEST_CASE("jwks_fetcher: keys that are wanted long after a fetch are fetched at once") {
    JwksFetcher::Options how = options();
    how.timing.wanted_every = 0ms;
    World world(how);
    const auto source = world.use_one();
    world.await_fetches(1);
    run_ready(world.io);
    CHECK(source->fetches().begun == 1);  // nothing wants any
    source->want();
    run_until(world.io, [&] { return source->fetches().begun == 2; });
    CHECK(source->fetches().is_under_way());
    // A request that wants keys meanwhile looks first whether they have come.
    source->want();
    world.await_fetches(2);
    run_ready(world.io);
    CHECK(source->fetches().begun == 2);
}

TEST_CASE("jwks_fetcher: another thread wants keys, waits, and has them when it is woken") {
    JwksFetcher::Options how = options();
    how.timing.wanted_every = 1ms;
    World world(how);
    const auto source = world.use_one();
    world.await_fetches(1);
    world.serve(std::string(kFirst) + "," + kSecond);
    std::atomic<std::size_t> found{0};
    std::counting_semaphore<> woken{0};
    std::thread request([&] {
        const auto waiting = source->wait(source->fetches(), 1, [&] { woken.release(); });
        source->want();
        woken.acquire();
        found = keys_in(*source);
        source->leave(waiting.number);
    });
    run_until(world.io, [&] { return found == 2; });
    request.join();
}

TEST_CASE("jwks_fetcher: sources learn of a failed fetch, and of the one after it") {
    World world;
    world.set_answer(tls_answer("", "503 Service Unavailable"));
    const auto source = world.use_one();
    world.await_fetches(0, 2);
    CHECK(source->fetches().ended >= 2);
    CHECK(source->fetches().succeeded == 0);
    world.serve(kFirst);
    world.await_fetches(1);
    CHECK(source->fetches().succeeded == source->fetches().ended);
}

TEST_CASE("jwks_fetcher: a source of the former configuration goes on while its URL stays") {
    JwksFetcher::Options how = options();
    how.timing.wanted_every = 1ms;
    World world(how);
    const auto before = world.use_one();
    world.await_fetches(1);
    auto after = world.use_one();
    world.serve(kSecond);
    before->want();
    world.await_fetches(2);
    CHECK(before->version() == after->version());
    CHECK(before->fetches().succeeded == 2);
    // Its URL leaves the configuration: its keys are not fetched any more.
    world.fetcher->use({});
    before->want();
    CHECK(runs_out(world.io));
    CHECK(world.server.connections() == 2);
}

// A server of an issuer's metadata and keys, of an authority of its own.
struct Issuer {
    Issuer()
        : server(authority.issue(), [this](TlsServer::Conversation& client) {
              const bool is_metadata = client.read_head().starts_with(kMetadata);
              client.send(is_metadata ? metadata() : tls_answer(key_set(kFirst)));
              client.finish();
          }) {
        say(url(), server.url("/certs"));
    }

    std::string url() const { return server.url("/one"); }
    void say(const std::string& name, const std::string& keys_at) {
        const std::lock_guard lock(mutex);
        metadata_ = tls_answer(R"({"issuer":")" + name + R"(","jwks_uri":")" + keys_at + "\"}");
    }
    std::string metadata() {
        const std::lock_guard lock(mutex);
        return metadata_;
    }
    // How many keys come from there.
    static std::size_t keys_from(const identity::KeyLocation& location) {
        asio::io_context io{1};
        JwksFetcher fetcher(io.get_executor(), options());
        const auto source = std::make_shared<KeySource>(location);
        fetcher.use({source});
        run_until(io, [&] { return source->fetches().ended > 0; });
        return keys_in(*source);
    }
    std::size_t keys() const { return keys_from({url(), true, authority.pem()}); }
    // The last request did not ask for keys.
    bool was_asked_for_metadata() const { return server.seen().back().starts_with(kMetadata); }

    static constexpr const char* kMetadata = "GET /one/.well-known/openid-configuration ";
    test::Authority authority;
    std::mutex mutex;
    std::string metadata_;  // guarded by mutex
    TlsServer server;
};

TEST_CASE("jwks_fetcher: an issuer's metadata name its keys, and `ca` is trusted for both") {
    const Issuer issuer;
    CHECK(issuer.keys() == 1);
    REQUIRE(issuer.server.seen().size() == 2);
    CHECK(issuer.server.seen()[0].starts_with(Issuer::kMetadata));
    CHECK(issuer.server.seen()[1].starts_with("GET /certs "));
    CHECK(Issuer::keys_from({issuer.server.url("/certs"), false, issuer.authority.pem()}) == 1);
    CHECK(Issuer::keys_from({issuer.url(), true, test::Authority().pem()}) == 0);
    CHECK(issuer.server.seen().size() == 3);
}

TEST_CASE("jwks_fetcher: metadata of another issuer, or that name no URL of keys, are refused") {
    Issuer issuer;
    issuer.say(issuer.url() + "/", issuer.server.url("/certs"));
    CHECK(issuer.keys() == 0);
    CHECK(issuer.was_asked_for_metadata());
    for (const char* url : {"http://idp.example/keys", "http://127.0.0.1:1/keys", "file:///keys",
                            "https://user@idp.example/", "/certs", "https://idp.example/#x", ""}) {
        CAPTURE(url);
        issuer.say(issuer.url(), url);
        CHECK(issuer.keys() == 0);
        CHECK(issuer.was_asked_for_metadata());
    }
}

TEST_CASE(
    "jwks_fetcher: a source of a place that is known has its keys at once, under their version") {
    World world;
    const auto before = world.use_one();
    world.await_fetches(1);
    const auto after = world.use_one();
    CHECK(after->version() == before->version());
    CHECK(after->keys() == before->keys());
    CHECK(after->fetches().succeeded == 1);
    run_ready(world.io);
    CHECK(after->fetches().begun == 1);
}

TEST_CASE("jwks_fetcher: several sources of one place cost one fetch") {
    World world;
    const auto one = source_of(world.server.url());
    const auto other = source_of(world.server.url());
    const auto fixed = std::make_shared<KeySource>(std::shared_ptr<const identity::JwkSet>());
    world.fetcher->use({one, other, fixed});
    world.await_fetches(1);
    CHECK(keys_in(*one) == 1);
    CHECK(keys_in(*other) == 1);
    CHECK(fixed->keys() == nullptr);
    CHECK(world.server.connections() == 1);
    CHECK(world.gauges().jwks.size() == 1);
}

TEST_CASE(
    "jwks_fetcher: preparing waits for new URLs only, and gives out keys only when it has ended") {
    World world;
    const auto next = source_of(world.server.url());
    bool prepared = false;
    const auto prepare = [&](JwksFetcher::Sources sources) {
        prepared = false;
        spawn(world.io.get_executor(), world.fetcher->prepare(std::move(sources)),
              [&](const std::exception_ptr& failed) {
                  CHECK_FALSE(failed);
                  prepared = true;
              });
        run_until(world.io, [&] { return prepared; });
    };
    prepare({next});
    CHECK(world.gauges().jwks_fetches_ok == 1);
    CHECK(next->version() == 0);
    world.fetcher->use({next});
    CHECK(keys_in(*next) == 1);

    SUBCASE("one that was known is not fetched for it") {
        prepare({source_of(world.server.url())});
        CHECK(world.server.connections() == 1);
    }
    SUBCASE("one that fails keeps nobody waiting") {
        prepare({source_of("https://127.0.0.1:1/keys")});
        CHECK(world.gauges().jwks_fetches_failed >= 1);
    }
    SUBCASE("one that is not used then is left alone") {
        prepare({next, source_of("https://127.0.0.1:1/keys")});
        CHECK(world.gauges().jwks.size() == 2);
        world.fetcher->use({next});
        CHECK(world.gauges().jwks.size() == 1);
        CHECK(keys_in(*next) == 1);
        world.fetcher->use({});
        CHECK(runs_out(world.io));
    }
    SUBCASE("none at all") {
        prepare({});
    }
}

TEST_CASE("jwks_fetcher: unused key sets are not fetched any more") {
    JwksFetcher::Options how = options();
    how.timing.every = 2ms;
    World world(how);
    const auto source = world.use_one();
    world.await_fetches(2);
    world.fetcher->use({});
    CHECK(runs_out(world.io));
    CHECK(world.gauges().jwks.empty());
    CHECK(keys_in(*source) == 1);
}

TEST_CASE("jwks_fetcher: metrics name a place without its query, and no two alike") {
    World world;
    world.fetcher->use({source_of(world.server.url("/k?key=hunter2")),
                        source_of(world.server.url("/k?key=hunter3")),
                        source_of("https://127.0.0.1:1/k")});
    world.await_fetches(2, 1);
    const auto told = world.gauges();
    REQUIRE(told.jwks.size() == 3);
    CHECK(told.jwks[0].url == "https://127.0.0.1:1/k");
    CHECK(told.jwks[1].url == world.server.url("/k"));
    CHECK(told.jwks[2].url == world.server.url("/k") + "#2");
}

TEST_CASE("jwks_fetcher: a URL that is not https is never fetched") {
    World world;
    const auto source = source_of("http://user:hunter2@127.0.0.1/keys");
    world.fetcher->use({source});
    world.await_fetches(0, 1);
    CHECK(source->version() == 0);
    CHECK(world.gauges().jwks[0].url.find("hunter2") == std::string::npos);
}

TEST_CASE("jwks_fetcher: it may be destroyed during a fetch, before the loop and after it") {
    World world;
    world.use_one();
    SUBCASE("nothing has begun") {}
    SUBCASE("it is under way") {
        run_until(world.io, [&] { return world.server.connections() == 1; });
    }
    SUBCASE("it waits for the next time") {
        world.await_fetches(1);
    }
    world.fetcher.reset();
    world.io.restart();
    world.io.run();  // and then nothing is left to do
}

}  // namespace

namespace {

using namespace std::chrono_literals;

// Some moment; only differences count.
constexpr SteadyTime kStart{1'000h};

// One whose fetch has just begun and ended at kStart.
FetchSchedule after_success(double jitter = 0) {
    FetchSchedule schedule({});
    schedule.begin(kStart);
    schedule.succeeded(kStart, jitter);
    return schedule;
}

TEST_CASE("fetch_schedule: the first fetch is due at once") {
    const FetchSchedule schedule({});
    CHECK(schedule.due(false) < kStart);
    CHECK(schedule.due(true) < kStart);
}

TEST_CASE("fetch_schedule: after a success the next is due in five minutes, or a tenth sooner") {
    CHECK(after_success(0).due(false) == kStart + 300s);
    CHECK(after_success(1).due(false) == kStart + 270s);
}

TEST_CASE("fetch_schedule: before the first success the pause doubles from a second to a minute") {
    FetchSchedule schedule({});
    SteadyTime time = kStart;
    for (const auto pause : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s, 60s}) {
        schedule.begin(time);
        schedule.failed(time, 0);
        CHECK(schedule.due(false) == time + pause);
        time += pause;
    }
    schedule.begin(time);
    schedule.succeeded(time, 0);
    CHECK(schedule.due(false) == time + 300s);
}

TEST_CASE("fetch_schedule: after a success a failure is repeated no sooner than a wanted fetch") {
    FetchSchedule schedule = after_success();
    SteadyTime time = kStart + 300s;
    for (const auto pause : {5s, 5s, 5s, 8s, 16s}) {
        schedule.begin(time);
        schedule.failed(time, 0);
        CHECK(schedule.due(false) == time + pause);
        time += pause;
    }
}

TEST_CASE("fetch_schedule: with jitter, a failure is repeated after half the pause") {
    FetchSchedule schedule({});
    schedule.begin(kStart);
    schedule.failed(kStart, 1);
    CHECK(schedule.due(false) == kStart + 500ms);
}

TEST_CASE("fetch_schedule: one that is wanted begins 5 s after the beginning of another") {
    FetchSchedule schedule = after_success();
    CHECK(schedule.due(true) == kStart + 5s);
    // However long that takes.
    schedule.begin(kStart + 40s);
    schedule.succeeded(kStart + 44s, 0);
    CHECK(schedule.due(true) == kStart + 45s);
}

TEST_CASE("fetch_schedule: a wanted fetch does not wait for the pause after failures to end") {
    FetchSchedule schedule({});
    for (int i = 0; i < 8; ++i) {
        schedule.begin(kStart);
        schedule.failed(kStart, 0);
    }
    CHECK(schedule.due(false) == kStart + 60s);
    CHECK(schedule.due(true) == kStart + 5s);
}

}  // namespace

namespace {

using namespace std::chrono_literals;

TEST_CASE("failure_notice: the first failure is logged, and then one an hour") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    CHECK_FALSE(notice.is_due("it answered 503", start));
    CHECK_FALSE(notice.is_due("it answered 503", start + 1h - 1ns));
    CHECK(notice.is_due("it answered 503", start + 1h));
    CHECK_FALSE(notice.is_due("it answered 503", start + 2h - 1ns));
    CHECK(notice.is_due("it answered 503", start + 9h));
}

TEST_CASE("failure_notice: another reason is logged at once, and after it the one before") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    CHECK(notice.is_due("its certificate has expired", start + 1s));
    CHECK_FALSE(notice.is_due("its certificate has expired", start + 1h));
    CHECK(notice.is_due("it answered 503", start + 1h));
    CHECK_FALSE(notice.is_due("it answered 503", start + 1h + 1s));
}

TEST_CASE("failure_notice: a failure after a success is logged, whatever was logged before") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    notice.recovered();
    CHECK(notice.is_due("it answered 503", start + 1s));
    CHECK_FALSE(notice.is_due("it answered 503", start + 2s));
}

}  // namespace

}  // namespace tidegate::app::jwks_fetcher_test

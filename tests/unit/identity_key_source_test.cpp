#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "identity/key_source.hpp"
#include "identity_tokens.hpp"

namespace tidegate::identity::key_source_test {

namespace {

using namespace std::chrono_literals;
using Step = MissingKey::Step;
using Refusal = KeySource::WaitRefusal;

constexpr MissingKey::Time kMoment{1'000h};

constexpr const char* kUrl = "https://idp.example/keys";

TEST_CASE("key source: a put of the same keys changes nothing, of others the version") {
    KeySource source(kUrl);
    CHECK(source.version() == 0);
    CHECK(source.keys() == nullptr);
    const auto first = set_of({secret().jwk()});
    source.put(first);
    const auto version = source.version();
    CHECK(version > 0);
    source.put(set_of({secret().jwk()}));
    CHECK(source.version() == version);
    CHECK(source.keys() == first);
    source.put(set_of({p256().jwk()}));
    CHECK(source.version() > version);
    CHECK(source.keys()->candidates({}, JwsAlgorithm::es256).keys().size() == 1);
}

TEST_CASE("key source: only fetched keys can be wanted, and the fetcher hears of it once") {
    KeySource fixed(set_of({secret().jwk()}));
    CHECK(fixed.version() > 0);
    CHECK_FALSE(fixed.is_fetched());
    fixed.want();
    CHECK_FALSE(fixed.take_wanted());

    KeySource fetched(kUrl);
    CHECK_FALSE(fetched.take_wanted());
    int told = 0;
    fetched.on_wanted([&] { ++told; });
    fetched.want();
    fetched.want();
    CHECK(told == 1);
    CHECK(fetched.take_wanted());
    CHECK_FALSE(fetched.take_wanted());
    fetched.want();
    CHECK(told == 2);
    fetched.on_wanted({});
    CHECK(fetched.take_wanted());
    fetched.want();
    CHECK(told == 2);
}

TEST_CASE("key source: the end of a fetch wakes the requests that wait, its beginning does not") {
    KeySource source(kUrl);
    const KeyFetches seen = source.fetches();
    int woken = 0;
    const auto wake = [&] { ++woken; };
    const auto first = source.wait(seen, 1, wake);
    const auto second = source.wait(seen, 2, wake);
    const auto third = source.wait(seen, 2, wake);
    CHECK(first.number != 0);
    CHECK(source.waiters() == 3);
    source.leave(third.number);
    CHECK(source.waiters() == 2);
    source.publish({.begun = 1});
    CHECK(woken == 0);
    source.publish({.begun = 1, .ended = 1, .succeeded = 1});
    CHECK(woken == 2);
    CHECK(source.waiters() == 0);
    source.leave(first.number);  // woken before
    // That fetch has ended: a request that has not seen its keys does not wait.
    const auto late = source.wait(seen, 1, wake);
    CHECK(late.number == 0);
    CHECK(late.refusal == Refusal::fetch_has_ended);
    CHECK(source.wait(source.fetches(), 1, wake).number != 0);
    source.leave(second.number);
    CHECK(source.waiters() == 1);
}

TEST_CASE("key source: the requests that wait are bounded, in all and for a client") {
    KeySource source(kUrl);
    const KeyFetches seen = source.fetches();
    const auto wait = [&](std::uint64_t client) { return source.wait(seen, client, [] {}); };
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < KeySource::kWaitersPerClientMax; ++i) {
        numbers.push_back(wait(1).number);
    }
    CHECK(wait(1).number == 0);
    CHECK(wait(1).refusal == Refusal::too_many_waiters);
    CHECK(wait(2).number != 0);
    source.leave(numbers.back());
    CHECK(wait(1).number != 0);
    for (std::uint64_t client = 3; source.waiters() < KeySource::kWaitersMax; ++client) {
        REQUIRE(wait(client).number != 0);
    }
    CHECK(wait(1'000'000).refusal == Refusal::too_many_waiters);
    source.publish({.begun = 1, .ended = 1});
    CHECK(source.waiters() == 0);
    CHECK(source.wait(source.fetches(), 1, [] {}).number != 0);
}

TEST_CASE("missing key: only a fetch that began later than the request proves that there is none") {
    // The second fetch is under way.
    KeyFetches fetches{.begun = 2, .ended = 1, .succeeded = 1};
    const MissingKey missing(fetches, kMoment);
    CHECK(missing.next(fetches, kMoment) == Step::wait);
    fetches.ended = fetches.succeeded = 2;
    fetches.next = kMoment + 500ms;
    CHECK(missing.next(fetches, kMoment + 100ms) == Step::wait);
    fetches.begun = 3;
    CHECK(missing.next(fetches, kMoment + 600ms) == Step::wait);
    fetches.ended = fetches.succeeded = 3;
    CHECK(missing.next(fetches, kMoment + 700ms) == Step::refuse);
    // Another request, which came later, does not know yet.
    const MissingKey later(fetches, kMoment + 700ms);
    fetches.next = kMoment + 5s;
    CHECK(later.next(fetches, kMoment + 700ms) == Step::unavailable);
}

TEST_CASE("missing key: a fetch that failed, is not allowed yet or takes long proves nothing") {
    KeyFetches fetches{.begun = 1, .ended = 1, .succeeded = 1};
    fetches.next = kMoment;
    const MissingKey missing(fetches, kMoment);
    CHECK(missing.next(fetches, kMoment) == Step::wait);
    SUBCASE("it failed") {
        fetches.begun = fetches.ended = 2;
        CHECK(missing.next(fetches, kMoment) == Step::unavailable);
    }
    SUBCASE("it is not allowed within the second") {
        fetches.next = kMoment + 1s;
        CHECK(missing.next(fetches, kMoment) == Step::unavailable);
        fetches.next = kMoment + 999ms;
        CHECK(missing.next(fetches, kMoment) == Step::wait);
    }
    SUBCASE("it takes longer than a second") {
        fetches.begun = 2;
        CHECK(missing.next(fetches, kMoment + 999ms) == Step::wait);
        CHECK(missing.next(fetches, kMoment + 1s) == Step::unavailable);
        // It ended at the last moment.
        fetches.ended = fetches.succeeded = 2;
        CHECK(missing.next(fetches, kMoment + 1s) == Step::refuse);
    }
}

TEST_CASE("missing key: Retry-After is the time until a fetch may begin, rounded up") {
    KeyFetches fetches{.begun = 1, .ended = 1, .succeeded = 1};
    fetches.next = kMoment + 4'001ms;
    CHECK(retry_after(fetches, kMoment) == 5s);
    CHECK(retry_after(fetches, kMoment + 1ms) == 4s);
    CHECK(retry_after(fetches, kMoment + 1h) == 1s);
    fetches.next = MissingKey::Time::min();
    CHECK(retry_after(fetches, kMoment) == 1s);
    fetches.next = kMoment + 4s;
    fetches.begun = 2;
    CHECK(retry_after(fetches, kMoment) == 1s);
}

constexpr const char* kIssuer = "https://idp.example/realms/one";

std::string fault_of(const std::string& json, const std::string& issuer = kIssuer) {
    const auto url = key_set_url(json, issuer);
    return url ? "" : url.error();
}

TEST_CASE("issuer metadata: their URL is the issuer's with a path after it") {
    CHECK(metadata_url("https://idp.example") ==
          "https://idp.example/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/") ==
          "https://idp.example/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/realms/one") ==
          "https://idp.example/realms/one/.well-known/openid-configuration");
    CHECK(metadata_url("https://idp.example/realms/one/") ==
          "https://idp.example/realms/one/.well-known/openid-configuration");
}

TEST_CASE("issuer metadata: they name the URL of the keys") {
    const auto url = key_set_url(R"({"issuer":"https://idp.example/realms/one",
        "authorization_endpoint":"https://idp.example/authorize",
        "jwks_uri":"https://keys.example/certs","scopes_supported":["openid"]})",
                                 kIssuer);
    REQUIRE(url);
    CHECK(*url == "https://keys.example/certs");
}

TEST_CASE("issuer metadata: those of another issuer are refused") {
    const std::string keys = R"("jwks_uri":"https://idp.example/certs"})";
    CHECK(fault_of("{" + keys) == "it has no `issuer`");
    CHECK(fault_of(R"({"issuer":7,)" + keys) == "it has no `issuer`");
    CHECK(fault_of(R"({"issuer":"https://evil.example",)" + keys) ==
          "its `issuer` is `https://evil.example`, and `discovery` names another one");
    CHECK(fault_of(R"({"issuer":"https://IDP.example/realms/one",)" + keys) ==
          "its `issuer` is `https://IDP.example/realms/one`, and `discovery` names another one");
    CHECK(fault_of(R"({"issuer":"https://idp.example/realms/one/",)" + keys) ==
          "its `issuer` is `https://idp.example/realms/one/`: write `discovery` exactly so, with "
          "the same end");
    CHECK(fault_of(R"({"issuer":"https://a","issuer":"https://idp.example/realms/one",)" + keys) !=
          "");
}

TEST_CASE("issuer metadata: a text that is no strict JSON object, or names no keys, is refused") {
    for (const char* text : {"", "<html>", "[]", "\"x\"", "{", "{} x"}) CHECK(fault_of(text) != "");
    const std::string issuer = R"({"issuer":"https://idp.example/realms/one")";
    CHECK(fault_of(issuer + "}") == "it has no `jwks_uri`");
    CHECK(fault_of(issuer + R"(,"jwks_uri":""})") == "it has no `jwks_uri`");
    CHECK(fault_of(issuer + R"(,"jwks_uri":["https://idp.example"]})") == "it has no `jwks_uri`");
}

}  // namespace

}  // namespace tidegate::identity::key_source_test

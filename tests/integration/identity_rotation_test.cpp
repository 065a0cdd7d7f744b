// An identity provider whose keys come late, or are others than before.
#include <stdlib.h>

#include <atomic>
#include <string>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"
#include "tls_server.hpp"

using namespace tidegate::test;

namespace {

// While it lives, programs that are started trust its authority. Make it before any thread.
struct Provider {
    Provider() {
        ::setenv("SSL_CERT_FILE", folder.write("ca.pem", authority.pem()).c_str(), 1);
        ::setenv("SSL_CERT_DIR", folder.path().c_str(), 1);
    }
    ~Provider() {
        ::unsetenv("SSL_CERT_FILE");
        ::unsetenv("SSL_CERT_DIR");
    }

    TemporaryFolder folder;
    Authority authority;
    std::string old_keys = key_set({curve_key().jwk(R"("kid":"old",)")});
    std::atomic<int> asked{0};
    // Fails the first time.
    TlsServer late{authority.issue(), [this](TlsServer::Conversation& client) {
                       client.read_head();
                       client.send(++asked == 1 ? tls_answer("", "503 Service Unavailable")
                                                : tls_answer(old_keys));
                       client.finish();
                   }};
    TlsServer old_server{authority.issue(), tls_answer(old_keys)};
    TlsServer new_server{authority.issue(),
                         tls_answer(key_set({other_key().jwk(R"("kid":"new",)")}))};
};

std::string with_keys_of(const TlsServer& server, const Upstream& upstream,
                         const std::string& more = "") {
    return identified(
        upstream, "user: [{jwt: {jwks: \"" + server.url() + "\", algorithms: [ES256]}}]" + more);
}

std::string token_with(const SigningKey& key, const std::string& kid) {
    return bearer(
        token_of(key, "ES256", R"({"alg":"ES256","kid":")" + kid + "\"}", claims(kid + "-user")));
}

}  // namespace

TEST_CASE("rotation: while there are no keys a token waits for them, and is no guess") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(with_keys_of(provider.late, upstream, ", failed_credentials: 1/h"));
    const std::string alice = token_with(curve_key(), "old");
    int unavailable = 0;
    await("the keys", [&] {
        const Message answer = tidegate.get("/", alice);
        if (answer.status() == 200) return true;
        CHECK(answer.status() == 503);
        CHECK(std::stoi(answer.field("Retry-After")) >= 1);
        ++unavailable;
        return false;
    });
    CHECK(unavailable > 1);
    CHECK(last_user(upstream) == "old-user");
    CHECK(upstream.requests() == 1);
    CHECK(tidegate.get("/", token_with(other_key(), "old")).status() == 401);
    CHECK(tidegate.get("/", token_with(other_key(), "old")).status() == 429);
}

TEST_CASE("rotation: keys of another place end what was believed with those before") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(with_keys_of(provider.old_server, upstream));
    const std::string old_token = token_with(curve_key(), "old");
    const std::string new_token = token_with(other_key(), "new");
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", old_token).status() == 200);
    CHECK(tidegate.get("/", new_token).status() == 401);
    // The same place: nothing is asked again, or forgotten.
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/", old_token).status() == 200);
    CHECK(provider.old_server.connections() == 1);

    tidegate.write_configuration(with_keys_of(provider.new_server, upstream));
    CHECK(tidegate.reload().status() == 200);
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", old_token).status() == 401);
    CHECK(tidegate.get("/", new_token).status() == 200);
    CHECK(last_user(upstream) == "new-user");
}

TEST_CASE("rotation: made-up keys do not have the provider asked again and again") {
    Provider provider;
    const Upstream upstream(ok());
    const Tidegate tidegate(with_keys_of(provider.old_server, upstream));
    // It was asked a moment ago, so there are none.
    for (int i = 0; i < 50; ++i) {
        const auto made_up = token_with(other_key(), "made-up-" + std::to_string(i));
        CHECK(tidegate.get("/", made_up).status() == 401);
    }
    CHECK(provider.old_server.connections() == 1);
    CHECK(upstream.requests() == 0);
}

// Keys and passwords that are withdrawn: a reload invalidates what was accepted with them.
#include <string>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_reload_test {

namespace {

// A file of `before`, and of `after` from a reload on: the answers to `fields`. Asks often enough
// that each thread has seen the credential.
struct Reloaded {
    int before = 0;
    int after = 0;
};

Reloaded reload_between(const std::string& method, const std::string& file,
                        const std::string& before, const std::string& after,
                        const std::string& fields) {
    const TemporaryFolder folder;
    const Upstream upstream(ok());
    const std::string path = folder.write("file", before);
    const Tidegate tidegate(
        identified(upstream, "user: [{" + method + ": {" + file + ": \"" + path + "\"" +
                                 (file == "jwks" ? ", algorithms: [ES256]" : "") + "}}]"));
    constexpr int kTimes = 20;
    const auto ask = [&] {
        const int status = tidegate.get("/", fields).status();
        for (int i = 1; i < kTimes; ++i) CHECK(tidegate.get("/", fields).status() == status);
        return status;
    };
    Reloaded reloaded;
    reloaded.before = ask();
    folder.write("file", after);
    CHECK(ask() == reloaded.before);  // only a reload reads files anew
    CHECK(tidegate.reload().status() == 200);
    reloaded.after = ask();
    return reloaded;
}

}  // namespace

TEST_CASE("identity reload: a key of tokens that is gone takes remembered tokens with it") {
    const std::string both = key_set({curve_key().jwk(), other_key().jwk()});
    const std::string one = key_set({other_key().jwk()});
    const std::string alice = bearer(token_for("alice"));
    const auto gone = reload_between("jwt", "jwks", both, one, alice);
    CHECK(gone.before == 200);
    CHECK(gone.after == 401);
    const auto come = reload_between("jwt", "jwks", one, both, alice);
    CHECK(come.before == 401);
    CHECK(come.after == 200);
}

TEST_CASE("identity reload: a PEM file has another key, which remembered tokens lack") {
    const std::string both = curve_key().public_pem() + other_key().public_pem();
    const std::string one = other_key().public_pem();
    const std::string alice = bearer(token_for("alice"));
    const auto gone = reload_between("jwt", "public_key", both, one, alice);
    CHECK(gone.before == 200);
    CHECK(gone.after == 401);
    const auto come = reload_between("jwt", "public_key", one, both, alice);
    CHECK(come.before == 401);
    CHECK(come.after == 200);
}

TEST_CASE("identity reload: an API key that is gone is refused, and a new one taken") {
    const std::string both = api_key_file({{"old-key", "alice"}, {"new-key", "alice"}});
    const std::string one = api_key_file({{"new-key", "alice"}});
    const auto gone = reload_between("api_key", "keys", both, one, line("X-Api-Key", "old-key"));
    CHECK(gone.before == 200);
    CHECK(gone.after == 401);
    const auto come = reload_between("api_key", "keys", one, both, line("X-Api-Key", "old-key"));
    CHECK(come.before == 401);
    CHECK(come.after == 200);
}

TEST_CASE("identity reload: a password that was changed is forgotten, though it was remembered") {
    // other-password
    const std::string changed =
        "alice:$2b$04$NQW2srB6zDLcu14wRVZ58.upwNn3GiGUPIFqw.Vz5Y3IeceVnTE/S\n";
    const auto old =
        reload_between("basic", "htpasswd", kPasswords, changed, basic("alice", "wonderland"));
    CHECK(old.before == 200);
    CHECK(old.after == 401);
    const auto other =
        reload_between("basic", "htpasswd", kPasswords, changed, basic("alice", "other-password"));
    CHECK(other.before == 401);
    CHECK(other.after == 200);
    const auto removed =
        reload_between("basic", "htpasswd", kPasswords, changed, basic("carol", "looking-glass"));
    CHECK(removed.before == 200);
    CHECK(removed.after == 401);
}

TEST_CASE("identity reload: a broken file of keys changes nothing") {
    const TemporaryFolder folder;
    const Upstream upstream(ok());
    const std::string path = folder.write("keys.yaml", api_key_file({{"the-key", "alice"}}));
    const Tidegate tidegate(identified(upstream, "user: [{api_key: {keys: \"" + path + "\"}}]"));
    folder.write("keys.yaml", "the-key: {user: alice}\n");  // the key itself in place of its digest
    const Message answer = tidegate.reload();
    CHECK(answer.status() != 200);
    CHECK(answer.body.find("the-key") == std::string::npos);
    CHECK(tidegate.errors().find("the-key") == std::string::npos);
    CHECK(tidegate.get("/", line("X-Api-Key", "the-key")).status() == 200);
    CHECK(last_user(upstream) == "alice");
}

}  // namespace tidegate::test::identity_reload_test

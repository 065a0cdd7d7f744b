#include <chrono>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "identity/authenticator.hpp"

namespace tidegate::identity::credential_cache_test {
namespace {

using namespace std::chrono_literals;

const CredentialCache::Time kNow{1'700'000'000s};
constexpr std::uint64_t kVersion = 3;

std::string shown(const std::optional<CredentialCache::User>& user) {
    return user ? std::string(user->name) + "/" + std::string(user->tier) : "nobody";
}

std::string find(CredentialCache& table, std::string_view credential,
                 CredentialCache::Time now = kNow, std::uint64_t version = kVersion,
                 std::uint32_t method = 0) {
    return shown(table.find(table.key_of(method, credential), now, version));
}

void insert(CredentialCache& table, std::string_view credential, const CredentialCache::User& user,
            CredentialCache::Time expires = kNow + 60s) {
    table.insert(table.key_of(0, credential), user, expires, kVersion);
}

TEST_CASE("remembered: an inserted credential is found, and no other") {
    CredentialCache table({});
    insert(table, "token-a", {"alice", "pro"});
    insert(table, "token-b", {"bob", ""});
    CHECK(find(table, "token-a") == "alice/pro");
    CHECK(find(table, "token-b") == "bob/");
    CHECK(find(table, "token-c") == "nobody");
    CHECK(find(table, "") == "nobody");
    CHECK(find(table, "token-") == "nobody");
    CHECK(find(table, "token-aa") == "nobody");
}

TEST_CASE("remembered: the claims of a user are kept beside the name, within the same bound") {
    CredentialCache table({.entries = 10, .bytes = 40});
    insert(table, "token", {"alice", "pro", {}, "claims-of-alice"});
    const auto key = table.key_of(0, "token");
    const auto user = table.find(key, kNow, kVersion);
    REQUIRE(user);
    CHECK(user->name == "alice");
    CHECK(user->tier == "pro");
    CHECK(user->claims == "claims-of-alice");
    CHECK(table.bytes() == 23);
    insert(table, "other", {"bob", "", {}, "claims-of-bob"});
    CHECK(table.bytes() == 39);
    insert(table, "third", {"carol", "", {}, "c"});  // makes room
    CHECK(table.bytes() <= 40);
    CHECK(table.size() < 3);
    insert(table, "large", {"dave", "", {}, std::string(40, 'c')});
    CHECK(find(table, "large") == "nobody");

    SharedCredentialCache shared;
    CredentialCache of_thread({}, shared.digest());
    const auto same = of_thread.key_of(0, "token");
    shared.insert(same, {"alice", "pro", {}, "claims"}, kNow + 60s, kVersion);
    REQUIRE(shared.copy(same, kNow, kVersion, of_thread));
    CHECK(of_thread.find(same, kNow, kVersion)->claims == "claims");
}

TEST_CASE("remembered: a token that expires while it is remembered is forgotten on the instant") {
    CredentialCache table({});
    insert(table, "token", {"alice", "pro"}, kNow + 60s);
    CHECK(find(table, "token", kNow + 60s - 1us) == "alice/pro");
    CHECK(find(table, "token", kNow + 60s) == "nobody");
    CHECK(find(table, "token", kNow) == "nobody");  // for good
    CHECK(table.size() == 0);
}

TEST_CASE("remembered: with other keys in force it is forgotten") {
    CredentialCache table({});
    insert(table, "token", {"alice", "pro"});
    CHECK(find(table, "token", kNow, kVersion + 1) == "nobody");
    CHECK(find(table, "token", kNow, kVersion) == "nobody");  // for good
    insert(table, "token", {"alice", "pro"});
    CHECK(find(table, "token", kNow, kVersion - 1) == "nobody");
}

TEST_CASE("remembered: a credential that one method accepted is unknown to another") {
    CredentialCache table({});
    insert(table, "secret", {"alice", "pro"});
    CHECK(find(table, "secret", kNow, kVersion, 1) == "nobody");
    CHECK(find(table, "secret", kNow, kVersion, 0) == "alice/pro");
    table.insert(table.key_of(1, "secret"), {"bob", ""}, kNow + 1s, kVersion);
    CHECK(find(table, "secret", kNow, kVersion, 1) == "bob/");
    CHECK(find(table, "secret", kNow, kVersion, 0) == "alice/pro");
}

TEST_CASE("remembered: inserting again replaces the entry") {
    CredentialCache table({});
    insert(table, "token", {"alice", "pro"}, kNow + 1s);
    insert(table, "token", {"alice", "free"}, kNow + 9s);
    CHECK(table.size() == 1);
    CHECK(find(table, "token", kNow + 5s) == "alice/free");
    CHECK(table.bytes() == 9);
}

TEST_CASE("remembered: names that were found may be inserted again") {
    CredentialCache table({1, 1'000});
    const std::string longer(100, 'a');
    insert(table, "token", {longer, "pro"});
    const auto key = table.key_of(0, "token");
    const auto found = table.find(key, kNow, kVersion);
    REQUIRE(found);
    table.insert(key, *found, kNow + 1s, kVersion);
    CHECK(find(table, "token") == longer + "/pro");
}

TEST_CASE("remembered: it never holds more entries than it may") {
    CredentialCache table({10, 1'000'000});
    for (int i = 0; i < 1'000; ++i) {
        insert(table, std::to_string(i), {"user", "tier"});
        CHECK(table.size() <= 10);
        CHECK(find(table, std::to_string(i)) == "user/tier");
    }
    CHECK(table.size() == 10);
    CHECK(table.bytes() == 80);
}

TEST_CASE("remembered: it never holds more bytes than it may") {
    CredentialCache table({1'000, 100});
    const std::string forty(40, 'u');
    for (int i = 0; i < 100; ++i) {
        insert(table, std::to_string(i), {forty, ""});
        CHECK(table.bytes() <= 100);
        CHECK(find(table, std::to_string(i)) == forty + "/");
    }
    CHECK(table.size() == 2);
    insert(table, "too long", {std::string(101, 'u'), ""});
    CHECK(find(table, "too long") == "nobody");
    CHECK(table.size() == 2);
    insert(table, "just", {std::string(60, 'u'), std::string(40, 't')});
    CHECK(table.size() == 1);
    CHECK(table.bytes() == 100);
}

TEST_CASE("remembered: an entry that is looked up stays while others come and go") {
    CredentialCache table({8, 1'000});
    insert(table, "busy", {"alice", ""});
    for (int i = 0; i < 1'000; ++i) {
        insert(table, std::to_string(i), {"other", ""});
        REQUIRE(find(table, "busy") == "alice/");
    }
}

TEST_CASE("remembered: when all entries are looked up, one is evicted all the same") {
    CredentialCache table({4, 1'000});
    for (const char* name : {"a", "b", "c", "d"}) insert(table, name, {name, ""});
    for (const char* name : {"a", "b", "c", "d"}) CHECK(find(table, name) != "nobody");
    insert(table, "e", {"e", ""});
    CHECK(find(table, "e") == "e/");
    CHECK(table.size() == 4);
}

TEST_CASE("remembered: expired entries make room") {
    CredentialCache table({2, 1'000});
    insert(table, "a", {"a", ""}, kNow + 1s);
    insert(table, "b", {"b", ""}, kNow + 9s);
    CHECK(find(table, "a", kNow + 2s) == "nobody");
    insert(table, "c", {"c", ""}, kNow + 9s);
    CHECK(find(table, "b", kNow + 2s) == "b/");
    CHECK(find(table, "c", kNow + 2s) == "c/");
}

TEST_CASE("remembered: after clear() no entry is found, and new ones may be inserted") {
    CredentialCache table({2, 1'000});
    insert(table, "a", {"a", ""});
    insert(table, "b", {"b", ""});
    insert(table, "c", {"c", ""});
    table.clear();
    CHECK(table.size() == 0);
    CHECK(table.bytes() == 0);
    CHECK(find(table, "c") == "nobody");
    insert(table, "d", {"d", ""});
    CHECK(find(table, "d") == "d/");
}

TEST_CASE(
    "remembered: a credential that was being checked during clear() is not found afterwards") {
    CredentialCache table({});
    const auto key = table.key_of(0, "password of the file before");
    table.clear();
    table.insert(key, {"alice", "pro"}, kNow + 60s, kVersion);
    CHECK(find(table, "password of the file before") == "nobody");
}

TEST_CASE("remembered: clear() leaves no places of entries that were forgotten before") {
    CredentialCache table({4, 100});
    for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) insert(table, name, {name, ""});
    CHECK(find(table, "g", kNow + 60s) == "nobody");
    CHECK(find(table, "f", kNow + 60s) == "nobody");
    table.clear();
    for (const char* name : {"h", "i"}) {
        insert(table, name, {std::string(100, 'u'), ""});  // each evicts the one before
        CHECK(find(table, name) == std::string(100, 'u') + "/");
        CHECK(table.size() == 1);
    }
}

TEST_CASE("remembered: without room nothing is remembered") {
    CredentialCache table({0, 1'000});
    insert(table, "a", {"a", ""});
    CHECK(find(table, "a") == "nobody");
    CHECK(table.size() == 0);
}

TEST_CASE("remembered: a refusal is not taken for a user, and is as exact in its end") {
    CredentialCache table({});
    insert(table, "old", {"", "", CredentialFault::expired}, kNow + 60s);
    const auto key = table.key_of(0, "old");
    REQUIRE(table.find(key, kNow, kVersion));
    CHECK(table.find(key, kNow, kVersion)->fault == CredentialFault::expired);
    CHECK_FALSE(table.find(key, kNow + 60s, kVersion));
    insert(table, "new", {"alice"});
    CHECK(table.find(table.key_of(0, "new"), kNow, kVersion)->fault == CredentialFault::none);
}

TEST_CASE("remembered: an entry of one thread is found by others, with its expiry and its keys") {
    SharedCredentialCache shared;
    CredentialCache one({}, shared.digest());
    CredentialCache other({}, shared.digest());
    const auto key = one.key_of(0, "token");
    CHECK(key == other.key_of(0, "token"));
    CHECK_FALSE(shared.copy(key, kNow, kVersion, other));
    shared.insert(key, {"alice", "pro"}, kNow + 60s, kVersion);
    CHECK_FALSE(shared.copy(key, kNow, kVersion + 1, other));  // other keys: forgotten
    shared.insert(key, {"alice", "pro"}, kNow + 60s, kVersion);
    CHECK(shared.copy(key, kNow + 1s, kVersion, other));
    CHECK(shown(other.find(key, kNow + 60s - 1us, kVersion)) == "alice/pro");
    CHECK_FALSE(other.find(key, kNow + 60s, kVersion));
    CHECK_FALSE(shared.copy(key, kNow + 60s, kVersion, other));
}

}  // namespace
}  // namespace tidegate::identity::credential_cache_test

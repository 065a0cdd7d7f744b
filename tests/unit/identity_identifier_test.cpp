#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/identifier.hpp"

namespace tidegate::identity {
namespace {

std::string user(std::string_view name) {
    std::string out = "<";
    append_user_identifier(name, out);
    return out.substr(1);
}

std::string ip(std::string_view text, int prefix) {
    std::string out;
    append_ip_identifier(parse_ip(text).value(), prefix, out);
    return out;
}

TEST_CASE("identifier: IPv4 is counted by itself, IPv6 by its network") {
    CHECK(ip("203.0.113.7", 64) == "ip:203.0.113.7");
    CHECK(ip("::ffff:203.0.113.7", 64) == "ip:203.0.113.7");
    CHECK(ip("2001:db8:1:2:3:4:5:6", 64) == "ip:2001:db8:1:2::/64");
    CHECK(ip("2001:db8:1:2ff:3:4:5:6", 56) == "ip:2001:db8:1:200::/56");
    CHECK(ip("2001:db8::7", 128) == "ip:2001:db8::7");
    CHECK(ip("2001:db8::7", 64) == ip("2001:DB8:0:0:ffff::", 64));
}

TEST_CASE("identifier: a plain user is itself") {
    CHECK(user("alice") == "user:alice");
    CHECK(user("alice@example.com") == "user:alice@example.com");
    CHECK(user("a b:c/#~") == "user:a b:c/#~");
}

TEST_CASE("identifier: what would not survive a key or a log is encoded") {
    CHECK(user("{a}") == "user:%7Ba%7D");
    CHECK(user("100%") == "user:100%25");
    CHECK(user("a\r\nb\x7f") == "user:a%0D%0Ab%7F");
    CHECK(user("\xc3\xa9") == "user:%C3%A9");
    CHECK(user(std::string_view("a\0b", 3)) == "user:a%00b");
    CHECK(user("#a#") == "user:%23a#");
}

TEST_CASE("identifier: a long user is hashed and cannot be forged by name") {
    // The longest that fits, and one more.
    CHECK(user(std::string(123, 'a')) == "user:" + std::string(123, 'a'));
    const std::string hashed = user(std::string(124, 'a'));
    CHECK(hashed.size() == 6 + 64);
    CHECK(hashed.starts_with("user:#"));
    CHECK(user(hashed.substr(5)) != hashed);
    CHECK(user(std::string(1'000'000, 'a')) ==
          "user:#cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    // Encoding counts: 42 characters that need three bytes each are too many.
    CHECK(user(std::string(41, '{')).size() == 5 + 123);
    CHECK(user(std::string(42, '{')).starts_with("user:#"));
}

TEST_CASE("identifier: different users have different identifiers") {
    const std::set<std::string> identifiers = {
        user("a"),     user("%61"), user("#"),    user("%23"),
        user("{"),     user("%7B"), user("%7b"),  user("%257B"),
        user("a\x01"), user(""),    user("a%01"), user(std::string(200, 'a')),
        user("A"),     user(" a"),  user("a "),   user(std::string(201, 'a'))};
    CHECK(identifiers.size() == 16);
}

}  // namespace
}  // namespace tidegate::identity

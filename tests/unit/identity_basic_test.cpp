#include <crypt.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/basic.hpp"

namespace tidegate::identity::basic_test {

namespace {

// The hash of the system's library, with a salt of its own.
std::string hash(std::string_view prefix, unsigned long count, const std::string& password) {
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    REQUIRE(crypt_gensalt_rn(std::string(prefix).c_str(), count, nullptr, 0, setting,
                             sizeof setting) != nullptr);
    const auto work = std::make_unique<crypt_data>();
    const char* const made =
        crypt_rn(password.c_str(), setting, work.get(), static_cast<int>(sizeof *work));
    REQUIRE(made != nullptr);
    return made;
}

Htpasswd users_of(const std::string& text) {
    auto read = Htpasswd::parse(text);
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
    return *read;
}

// `line: message` of a file that is refused.
std::string fault(const std::string& text) {
    const auto read = Htpasswd::parse(text);
    return read ? "none" : std::to_string(read.error().line) + ": " + read.error().message;
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::string sha_text(std::string_view head, std::size_t digest_chars) {
    return std::string(head) + std::string(digest_chars, 'a');
}

TEST_CASE("htpasswd: every kind of hash that is taken lets the right password in, and no other") {
    for (const std::string& made :
         {hash("$2y$", 4, "open sesame"), hash("$2b$", 5, "open sesame"),
          hash("$2a$", 4, "open sesame"), hash("$5$", 1'000, "open sesame"),
          hash("$5$", 5'000, "open sesame"), hash("$6$", 1'500, "open sesame")}) {
        const Htpasswd users = users_of("alice:" + made + "\n");
        CHECK_MESSAGE(users.verify("alice", "open sesame"), made);
        for (const std::string_view wrong :
             {"", "open sesam", "open sesame ", "Open sesame", "alice"})
            CHECK_FALSE(users.verify("alice", wrong));
        CHECK_FALSE(users.verify("alice", made));  // the hash is no password
    }
}

TEST_CASE("htpasswd: hashes that others made are understood") {
    // The first of crypt_blowfish's own tests; the others as `openssl passwd` makes them.
    CHECK(users_of("u:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")
              .verify("u", "U*U"));
    CHECK(users_of("u:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5")
              .verify("u", "Hello world!"));
    CHECK(users_of("u:$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJues"
                   "I68u4OTLiBFdcbYEdFCoEOfaS35inz1")
              .verify("u", "Hello world!"));
}

TEST_CASE("htpasswd: each user has a password of his own") {
    const Htpasswd users =
        users_of("alice:" + hash("$2y$", 4, "a") + "\nbob:" + hash("$5$", 1'000, "b") + "\n");
    CHECK(users.size() == 2);
    CHECK(users.verify("alice", "a"));
    CHECK(users.verify("bob", "b"));
    CHECK_FALSE(users.verify("alice", "b"));
    CHECK_FALSE(users.verify("bob", "a"));
    CHECK_FALSE(users.verify("Alice", "a"));
}

TEST_CASE("htpasswd: an unknown user has no password, not even another user's") {
    const Htpasswd users = users_of("alice:" + hash("$2y$", 4, "a"));
    CHECK_FALSE(users.verify("mallory", "a"));
    CHECK_FALSE(users.verify("mallory", ""));
    CHECK_FALSE(users.verify("", "a"));
}

TEST_CASE("htpasswd: an unknown user takes as long as the longest hash of the file") {
    using Clock = std::chrono::steady_clock;
    const Htpasswd users =
        users_of("quick:" + hash("$5$", 1'000, "x") + "\nslow:" + hash("$2y$", 9, "x") + "\n");
    const auto shortest = [&](std::string_view user) {
        auto least = Clock::duration::max();
        for (int i = 0; i < 5; ++i) {
            const auto begin = Clock::now();
            CHECK_FALSE(users.verify(user, "y"));
            least = std::min(least, Clock::now() - begin);
        }
        return least;
    };
    const auto slow = shortest("slow");
    CHECK(shortest("nobody") > slow / 2);
    CHECK(shortest("quick") < slow / 2);
    CHECK(shortest(std::string(200, 'n')) > slow / 2);
}

TEST_CASE("htpasswd: bcrypt does not look beyond 72 bytes, so a longer password is never right") {
    const std::string limit(72, 'p');
    const Htpasswd users = users_of("alice:" + hash("$2y$", 4, limit));
    CHECK(users.verify("alice", limit));
    CHECK_FALSE(users.verify("alice", limit + "x"));
    CHECK_FALSE(users.verify("alice", limit.substr(1)));
}

TEST_CASE("htpasswd: a password that libcrypt would cut off or refuse is wrong") {
    const std::string limit(511, 'p');
    const Htpasswd users =
        users_of("alice:" + hash("$6$", 1'000, limit) + "\nbob:" + hash("$6$", 1'000, "secret"));
    CHECK(users.verify("alice", limit));
    CHECK_FALSE(users.verify("alice", limit + "p"));
    CHECK_FALSE(users.verify("alice", std::string(100'000, 'p')));
    CHECK_FALSE(users.verify("bob", std::string_view("secret\0", 7)));
    CHECK_FALSE(users.verify("bob", std::string_view("secret\0x", 8)));
}

TEST_CASE("htpasswd: blank lines, comments, spaces around and what follows the hash do not count") {
    const std::string made = hash("$2y$", 4, "x");
    const Htpasswd users =
        users_of("# people\r\n\r\n   \n\t# more\n  alice:" + made + "  \r\nbob:" + made +
                 ":Bob, accounting:more\n\n" + "eve:" + made);
    CHECK(users.size() == 3);
    for (const char* name : {"alice", "bob", "eve"}) CHECK(users.verify(name, "x"));
}

TEST_CASE("htpasswd: a file without users accepts no password") {
    for (const char* text : {"", "\n", "# nobody"}) {
        CHECK(users_of(text).size() == 0);
        CHECK_FALSE(users_of(text).verify("alice", ""));
    }
}

TEST_CASE("htpasswd: hashes that are quick to guess are refused, with advice") {
    const auto refused = [](const std::string& made, std::string_view because) {
        const std::string message = fault("# people\nalice:" + made + "\n");
        CHECK_MESSAGE(message.starts_with("2: "), message);
        CHECK_MESSAGE(contains(message, because), message);
        CHECK_MESSAGE(contains(message, "htpasswd -B"), message);
        if (!made.empty()) CHECK_MESSAGE(!contains(message, made), message);
    };
    refused("$apr1$qHDFfhPC$nITSVHgYbDAK1Y0acGRnY0", "MD5");
    refused("$1$salt$qJH7.N4xYta3aEG/dfqo/0", "MD5");
    refused("{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=", "SHA-1");
    refused("{SSHA}W6ZV2UF3bYNlR0R8VnP4lO3wcNWMwzGC", "SHA-1");
    refused("rqXexS6ZhobKA", "DES");
    refused("Tr0ub4dor&3", "plain");
    refused("$2x$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e", "loses characters");
    refused("$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7", "bcrypt");
    refused("$2$05$abc", "bcrypt");
    refused("*", "plain");
    refused("", "missing");
}

TEST_CASE("htpasswd: a bcrypt hash that is broken or costs too much is refused") {
    const std::string good = hash("$2y$", 4, "x");
    const auto with_cost = [&](std::string_view cost) {
        std::string other = good;
        return "alice:" + other.replace(4, 2, cost);
    };
    for (const char* cost : {"04", "12", "14"}) CHECK(fault(with_cost(cost)) == "none");
    for (const char* cost : {"00", "03", "15", "31", "99"})
        CHECK_MESSAGE(contains(fault(with_cost(cost)), "4 to 14"), cost);
    for (const char* cost : {"1x", "x1", "-4", " 4"})
        CHECK_MESSAGE(contains(fault(with_cost(cost)), "not a complete"), cost);
    CHECK(contains(fault("alice:" + good.substr(0, 59)), "not a complete"));
    CHECK(contains(fault("alice:" + good + "a"), "not a complete"));
    CHECK(contains(fault("alice:" + good.substr(0, 59) + "!"), "not a complete"));
    CHECK(contains(fault("alice:$2y$"), "not a complete"));
    CHECK(contains(fault("alice:$2y$10"), "not a complete"));
}

TEST_CASE("htpasswd: a SHA-crypt hash that is broken or costs too much is refused") {
    const auto six = [](std::string_view head) { return fault("alice:" + sha_text(head, 86)); };
    CHECK(six("$6$salt$") == "none");
    CHECK(six("$6$$") == "none");
    CHECK(six("$6$0123456789abcdef$") == "none");
    CHECK(six("$6$rounds=1000$salt$") == "none");
    CHECK(six("$6$rounds=1000000$salt$") == "none");
    CHECK(fault("alice:" + sha_text("$5$salt$", 43)) == "none");

    for (const char* rounds : {"999", "1000001", "0", "", "-5000", "+5000", "05000", "5000x", "5e3",
                               "99999999999999999999"}) {
        CHECK_MESSAGE(
            contains(six("$6$rounds=" + std::string(rounds) + "$salt$"), "1000 to 1000000"),
            rounds);
    }
    CHECK(contains(six("$6$0123456789abcdefg$"), "not a complete"));
    CHECK(contains(six("$6$sa!t$"), "not a complete"));
    CHECK(contains(six("$6$rounds=5000salt"), "not a complete"));
    CHECK(contains(six("$6$"), "not a complete"));
    CHECK(contains(fault("alice:" + sha_text("$6$salt$", 85)), "not a complete"));
    CHECK(contains(fault("alice:" + sha_text("$6$salt$", 87)), "not a complete"));
    CHECK(contains(fault("alice:" + sha_text("$5$salt$", 86)), "not a complete"));
}

TEST_CASE("htpasswd: a malformed line, a malformed name and a user twice are refused") {
    const std::string made = hash("$2y$", 4, "x");
    CHECK(fault("alice:" + made + "\nbob") == "2: there is no colon: `user:hash`");
    CHECK(contains(fault(":" + made), "1: the name of a user"));
    CHECK(contains(fault("a\x01z:" + made), "1: the name of a user"));
    CHECK(contains(fault("a\xff:" + made), "1: the name of a user"));
    CHECK(contains(fault(std::string(257, 'a') + ":" + made), "1: the name of a user"));
    CHECK(fault("alice:" + made + "\n\nbob:" + made + "\nalice:" + made) ==
          "4: the file has this user twice");
}

}  // namespace

}  // namespace tidegate::identity::basic_test

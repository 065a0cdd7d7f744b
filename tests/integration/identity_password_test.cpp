// Passwords take long to check: which requests wait for that, which are refused, and which clients
// left.
#include <signal.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_password_test {

namespace {

// As many as one address may have under way.
constexpr int kUnderWayForOne = 8;

struct World {
    TemporaryFolder folder;
    std::string htpasswd = folder.write("users.htpasswd", kSlowPasswords);
    Upstream upstream{ok()};
    Tidegate tidegate{yaml("")};

    std::string yaml(const std::string& more) const {
        return "threads: 1\n" +
               identified(upstream, "user: [{basic: {htpasswd: \"" + htpasswd + "\"}}]" + more);
    }
};

std::vector<RawClient> connected(const Tidegate& tidegate, int count) {
    std::vector<RawClient> clients;
    clients.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) clients.push_back(tidegate.client());
    return clients;
}

std::string guess(int number) {
    return get_request("/guess", basic("slow", "guess-" + std::to_string(number)));
}

const std::string kRight = basic("slow", "slower-password");

}  // namespace

TEST_CASE("passwords: while they are checked, others are answered") {
    const World world;
    auto slow = world.tidegate.client();
    auto others = world.tidegate.client();
    CHECK(others.get("/before").status() == 200);
    slow.send(get_request("/slow", kRight));
    for (int i = 0; i < 10; ++i) CHECK(others.get("/other").status() == 200);
    CHECK(slow.response().status() == 200);
    const auto seen = world.upstream.seen();
    REQUIRE(seen.size() == 12);
    CHECK(seen.back().target() == "/slow");
}

TEST_CASE("passwords: the same login many times at once is one check") {
    const World world;
    // Were each of them checked, there would be too many of one address.
    CHECK(hammer({world.tidegate.port()}, 3 * kUnderWayForOne, 3 * kUnderWayForOne, kRight) ==
          Statuses{{200, 3 * kUnderWayForOne}});
    CHECK(world.tidegate.get("/", kRight).status() == 200);
    CHECK(last_user(world.upstream) == "slow");
}

TEST_CASE("passwords: an address that has too many under way gets 503") {
    const World world;
    auto clients = connected(world.tidegate, kUnderWayForOne + 2);
    int number = 0;
    for (const auto& client : clients) client.send(guess(++number));
    Statuses statuses;
    for (auto& client : clients) {
        const Message answer = client.response();
        ++statuses[answer.status()];
        if (answer.status() != 503) continue;
        CHECK(std::stoi(answer.field("Retry-After")) >= 1);
        CHECK(answer.field("Content-Type") == "application/problem+json");
        CHECK(!answer.has("WWW-Authenticate"));
    }
    CHECK(statuses == Statuses{{401, kUnderWayForOne}, {503, 2}});
    // Its place is free again.
    CHECK(world.tidegate.get("/", kRight).status() == 200);
}

TEST_CASE("passwords: while one address fills its places, another has its own") {
    const World world;
    auto clients = connected(world.tidegate, kUnderWayForOne);
    int number = 0;
    for (const auto& client : clients) client.send(guess(++number));
    CHECK(world.tidegate.get("/", kRight, "127.0.1.1").status() == 200);
    for (auto& client : clients) CHECK(client.response().status() == 401);
}

TEST_CASE("passwords: a client that leaves while its own is checked does no harm") {
    const World world;
    for (int i = 0; i < kUnderWayForOne; ++i) {
        auto client = world.tidegate.client();
        client.send(guess(i));
        if (i % 2 == 0) client.reset();
    }
    CHECK(world.tidegate.get("/other").status() == 200);
    await("all who left", [&] { return world.tidegate.access_log(0).size() >= 9; });
    CHECK(world.tidegate.get("/", kRight).status() == 200);
}

TEST_CASE("passwords: checks of clients that have left delay no later client") {
    const World world;
    for (int address = 1; address <= 12; ++address) {
        for (int i = 0; i < kUnderWayForOne; ++i) {
            auto client = world.tidegate.client("127.7." + std::to_string(address) + ".1");
            client.send(guess(i));
        }
    }
    // All of these together would take longer than any client waits here.
    CHECK(world.tidegate.get("/", kRight, "127.0.1.1").status() == 200);
}

TEST_CASE("passwords: addresses take turns") {
    const World world;
    std::vector<RawClient> clients;
    for (int i = 0; i < kUnderWayForOne; ++i) {
        clients.push_back(world.tidegate.client());
        clients.back().send(guess(i));
    }
    auto other = world.tidegate.client("127.9.0.1");
    other.send(get_request("/other", kRight));
    CHECK(other.response().status() == 200);
    // The client that came before it still waits.
    CHECK(logged(world.tidegate, "/other").at("status") == 200);
    CHECK(world.tidegate.access_log(0).size() < kUnderWayForOne);
    for (auto& client : clients) CHECK(client.response().status() == 401);
}

TEST_CASE("passwords: a check that is under way during a reload ends as it began") {
    World world;
    world.tidegate.write_configuration(world.yaml(", failed_credentials: 1/h"));
    CHECK(world.tidegate.reload().status() == 200);
    auto right = world.tidegate.client();
    auto wrong = world.tidegate.client();
    wrong.send(guess(1));
    await("the guess",
          [&] { return decisions(world.tidegate, "admitted", "failed_credentials") == 1; });
    world.folder.write("users.htpasswd", kPasswords);
    world.tidegate.write_configuration(world.yaml(""));
    CHECK(world.tidegate.reload().status() == 200);
    CHECK(wrong.response().status() == 401);
    CHECK(world.tidegate.get("/", kRight).status() == 401);

    world.folder.write("users.htpasswd", kSlowPasswords);
    CHECK(world.tidegate.reload().status() == 200);
    right.send(get_request("/slow", kRight));
    CHECK(world.tidegate.get("/other").status() == 200);  // so it has been read
    world.folder.write("users.htpasswd", kPasswords);
    CHECK(world.tidegate.reload().status() == 200);
    CHECK(right.response().status() == 200);
    CHECK(world.tidegate.get("/", kRight).status() == 401);
}

TEST_CASE("passwords: a password that was not checked counts as no guess") {
    const World world;
    world.tidegate.write_configuration(world.yaml(", failed_credentials: 10/h"));
    CHECK(world.tidegate.reload().status() == 200);
    auto clients = connected(world.tidegate, kUnderWayForOne + 2);
    int number = 0;
    for (const auto& client : clients) client.send(guess(++number));
    Statuses statuses;
    for (auto& client : clients) ++statuses[client.response().status()];
    CHECK(statuses == Statuses{{401, kUnderWayForOne}, {503, 2}});
    CHECK(hammer({world.tidegate.port()}, 1, 4, basic("slow", "wrong")) ==
          Statuses{{401, 2}, {429, 2}});
}

TEST_CASE("passwords: a stop lets the one that is checked be answered, and waits for no client") {
    World world;
    auto client = world.tidegate.client();
    CHECK(client.get("/before").status() == 200);
    auto left = world.tidegate.client();
    left.send(guess(0));
    client.send(get_request("/slow", kRight));
    CHECK(world.tidegate.get("/other").status() == 200);  // so both have been read
    left.reset();
    world.tidegate.signal(SIGTERM);
    CHECK(client.response().status() == 200);
    CHECK(world.tidegate.wait() == 0);
}

TEST_CASE("passwords: a long user or password, and bytes that are no text, are 401") {
    const World world;
    const auto status_of = [&](const std::string& user, const std::string& password) {
        return world.tidegate.get("/", basic(user, password)).status();
    };
    CHECK(status_of(std::string(257, 'a'), "x") == 401);
    CHECK(status_of("slow", std::string(1025, 'x')) == 401);
    CHECK(status_of("slow", "slower-password" + std::string(100, 'x')) == 401);
    CHECK(status_of("slow", std::string("slower-password\0", 16)) == 401);
    CHECK(status_of("slow", std::string("slower-password\0x", 17)) == 401);
    CHECK(status_of("slow", "\xff\xfe") == 401);
    CHECK(status_of("", "") == 401);
    CHECK(status_of("slow", "") == 401);
    CHECK(status_of("", "slower-password") == 401);
    CHECK(world.upstream.requests() == 0);
}

}  // namespace tidegate::test::identity_password_test

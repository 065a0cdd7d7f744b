#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tls/ticket_keys.hpp"

namespace tidegate::tls_ticket_keys_test {

namespace {

using namespace std::chrono_literals;
using Time = TicketKeys::Time;

constexpr Time kStart{};

TicketKey encrypting(const TicketKeys& keys) {
    return keys.keys()->keys.front();
}

bool knows(const TicketKeys& keys, const TicketKey& key) {
    const auto set = keys.keys();
    const TicketKey* const found = set->find(key.name.data());
    return found != nullptr && *found == key;
}

// The three parts, each of one letter.
std::string configured_key(char name, char mac, char cipher) {
    return std::string(16, name) + std::string(32, mac) + std::string(32, cipher);
}

}  // namespace

TEST_CASE("ticket keys: a process makes its own, of chance") {
    const TicketKeys keys({}, kStart);
    const TicketKeys others({}, kStart);
    CHECK(keys.keys()->keys.size() == 1);
    CHECK(encrypting(keys).name != encrypting(others).name);
    CHECK(encrypting(keys).mac != encrypting(others).mac);
    CHECK(encrypting(keys).cipher != encrypting(others).cipher);
    CHECK(encrypting(keys).mac != encrypting(keys).cipher);
    CHECK_FALSE(knows(keys, encrypting(others)));
}

TEST_CASE("ticket keys: every 8 hours there is a new one, and two old ones are known") {
    TicketKeys keys({}, kStart);
    const TicketKey first = encrypting(keys);
    keys.rotate(kStart + 8h - 1s);
    CHECK(encrypting(keys) == first);
    CHECK(keys.version() == 1);
    keys.rotate(kStart + 8h);
    const TicketKey second = encrypting(keys);
    CHECK(second.name != first.name);
    CHECK(knows(keys, first));
    CHECK(keys.version() == 2);
    keys.rotate(kStart + 8h);
    CHECK(keys.version() == 2);
    keys.rotate(kStart + 16h);
    CHECK(encrypting(keys).name != second.name);
    CHECK(knows(keys, second));
    CHECK(knows(keys, first));
    keys.rotate(kStart + 24h);
    CHECK(knows(keys, second));
    CHECK_FALSE(knows(keys, first));
    CHECK(keys.keys()->keys.size() == 3);
}

TEST_CASE("ticket keys: a rotation that comes late keeps no key for longer than its time") {
    TicketKeys keys({}, kStart);
    const TicketKey first = encrypting(keys);
    keys.rotate(kStart + 20h);
    const TicketKey second = encrypting(keys);
    CHECK(knows(keys, first));
    keys.rotate(kStart + 28h);
    CHECK_FALSE(knows(keys, first));
    CHECK(knows(keys, second));
    keys.rotate(kStart + 1'000h);
    CHECK(keys.keys()->keys.size() == 1);
}

TEST_CASE("ticket keys: a configured key is its name, the key of the MAC, and that of the cipher") {
    const TicketKeys keys({configured_key('n', 'm', 'c')}, kStart);
    const TicketKey key = encrypting(keys);
    CHECK(std::string(key.name.begin(), key.name.end()) == std::string(16, 'n'));
    CHECK(std::string(key.mac.begin(), key.mac.end()) == std::string(32, 'm'));
    CHECK(std::string(key.cipher.begin(), key.cipher.end()) == std::string(32, 'c'));
}

TEST_CASE("ticket keys: configured ones stay as they are; the first encrypts, all are known") {
    const std::string a = configured_key('a', 'x', 'x');
    const std::string b = configured_key('b', 'x', 'x');
    TicketKeys keys({a, b}, kStart);
    const auto before = keys.keys();
    CHECK(encrypting(keys).name.front() == 'a');
    CHECK(before->find(before->keys[1].name.data()) == &before->keys[1]);
    keys.rotate(kStart + 100h);
    CHECK(keys.keys() == before);
}

TEST_CASE("ticket keys: a reload keeps what it does not change") {
    TicketKeys keys({}, kStart);
    const TicketKey own = encrypting(keys);
    keys.use({}, kStart + 1h);
    CHECK(encrypting(keys) == own);
    CHECK(keys.version() == 1);
    const std::string a = configured_key('a', 'x', 'x');
    const std::string b = configured_key('b', 'x', 'x');
    keys.use({a}, kStart + 2h);
    CHECK_FALSE(knows(keys, own));
    CHECK(keys.version() == 2);
    keys.use({a}, kStart + 3h);
    CHECK(keys.version() == 2);
    keys.use({b, a}, kStart + 4h);
    CHECK(encrypting(keys).name.front() == 'b');
    CHECK(keys.keys()->keys.size() == 2);
    keys.use({}, kStart + 5h);
    CHECK(keys.keys()->keys.size() == 1);
    const TicketKey made = encrypting(keys);
    CHECK(made.name != own.name);
    // Its time begins when it is made.
    keys.rotate(kStart + 12h);
    CHECK(encrypting(keys) == made);
    keys.rotate(kStart + 13h);
    CHECK(encrypting(keys).name != made.name);
}

TEST_CASE("ticket keys: a reader sees the newest, whichever thread makes it") {
    const auto keys = std::make_shared<TicketKeys>(std::vector<std::string>{}, kStart);
    TicketKeyReader reader(keys);
    CHECK(reader.read().version == 1);
    std::thread other([&] {
        for (int i = 1; i <= 100; ++i) keys->rotate(kStart + i * 8h);
    });
    std::uint64_t seen = 0;
    while (seen < 101) {
        const TicketKeySet& set = reader.read();
        const std::uint64_t version = set.version;
        CHECK(version >= seen);
        CHECK(set.find(set.keys.front().name.data()) == &set.keys.front());
        seen = version;
    }
    other.join();
    CHECK(&reader.read() == keys->keys().get());
}

TEST_CASE("ticket keys: another process goes on with them, and with their age") {
    TicketKeys former({}, kStart);
    const TicketKey first = encrypting(former);
    former.rotate(kStart + 8h);
    TicketKeys next({}, kStart + 10h);
    next.go_on_with(former.made());
    CHECK(encrypting(next) == encrypting(former));
    CHECK(knows(next, first));
    next.rotate(kStart + 15h);
    CHECK(encrypting(next) == encrypting(former));
    next.rotate(kStart + 16h);
    CHECK_FALSE(encrypting(next) == encrypting(former));
    CHECK(knows(next, encrypting(former)));
}

TEST_CASE("ticket keys: configured ones are not handed over, and none take their place") {
    const TicketKeys former({}, kStart);
    TicketKeys configured({configured_key('n', 'm', 'c')}, kStart);
    CHECK(configured.made().empty());
    const TicketKey own = encrypting(configured);
    configured.go_on_with(former.made());
    CHECK(encrypting(configured) == own);
    TicketKeys made({}, kStart);
    const TicketKey before = encrypting(made);
    made.go_on_with(configured.made());
    CHECK(encrypting(made) == before);
}

}  // namespace tidegate::tls_ticket_keys_test

// Ids of reservations: only a process with the secret can make one, and a changed one is refused.
#include <string>

#include <doctest/doctest.h>

#include "faces/check_call.hpp"
#include "faces/sealed_id.hpp"

namespace tidegate::faces::sealed_id_test {
namespace {

SealedReservation content() {
    SealedReservation made;
    made.reservation.cost = 7;
    made.reservation.moment = limit::Micros{1'700'000'030'000'000};
    store::Reservation::Part& part = made.reservation.parts.emplace_back();
    part.in_redis = true;
    part.at = limit::Micros{1'700'000'000'000'000};
    part.items.push_back({"per-user",
                          "pro",
                          "user:alice",
                          4'294'967'295,
                          {{0x12345678, 100}, {0xffffffff, 4'294'967'295}}});
    part.items.push_back({"per-ip", "", "ip:192.0.2.1", 0, {}});
    made.process = "aabb";
    made.expires =
        std::chrono::system_clock::time_point(std::chrono::milliseconds{1'700'000'060'123});
    return made;
}

}  // namespace

TEST_CASE("sealed id: a process with the secret opens what another sealed") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    const std::string id = seal.seal(sealed);
    CHECK(sealed.nonce.size() == 32);
    const auto opened = IdSeal("0123456789abcdef").open(id);
    REQUIRE(opened);
    CHECK(opened->reservation.cost == 7);
    CHECK(opened->reservation.moment == content().reservation.moment);
    REQUIRE(opened->reservation.parts.size() == 1);
    const store::Reservation::Part& part = opened->reservation.parts[0];
    CHECK(part.in_redis);
    CHECK(part.at == limit::Micros{1'700'000'000'000'000});
    REQUIRE(part.items.size() == 2);
    CHECK(part.items[0].policy == "per-user");
    CHECK(part.items[0].tier == "pro");
    CHECK(part.items[0].identifier == "user:alice");
    CHECK(part.items[0].generation == 4'294'967'295);
    REQUIRE(part.items[0].limits.size() == 2);
    CHECK(part.items[0].limits[0].limit == 0x12345678);
    CHECK(part.items[0].limits[0].quota == 100);
    CHECK(part.items[0].limits[1].limit == 0xffffffff);
    CHECK(part.items[0].limits[1].quota == 4'294'967'295);
    CHECK(part.items[1].limits.empty());
    CHECK(opened->process == "aabb");
    CHECK(opened->nonce == sealed.nonce);
    CHECK(opened->expires == content().expires);
    CHECK_FALSE(IdSeal("fedcba9876543210").open(id));
}

TEST_CASE("sealed id: two ids of the same content differ, and show nothing of it") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation one = content();
    SealedReservation other = content();
    const std::string id = seal.seal(one);
    CHECK(id != seal.seal(other));
    CHECK(one.nonce != other.nonce);
    CHECK(id.find("alice") == std::string::npos);
    CHECK(
        id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
        std::string::npos);
}

TEST_CASE("sealed id: the largest reservation has an id that a call can bring back") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    auto& items = sealed.reservation.parts[0].items;
    items[0].policy = std::string(64, 'p');
    items[0].identifier = std::string(128, 'i');
    items[0].limits.resize(limit::kLimitsMax, {0xffffffff, 0xffffffff});
    items.resize(64, items[0]);
    items[1] = items[0];
    const std::string id = seal.seal(sealed);
    CHECK(id.size() < kCheckBytesMax - 100);
    const auto opened = seal.open(id);
    REQUIRE(opened);
    CHECK(opened->reservation.parts[0].items.back().limits.size() == limit::kLimitsMax);
}

TEST_CASE("sealed id: a changed id is refused") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    const std::string id = seal.seal(sealed);
    for (std::size_t i = 0; i < id.size(); ++i) {
        std::string changed = id;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        CHECK_FALSE(seal.open(changed));
        CHECK_FALSE(seal.open(id.substr(0, i)));
    }
    CHECK_FALSE(seal.open(""));
    CHECK_FALSE(seal.open(std::string(100'000, 'A')));
}

}  // namespace tidegate::faces::sealed_id_test

// Vectors of the Redis Cluster specification, and answers of CLUSTER KEYSLOT.
#include <string>

#include <doctest/doctest.h>

#include "redis/cluster_map.hpp"

namespace tidegate::redis::slot_test {

TEST_CASE("slot: the specification's example of CRC16") {
    CHECK(crc16("123456789") == 0x31C3);
    CHECK(crc16("") == 0);
}

TEST_CASE("slot: keys are where CLUSTER KEYSLOT says") {
    CHECK(slot_of_key("foo") == 12182);
    CHECK(slot_of_key("bar") == 5061);
    CHECK(slot_of_key("") == 0);
    CHECK(slot_of_key(std::string("\xff\x00\x80", 3)) < kSlots);
}

TEST_CASE("slot: only what is in the first braces counts, if there is something") {
    CHECK(slot_of_key("{user1000}.following") == slot_of_key("{user1000}.followers"));
    CHECK(slot_of_key("{user1000}.following") == slot_of_tag("user1000"));
    // The examples of "Hash tags".
    CHECK(slot_of_key("foo{}{bar}") == slot_of_tag("foo{}{bar}"));
    CHECK(slot_of_key("foo{{bar}}zap") == slot_of_tag("{bar"));
    CHECK(slot_of_key("foo{bar}{zap}") == slot_of_tag("bar"));
    CHECK(slot_of_key("foo{bar") == slot_of_tag("foo{bar"));
    CHECK(slot_of_key("foo}bar{") == slot_of_tag("foo}bar{"));
}

TEST_CASE("slot: the key of a state and the identifier alone are in one slot") {
    for (const std::string identifier : {"ip:192.0.2.1", "user:alice", "1:a+2:%7B"}) {
        CHECK(slot_of_key("tg:4:default:{" + identifier + "}") == slot_of_tag(identifier));
        CHECK(slot_of_key("tg:4:p:{" + identifier + "}:00c0ffee") == slot_of_tag(identifier));
    }
}

}  // namespace tidegate::redis::slot_test

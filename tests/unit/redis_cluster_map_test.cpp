#include <string>

#include <doctest/doctest.h>

#include "redis/cluster_map.hpp"

namespace tidegate::redis::cluster_map_test {

namespace {

const std::string kId = "07c37dfeb235213a872192d90877d0cd55635b91 ";

// One line, of a master that is connected unless `flags` and `state` say otherwise.
std::string line(const std::string& address, const std::string& slots,
                 const std::string& flags = "master", const std::string& state = "connected") {
    return kId + address + " " + flags + " - 0 1426238317239 4 " + state +
           (slots.empty() ? "" : " " + slots) + "\n";
}

std::string fault_of(const std::string& text) {
    const auto nodes = parse_cluster_nodes(text, "asked");
    return nodes ? "" : nodes.error();
}

}  // namespace

TEST_CASE("cluster map: masters and their slots, as redis 7 writes them") {
    const auto nodes =
        parse_cluster_nodes(line("127.0.0.1:30004@31004,hostname4", "", "slave") +
                                line("127.0.0.1:30002@31002,hostname2", "5461-10922") +
                                line("127.0.0.1:30003@31003,hostname3", "10923-16383") +
                                line("127.0.0.1:30001@31001,hostname1", "0-5460", "myself,master"),
                            "asked");
    REQUIRE(nodes.has_value());
    REQUIRE(nodes->size() == 3);
    CHECK(nodes->at(0).address == NodeAddress{"127.0.0.1", 30002});
    CHECK(nodes->at(0).name == "hostname2");
    CHECK(nodes->at(0).slots == std::vector<SlotRange>{{5461, 10922}});
    CHECK(nodes->at(2).slots == std::vector<SlotRange>{{0, 5460}});
}

TEST_CASE("cluster map: single slots, slots on their way, old and new ways to write an address") {
    const auto nodes = parse_cluster_nodes(
        line("10.0.0.1:7000",
             "1 3-5 7 [93-<-292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f] "
             "[77->-e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca]") +
            line("10.0.0.2:7000@17000,,shard-id=deadbeef", "9") +
            line("10.0.0.3:7000@17000,shard-id=deadbeef", "10") + line("::1:7000@17000", "11") +
            line(":7001@17001", "12", "myself,master"),
        "asked");
    REQUIRE(nodes.has_value());
    REQUIRE(nodes->size() == 5);
    CHECK(nodes->at(0).slots == std::vector<SlotRange>{{1, 1}, {3, 5}, {7, 7}});
    CHECK(nodes->at(1).name.empty());
    CHECK(nodes->at(2).name.empty());
    CHECK(nodes->at(3).address == NodeAddress{"::1", 7000});
    CHECK(nodes->at(3).address.to_string() == "[::1]:7000");
    CHECK(nodes->at(4).address == NodeAddress{"asked", 7001});
}

TEST_CASE("cluster map: a failed node still owns its slots; one without an address is left out") {
    const auto nodes =
        parse_cluster_nodes(line("10.0.0.1:7000@17000", "0-1", "master,fail", "disconnected") +
                                line("10.0.0.2:7000@17000", "", "master") +
                                line("10.0.0.3:7000@17000", "2", "master,handshake") +
                                line(":0@0", "", "master,noaddr,fail", "disconnected"),
                            "asked");
    REQUIRE(nodes.has_value());
    REQUIRE(nodes->size() == 2);
    CHECK(nodes->at(0).slots.size() == 1);
    CHECK(nodes->at(1).slots.empty());
}

TEST_CASE("cluster map: a malformed list is refused whole") {
    const std::string nonsense = "its list of the cluster's nodes is malformed";
    const std::string no_node = "it knows no node that serves a slot";
    CHECK(fault_of("") == no_node);
    CHECK(fault_of("\n\r\n") == no_node);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "")) == no_node);
    CHECK(fault_of("hello") == nonsense);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "0-16384")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "9-8")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "-5")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "5-")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:7000@17000", "a")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:70000@17000", "1")) == nonsense);
    CHECK(fault_of(line("10.0.0.1:0@17000", "1")) == nonsense);
    CHECK(fault_of(line("10.0.0.1", "1")) == nonsense);
    CHECK(fault_of(line("?:7000@17000", "1")) == nonsense);
    // A good line does not save a bad one.
    CHECK(fault_of(line("10.0.0.1:7000@17000", "1") + "hello\n") == nonsense);
    std::string many;
    for (std::size_t i = 0; i <= kClusterNodesMax; ++i) {
        many += line("10.0.0.1:" + std::to_string(7000 + i), "1");
    }
    CHECK(fault_of(many) == "its cluster has more than 1000 masters");
}

TEST_CASE("cluster map: MOVED and ASK say where") {
    CHECK(parse_redirection("MOVED 3999 127.0.0.1:6381", "asked") ==
          Redirection{false, 3999, {"127.0.0.1", 6381}});
    CHECK(parse_redirection("ASK 0 ::1:6381", "asked") == Redirection{true, 0, {"::1", 6381}});
    CHECK(parse_redirection("MOVED 16383 redis-1.example:6379", "asked") ==
          Redirection{false, 16383, {"redis-1.example", 6379}});
    CHECK(parse_redirection("MOVED 3999 :6381", "asked") ==
          Redirection{false, 3999, {"asked", 6381}});
}

TEST_CASE("cluster map: other errors, and those that lead nowhere, are no redirection") {
    for (const std::string error :
         {"", "MOVED", "MOVED 3999", "MOVED 16384 h:1", "MOVED -1 h:1", "MOVED 1 h",
          "MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 ?:6379", "MOVED x h:1", "MOVEDX 1 h:1",
          "ASKING 1 h:1", "TRYAGAIN Multiple keys request during rehashing of slot",
          "CLUSTERDOWN Hash slot not", "ERR MOVED 1 h:1"}) {
        CAPTURE(error);
        CHECK_FALSE(parse_redirection(error, "asked"));
    }
}

// Vectors of the Redis Cluster specification, and answers of CLUSTER KEYSLOT.

TEST_CASE("slot: the specification's example of CRC16") {
    CHECK(crc16("123456789") == 0x31C3);
    CHECK(crc16("") == 0);
}

TEST_CASE("slot: keys with that tag are where CLUSTER KEYSLOT says") {
    CHECK(slot_of_tag("foo") == 12182);
    CHECK(slot_of_tag("bar") == 5061);
    CHECK(slot_of_tag(std::string("\xff\x00\x80", 3)) < kSlots);
}

}  // namespace tidegate::redis::cluster_map_test

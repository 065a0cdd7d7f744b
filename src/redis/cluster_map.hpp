// Reads what the nodes of a Redis Cluster say of it: which node serves which slots, and where a
// command has to go instead. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tidegate::redis {

// Where a server of Redis is: a master, a sentinel, a node of a cluster.
struct NodeAddress {
    std::string host;
    std::uint16_t port = 0;

    // `127.0.0.1:7000`, `[::1]:7000`
    std::string to_string() const {
        const bool v6 = host.find(':') != std::string::npos;
        return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
    }
    bool operator==(const NodeAddress&) const = default;
};

// Which slot of a Redis Cluster a key is in (Redis Cluster specification, "Key distribution model"
// and "Hash tags"). Pure.
inline constexpr std::size_t kSlots = 16'384;

// CRC-16/XMODEM, as the specification's appendix has it.
std::uint16_t crc16(std::string_view bytes);

// The slot of every key whose hash tag is `tag`. Requires that it is not empty and has no `}`.
inline std::uint16_t slot_of_tag(std::string_view tag) {
    return static_cast<std::uint16_t>(crc16(tag) % kSlots);
}

struct SlotRange {
    std::uint16_t first = 0;
    std::uint16_t last = 0;  // inclusive

    bool operator==(const SlotRange&) const = default;
};

// A master as CLUSTER NODES has it.
struct ClusterNode {
    NodeAddress address;
    std::string name;  // the host name it announces; empty: none
    std::vector<SlotRange> slots;
};

inline constexpr std::size_t kClusterNodesMax = 1'000;

// The masters of the answer to CLUSTER NODES, those that are down among them; not those without an
// address. `asked_host` is where the answer came from: a node that was never met by another does
// not know its own address. An error says what is wrong with the answer: it makes no sense, or no
// slot is served.
Result<std::vector<ClusterNode>, std::string> parse_cluster_nodes(std::string_view text,
                                                                  const std::string& asked_host);

// `MOVED 3999 127.0.0.1:6381` and `ASK ...`: the command was not carried out, and which node would.
struct Redirection {
    bool is_ask = false;  // this one command, with ASKING before it; else the slot, from now on
    std::uint16_t slot = 0;
    NodeAddress target;

    bool operator==(const Redirection&) const = default;
};

// Nothing if `error` is another error, or does not say where. Without a host (Redis 7 and an
// endpoint that is not known) it is the one that was asked.
std::optional<Redirection> parse_redirection(std::string_view error, const std::string& asked_host);

}  // namespace tidegate::redis

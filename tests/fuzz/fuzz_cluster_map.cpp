// The list of a cluster's nodes, and where an error sends a command: whatever a server says, only
// slots that there are and addresses that can be connected to; what was read reads the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "redis/cluster_map.hpp"

namespace {

using tidegate::redis::ClusterNode;
using tidegate::redis::kSlots;
using tidegate::redis::NodeAddress;

const std::string kAsked = "asked";

void check_address(const NodeAddress& address) {
    FUZZ_CHECK(address.port > 0);
    FUZZ_CHECK(!address.host.empty() && address.host != "?");
}

std::string written(const ClusterNode& node) {
    std::string line = "id " + node.address.host + ":" + std::to_string(node.address.port) + "@1," +
                       node.name + " master - 0 0 1 connected";
    for (const auto& range : node.slots) {
        line += " " + std::to_string(range.first) + "-" + std::to_string(range.last);
    }
    return line + "\n";
}

void check_nodes(std::string_view text) {
    const auto nodes = tidegate::redis::parse_cluster_nodes(text, kAsked);
    if (!nodes) {
        FUZZ_CHECK(!nodes.error().empty());
        return;
    }
    FUZZ_CHECK(nodes->size() <= tidegate::redis::kClusterNodesMax);
    std::string again;
    for (const ClusterNode& node : *nodes) {
        check_address(node.address);
        for (const auto& range : node.slots) {
            FUZZ_CHECK(range.first <= range.last && range.last < kSlots);
        }
        // A host with an `@` or a comma in it would be cut there.
        if (node.address.host.find_first_of("@,") == std::string::npos) again += written(node);
    }
    const auto second = tidegate::redis::parse_cluster_nodes(again, kAsked);
    if (!second) return;  // who served the slots was left out
    auto at = nodes->begin();
    for (const ClusterNode& node : *second) {
        at = std::find_if(at, nodes->end(),
                          [&](const ClusterNode& one) { return one.address == node.address; });
        FUZZ_CHECK(at != nodes->end());
        FUZZ_CHECK(at->slots == node.slots && at->name == node.name);
        ++at;
    }
}

void check_redirection(std::string_view text) {
    const auto redirection = tidegate::redis::parse_redirection(text, kAsked);
    if (!redirection) return;
    FUZZ_CHECK(text.starts_with(redirection->is_ask ? "ASK " : "MOVED "));
    FUZZ_CHECK(redirection->slot < kSlots);
    check_address(redirection->target);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_nodes(text);
    check_redirection(text);
    return 0;
}

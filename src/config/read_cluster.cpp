// `cluster` of `store.redis`.
#include <algorithm>
#include <optional>
#include <utility>

#include "config/address.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kNodesMax = 100;

// What has been read of the nodes so far: what one URL says of all is the same in each.
struct Nodes {
    std::vector<Address> addresses;
    std::optional<RedisUrl> first;
};

void read_node(const Value& value, Nodes& nodes) {
    const auto text = value.text("the URL of a node, such as `redis://10.0.0.1:6379`");
    if (!text) return;
    auto url = parse_redis_url(*text);
    if (!url) {
        value.fault(url.error());
    } else if (url->address.is_unix()) {
        value.fault("the nodes of a cluster are reached over TCP: `redis://10.0.0.1:6379`");
    } else if (url->database != 0) {
        value.fault("a cluster has no databases but 0");
    } else if (nodes.first && nodes.first->tls != url->tls) {
        value.fault("all nodes are `redis://`, or all `rediss://`");
    } else if (nodes.first &&
               (nodes.first->username != url->username || nodes.first->password != url->password)) {
        value.fault(
            "all nodes have the same user: write `username` and `password` beside `cluster`");
    } else if (std::find(nodes.addresses.begin(), nodes.addresses.end(), url->address) !=
               nodes.addresses.end()) {
        value.fault("this node is written twice");
    } else {
        nodes.addresses.push_back(url->address);
        if (!nodes.first) nodes.first = std::move(*url);
    }
}

}  // namespace

void read_cluster(const Value& value, RedisSettings& redis) {
    constexpr std::string_view kWanted = "a list of URLs: `[redis://a:6379, redis://b:6379]`";
    const auto items = value.items(kWanted);
    if (value.is_sequence() && items.empty()) value.fault("no node; write " + std::string(kWanted));
    if (items.size() > kNodesMax) {
        value.fault("more than " + std::to_string(kNodesMax) +
                    " nodes: a few that are likely to be there will do, they name the others");
        return;
    }
    Nodes nodes;
    for (const Value& item : items) read_node(item, nodes);
    redis.cluster = std::move(nodes.addresses);
    if (!nodes.first) return;
    redis.username = std::move(nodes.first->username);
    redis.password = std::move(nodes.first->password);
    if (nodes.first->tls) redis.tls.emplace();
}

}  // namespace tidegate::config

// `cluster` of `store.redis`.
#include <algorithm>
#include <optional>
#include <utility>

#include "config/address.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

// What has been read of the nodes so far: what one URL says of all is the same in each.
struct Nodes {
    std::vector<Address> addresses;
    std::optional<RedisUrl> first;
};

void read_node(const Value& value, Nodes& nodes) {
    auto url = value.parsed("the URL of a node, such as `redis://10.0.0.1:6379`",
                            [](std::string_view text) { return parse_redis_url(text); });
    if (!url) return;
    if (url->address.is_unix()) {
        value.fault(
            "Tidegate reaches the nodes of a cluster over TCP: write `redis://10.0.0.1:6379`");
    } else if (url->database != 0) {
        value.fault("a cluster has no databases but 0: remove the number from the URL");
    } else if (nodes.first && nodes.first->tls != url->tls) {
        value.fault("write `redis://` for all nodes, or `rediss://` for all");
    } else if (nodes.first &&
               (nodes.first->username != url->username || nodes.first->password != url->password)) {
        value.fault(
            "all nodes have the same user: write `username` and `password` beside `cluster`, not "
            "in a URL");
    } else if (std::find(nodes.addresses.begin(), nodes.addresses.end(), url->address) !=
               nodes.addresses.end()) {
        value.fault("the list has this node twice");
    } else {
        nodes.addresses.push_back(url->address);
        if (!nodes.first) nodes.first = std::move(*url);
    }
}

}  // namespace

void read_cluster(const Value& value, RedisSettings& redis) {
    constexpr ListRule kNodes{"a list of URLs: `[redis://a:6379, redis://b:6379]`",
                              "nodes: list a few, as each node knows the others", 100,
                              "the list is empty: name at least one node"};
    Nodes nodes;
    for (const Value& item : value.items(kNodes)) read_node(item, nodes);
    redis.cluster = std::move(nodes.addresses);
    if (!nodes.first) return;
    redis.username = std::move(nodes.first->username);
    redis.password = std::move(nodes.first->password);
    if (nodes.first->tls) redis.tls.emplace();
}

}  // namespace tidegate::config

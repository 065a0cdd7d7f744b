// `sentinel` of `store.redis`.
#include <algorithm>
#include <utility>

#include "config/address.hpp"
#include "config/read_sections.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::config {

namespace {

constexpr std::uint16_t kSentinelPort = 26379;

void read_node(const Value& value, SentinelSettings& sentinel, std::optional<bool>& encrypted) {
    const auto text = value.text("the URL of a sentinel, such as `redis://10.0.0.1:26379`");
    if (!text) return;
    auto url = parse_redis_url(*text, kSentinelPort);
    if (!url) {
        value.fault("a sentinel is `redis://10.0.0.1:26379`, or `rediss://10.0.0.1:26379` for TLS");
    } else if (url->address.is_unix()) {
        value.fault("Tidegate reaches a sentinel over TCP: write `redis://10.0.0.1:26379`");
    } else if (!url->username.empty() || !url->password.empty()) {
        value.fault(
            "write `username` and `password` of the sentinels beside `nodes`, not in a URL");
    } else if (url->database != 0) {
        value.fault("a sentinel has no databases: write `database` beside `sentinel`");
    } else if (encrypted && *encrypted != url->tls) {
        value.fault("write `redis://` for all sentinels, or `rediss://` for all");
    } else if (std::find(sentinel.nodes.begin(), sentinel.nodes.end(), url->address) !=
               sentinel.nodes.end()) {
        value.fault("the list has this sentinel twice");
    } else {
        encrypted = url->tls;
        sentinel.nodes.push_back(std::move(url->address));
    }
}

void read_nodes(const Value& value, SentinelSettings& sentinel) {
    constexpr ListRule kNodes{"a list of URLs: `[redis://s1:26379, redis://s2:26379]`", "sentinels",
                              32, "the list is empty: name at least one sentinel, best three"};
    std::optional<bool> encrypted;
    for (const Value& node : value.items(kNodes)) read_node(node, sentinel, encrypted);
    if (encrypted.value_or(false)) sentinel.tls.emplace();
}

void read_tls(const Value& value, SentinelSettings& sentinel) {
    const std::size_t faults = value.context().faults.size();
    TlsSettings tls = read_client_tls(value);
    if (!sentinel.tls) {
        if (!sentinel.nodes.empty()) {
            value.fault("`redis://` is not encrypted: write `rediss://`, or remove `tls`");
        }
        return;
    }
    if (value.context().faults.size() == faults) {
        if (const auto made = TlsClient::make(tls); !made) value.fault(made.error());
    }
    sentinel.tls = std::move(tls);
}

}  // namespace

SentinelSettings read_sentinel(const Value& value) {
    SentinelSettings sentinel;
    Section section(value, "a map: `sentinel: {master: mymaster, nodes: [redis://s1:26379]}`");
    if (const auto master =
            section.need("master", "`master: mymaster` with the name that the sentinels know")) {
        if (auto name = master->identifier()) sentinel.master = std::move(*name);
    }
    if (const auto nodes = section.need("nodes", "`nodes: [redis://s1:26379, redis://s2:26379]`")) {
        read_nodes(*nodes, sentinel);
    }
    if (const auto username = section.find("username")) {
        sentinel.username = username->text().value_or("");
    }
    const auto password = section.find("password");
    if (password) sentinel.password = password->secret().value_or("");
    if (!sentinel.username.empty() && !password) {
        section.find("username")->fault("`password` is missing: a username needs one");
    }
    if (const auto tls = section.find("tls")) read_tls(*tls, sentinel);
    section.refuse_others();
    return sentinel;
}

}  // namespace tidegate::config

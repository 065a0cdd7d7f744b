// `store`, `deny_cache` and `on_store_failure`: where counts are.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

using std::chrono::minutes;

constexpr std::size_t kKeyPrefixBytesMax = 64;

const Keys<MemoryStoreSettings>& memory_keys() {
    static const auto keys =
        Keys<MemoryStoreSettings>()
            .integer("max_keys", &MemoryStoreSettings::max_keys, {1'000, 1'000'000'000},
                     {"most identifiers counted at once, of all policies together"})
            .word<bool>(
                "on_full", &MemoryStoreSettings::deny_when_full, {{"evict", false}, {"deny", true}},
                {"`evict` makes room [by rules](limits.md#when-the-store-in-process-is-full), "
                 "`deny` refuses new names (503)"});
    return keys;
}

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
    TlsSettings tls = read_client_tls(value, redis_tls_keys(), "redis.internal");
    if (sentinel.tls) {
        sentinel.tls = std::move(tls);
    } else if (!sentinel.nodes.empty()) {
        value.fault("`redis://` is not encrypted: write `rediss://`, or remove `tls`");
    }
}

const Rows& sentinel_keys() {
    static const auto keys =
        Rows("a map: `sentinel: {master: mymaster, nodes: [redis://s1:26379]}`")
            .key("master", kind::type("name"),
                 {"the name of the master that the sentinels know", "required"})
            .required("`master: mymaster` with the name that the sentinels know")
            .key("nodes", kind::list(kind::type("redis_url"), {1, 32}),
                 {"some of the sentinels, `[redis://s1:26379, redis://s2:26379]`", "required"})
            .required("`nodes: [redis://s1:26379, redis://s2:26379]`")
            .key("username", kind::type("text"), {"the user at the sentinels", "none"})
            .key("password", kind::secret(), {"the password at the sentinels", "none"})
            .key("tls", kind::map(redis_tls_keys()),
                 {"what else TLS to the sentinels needs: the keys of `store.redis.tls`", "none"})
            .live(Live::next_connection);
    return keys;
}

SentinelSettings read_sentinel(const Value& value) {
    SentinelSettings sentinel;
    Section section(value, sentinel_keys());
    if (const auto master = section.need("master")) {
        if (auto name = master->identifier()) sentinel.master = std::move(*name);
    }
    if (const auto nodes = section.need("nodes")) {
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

void read_url(const Value& value, RedisSettings& redis) {
    auto url = value.parsed("a URL such as `redis://127.0.0.1:6379/0`",
                            [](std::string_view text) { return parse_redis_url(text); });
    if (!url) return;
    redis.address = std::move(url->address);
    resolve_socket(value, redis.address);
    redis.username = std::move(url->username);
    redis.password = std::move(url->password);
    redis.database = url->database;
    if (url->tls) redis.tls.emplace();
}

void read_tls(const Value& value, RedisSettings& redis) {
    TlsSettings tls = read_client_tls(value, redis_tls_keys(), "redis.internal");
    if (redis.tls || redis.sentinel) {
        redis.tls = std::move(tls);
    } else if (redis.address.is_unix()) {
        value.fault("a Unix socket is not encrypted: remove `tls`");
    } else if (!redis.address.host.empty() || !redis.cluster.empty()) {
        value.fault("`redis://` is not encrypted: write `rediss://`, or remove `tls`");
    }
}

void read_credential(Section& section, std::string_view key, bool is_secret, std::string& out) {
    const auto value = section.find(key);
    if (!value) return;
    auto text = is_secret ? value->secret() : value->text();
    if (!text) return;
    if (!out.empty()) {
        value->fault("the URL has it, too: write it once");
        return;
    }
    out = std::move(*text);
}

void read_key_prefix(const Value& value, RedisSettings& redis) {
    auto text = value.any_text();
    if (!text) return;
    for (const char c : *text) {
        // A brace would move the hash tag of Redis Cluster; the rest breaks tools that print keys.
        if (c <= ' ' || c > '~' || c == '{' || c == '}') {
            value.fault(quote(*text) +
                        " is not a prefix: use printable ASCII without spaces and braces");
            return;
        }
    }
    if (text->size() > kKeyPrefixBytesMax) {
        value.fault("longer than " + std::to_string(kKeyPrefixBytesMax) + " bytes");
        return;
    }
    redis.key_prefix = std::move(*text);
}

const Keys<RedisSettings>& breaker_keys() {
    static const auto keys =
        Keys<RedisSettings>()
            .integer("failures", &RedisSettings::breaker_failures, {1, 1'000},
                     {"unanswered in a row until Redis counts as down"})
            .duration("probe_every", &RedisSettings::probe_every, {milliseconds{10}, minutes{1}},
                      {"longest pause between attempts to reach it again"});
    return keys;
}

const Keys<RedisSettings>& redis_keys() {
    static const auto keys =
        Keys<RedisSettings>("a map: `redis: {url: redis://127.0.0.1:6379/0}`")
            .key("sentinel", kind::map(sentinel_keys()),
                 {"`{master, nodes, username, password, tls}`: [Sentinel](redis.md#sentinel)",
                  "none", "1 to 32 nodes"})
            .key("cluster", kind::list(kind::type("redis_url"), {1, 100}),
                 {"some of its nodes, `[redis://a:6379, redis://b:6379]`: "
                  "[Cluster](redis.md#cluster)",
                  "none", "1 to 100 nodes"})
            .key("url", kind::type("redis_url"),
                 {"`redis://user:password@host:6379/0`, `rediss://` for TLS 1.2 or later, or "
                  "`unix:///run/redis.sock`",
                  "one of `url`, `sentinel`, `cluster` is required"})
            .key("username", kind::type("text"), {"instead of in the URL", "none"})
            .key("password", kind::secret(), {"instead of in the URL", "none"})
            .duration("timeout", &RedisSettings::timeout, {milliseconds{1}, minutes{1}},
                      {"for one decision, connecting included"})
            .integer("max_in_flight", &RedisSettings::max_in_flight, {1, 1'000'000},
                     {"decisions that wait for Redis, of a thread"})
            .own("key_prefix", kind::type("text"), read_key_prefix,
                 {"what all keys begin with", "`tg:`", "at most 64 bytes"})
            .word<bool>("clock", &RedisSettings::local_clock, {{"redis", false}, {"local", true}},
                        {"whose time counts: `redis`, the server's, or `local`, the proxy's"})
            .own("breaker", kind::map(breaker_keys()),
                 [](const Value& breaker, RedisSettings& redis) {
                     breaker_keys().read(breaker, redis);
                 },
                 {"when Redis counts as down, and how Tidegate tries it again"})
            .key("tls", kind::map(redis_tls_keys()), {"what else TLS to Redis needs"})
            .live(Live::next_connection)
            .integer("database", &RedisSettings::database, {0, 65'535},
                     {"with `sentinel`; else it is in the URL"});
    return keys;
}

// The settings that a URL would have are keys beside `sentinel`.
void read_with_sentinels(const Value& sentinel, Section& section, RedisSettings& redis) {
    redis.sentinel = read_sentinel(sentinel);
    if (const auto cluster = section.find("cluster")) {
        cluster->fault("write either `sentinel` or `cluster`: a cluster has no sentinels");
    }
    if (const auto url = section.find("url")) {
        url->fault(
            "remove `url`, as the sentinels know where Redis is; write `username`, `password`, "
            "`database` and `tls` beside `sentinel`");
    }
}

// Whatever says where Redis is, says which of its databases, but for sentinels.
void refuse_database(Section& section, std::string_view why) {
    if (const auto database = section.find("database")) database->fault(std::string(why));
}

void read_with_cluster(const Value& cluster, Section& section, RedisSettings& redis) {
    read_cluster(cluster, redis);
    if (const auto url = section.find("url")) {
        url->fault("write either `cluster` or `url`: `cluster` lists all nodes");
    }
}

void read_place(Section& section, RedisSettings& redis) {
    if (const auto sentinel = section.find("sentinel")) {
        read_with_sentinels(*sentinel, section, redis);
    } else if (const auto cluster = section.find("cluster")) {
        refuse_database(section, "a cluster has no databases but 0: remove this key");
        read_with_cluster(*cluster, section, redis);
    } else if (const auto url = section.need("url", "`url: redis://127.0.0.1:6379/0`")) {
        refuse_database(section,
                        "only with `sentinel`: write the number at the end of `url`, "
                        "`redis://127.0.0.1:6379/0`");
        read_url(*url, redis);
    }
}

void read_redis(const Value& value, RedisSettings& redis) {
    Section section = redis_keys().read(value, redis);
    read_place(section, redis);
    read_credential(section, "username", false, redis.username);
    read_credential(section, "password", true, redis.password);
    if (!redis.username.empty() && redis.password.empty()) {
        // Wherever it is written.
        const auto username = section.find("username");
        const auto place = username ? username : section.find("url");
        if (place) place->fault("`password` is missing: a username needs one");
    }
    if (const auto tls = section.find("tls")) read_tls(*tls, redis);
}

// Which of Redis and memory counts, and for Redis everything: its connections are made of it. But
// certificates run out; new ones are for connections made from then on.
std::string why_store_needs_restart(const ConfigChange& change) {
    const StoreSettings& running = change.running.store;
    const StoreSettings& next = change.next.store;
    if (running.index() != next.index()) {
        return "`store`, from memory to Redis or back, cannot change";
    }
    if (!std::holds_alternative<RedisSettings>(running)) return {};
    auto redis = std::get<RedisSettings>(running);
    const auto& other = std::get<RedisSettings>(next);
    if (redis.tls && other.tls) redis.tls = other.tls;
    if (redis.sentinel && other.sentinel && redis.sentinel->tls && other.sentinel->tls) {
        redis.sentinel->tls = other.sentinel->tls;
    }
    return redis == other ? "" : "`store.redis` cannot change";
}

}  // namespace

const Rows& store_keys() {
    static const auto keys =
        Rows("`memory`, or a map with `memory` or `redis`")
            .key("memory", kind::map(memory_keys()), {"counts are in this process"})
            .live(Live::next_request)
            .key("redis", kind::map(redis_keys()),
                 {"counts are in Redis, which several proxies share"})
            .restart(why_store_needs_restart)
            .one_of_them();
    return keys;
}

const Keys<DenyCacheSettings>& deny_cache_keys() {
    static const auto keys =
        Keys<DenyCacheSettings>("`on`, `off`, or a map: `{max_ttl: 5s, entries: 100000}`")
            .duration("max_ttl", &DenyCacheSettings::max_ttl, {milliseconds{1}, minutes{1}},
                      {"the longest that a denial is repeated without asking Redis"})
            .size("entries", &DenyCacheSettings::entries, {1, 10'000'000},
                  {"denials remembered, of the process; each thread has an equal share", "",
                   "1 to 10,000,000"});
    return keys;
}

void read_store(const Value& value, Config& config) {
    if (value.is("memory")) return;
    if (value.is_scalar()) {
        value.fault(
            "a store is `memory`, `{memory: {max_keys: 1000000}}` or "
            "`{redis: {url: redis://127.0.0.1:6379/0}}`");
        return;
    }
    Section section(value, store_keys());
    const auto memory = section.find("memory");
    const auto redis = section.find("redis");
    section.refuse_others();
    if (memory && redis) {
        value.fault("write either `memory` or `redis`: Tidegate keeps counts in one place");
        return;
    }
    if (redis) {
        RedisSettings settings;
        read_redis(*redis, settings);
        config.store = std::move(settings);
    } else if (memory) {
        MemoryStoreSettings settings;
        memory_keys().read(*memory, settings);
        config.store = settings;
    } else if (value.is_map()) {
        value.fault("write `memory` or `redis`");
    }
}

void read_deny_cache(const Value& value, Config& config) {
    if (value.is_off()) {
        config.deny_cache.entries = 0;
        return;
    }
    if (value.is_on()) return;  // as if it were not written
    deny_cache_keys().read(value, config.deny_cache);
}

std::optional<limit::OnStoreFailure> read_on_store_failure(const Value& value) {
    using limit::OnStoreFailure;
    return value.choice<OnStoreFailure>({{"local", OnStoreFailure::local},
                                         {"allow", OnStoreFailure::allow},
                                         {"deny", OnStoreFailure::deny}});
}

}  // namespace tidegate::config

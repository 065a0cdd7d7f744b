// `store` and `on_store_failure`.
#include <utility>

#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/read_sections.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::config {

namespace {

using std::chrono::minutes;

constexpr std::size_t kKeyPrefixBytesMax = 64;

void read_memory(const Value& value, MemoryStoreSettings& memory) {
    Section section(value);
    section.integer("max_keys", memory.max_keys, {1'000, 1'000'000'000});
    section.choice<bool>("on_full", memory.deny_when_full, {{"evict", false}, {"deny", true}});
    section.refuse_others();
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
    const std::size_t faults = value.context().faults.size();
    TlsSettings tls = read_client_tls(value);
    if (value.context().faults.size() == faults) {
        // OpenSSL checks more, such as the length of keys.
        if (const auto made = TlsClient::make(tls); !made) value.fault(made.error());
    }
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

void read_key_prefix(const Value& value, std::string& key_prefix) {
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
    key_prefix = std::move(*text);
}

void read_breaker(const Value& value, RedisSettings& redis) {
    Section section(value);
    section.integer("failures", redis.breaker_failures, {1, 1'000});
    section.duration("probe_every", redis.probe_every, {milliseconds{10}, minutes{1}});
    section.refuse_others();
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
    section.integer("database", redis.database, {0, 65'535});
}

void read_with_cluster(const Value& cluster, Section& section, RedisSettings& redis) {
    read_cluster(cluster, redis);
    if (const auto url = section.find("url")) {
        url->fault("write either `cluster` or `url`: `cluster` lists all nodes");
    }
}

void read_redis(const Value& value, RedisSettings& redis) {
    Section section(value, "a map: `redis: {url: redis://127.0.0.1:6379/0}`");
    if (const auto sentinel = section.find("sentinel")) {
        read_with_sentinels(*sentinel, section, redis);
    } else if (const auto cluster = section.find("cluster")) {
        read_with_cluster(*cluster, section, redis);
    } else if (const auto url = section.need("url", "`url: redis://127.0.0.1:6379/0`")) {
        read_url(*url, redis);
    }
    read_credential(section, "username", false, redis.username);
    read_credential(section, "password", true, redis.password);
    if (!redis.username.empty() && redis.password.empty()) {
        // Wherever it is written.
        const auto username = section.find("username");
        const auto place = username ? username : section.find("url");
        if (place) place->fault("`password` is missing: a username needs one");
    }
    section.duration("timeout", redis.timeout, {milliseconds{1}, minutes{1}});
    section.integer("max_in_flight", redis.max_in_flight, {1, 1'000'000});
    if (const auto prefix = section.find("key_prefix")) read_key_prefix(*prefix, redis.key_prefix);
    section.choice<bool>("clock", redis.local_clock, {{"redis", false}, {"local", true}});
    if (const auto breaker = section.find("breaker")) read_breaker(*breaker, redis);
    if (const auto tls = section.find("tls")) read_tls(*tls, redis);
    section.refuse_others();
}

}  // namespace

void read_store(const Value& value, Config& config) {
    if (value.is("memory")) return;
    if (value.is_scalar()) {
        value.fault(
            "a store is `memory`, `{memory: {max_keys: 1000000}}` or "
            "`{redis: {url: redis://127.0.0.1:6379/0}}`");
        return;
    }
    Section section(value, "`memory`, or a map with `memory` or `redis`");
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
        read_memory(*memory, settings);
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
    Section section(value, "`on`, `off`, or a map: `{max_ttl: 5s, entries: 100000}`");
    section.duration("max_ttl", config.deny_cache.max_ttl, {milliseconds{1}, minutes{1}});
    section.size("entries", config.deny_cache.entries, {1, 10'000'000});
    section.refuse_others();
}

std::optional<limit::OnStoreFailure> read_on_store_failure(const Value& value) {
    using limit::OnStoreFailure;
    return value.choice<OnStoreFailure>({{"local", OnStoreFailure::local},
                                         {"allow", OnStoreFailure::allow},
                                         {"deny", OnStoreFailure::deny}});
}

}  // namespace tidegate::config

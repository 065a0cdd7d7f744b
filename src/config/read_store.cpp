// `store` and `on_store_failure`.
#include <utility>

#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/sections.hpp"

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
    const auto text = value.text("a URL such as `redis://127.0.0.1:6379/0`");
    if (!text) return;
    auto url = parse_redis_url(*text);
    if (!url) {
        value.fault(url.error());
        return;
    }
    redis.address = std::move(url->address);
    resolve_socket(value, redis.address);
    redis.username = std::move(url->username);
    redis.password = std::move(url->password);
    redis.database = url->database;
}

void read_credential(Section& section, std::string_view key, bool is_secret, std::string& out) {
    const auto value = section.find(key);
    if (!value) return;
    auto text = is_secret ? value->secret() : value->text();
    if (!text) return;
    if (!out.empty()) {
        value->fault("it is in the URL already: write it once");
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
            value.fault(quote(*text) + " is no prefix: printable ASCII without spaces and braces");
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

void read_redis(const Value& value, RedisSettings& redis) {
    Section section(value, "a map: `redis: {url: redis://127.0.0.1:6379/0}`");
    if (const auto url = section.need("url", "`url: redis://127.0.0.1:6379/0`")) {
        read_url(*url, redis);
    }
    read_credential(section, "username", false, redis.username);
    read_credential(section, "password", true, redis.password);
    if (!redis.username.empty() && redis.password.empty()) {
        if (const auto username = section.find("username")) {
            username->fault("a username without a password");
        }
    }
    section.duration("timeout", redis.timeout, {milliseconds{1}, minutes{1}});
    section.integer("max_in_flight", redis.max_in_flight, {1, 1'000'000});
    if (const auto prefix = section.find("key_prefix")) read_key_prefix(*prefix, redis.key_prefix);
    section.choice<bool>("clock", redis.local_clock, {{"redis", false}, {"local", true}});
    if (const auto breaker = section.find("breaker")) read_breaker(*breaker, redis);
    section.not_available({"cluster", "sentinel", "tls"});
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
        value.fault("both `memory` and `redis`: counts are kept in one place");
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
        value.fault("neither `memory` nor `redis` is there");
    }
}

void read_deny_cache(const Value& value, Config& config) {
    if (value.is_off()) {
        config.deny_cache.entries = 0;
        return;
    }
    Section section(value, "`off`, or a map: `{max_ttl: 5s, entries: 100000}`");
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

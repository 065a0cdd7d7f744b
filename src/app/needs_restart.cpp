#include "app/needs_restart.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

namespace tidegate::app {

namespace {

using config::Config;

// What a reload cannot change of it. New certificates and all else of `tls`, `http` and
// `half_close` are for connections that clients open from then on; a redirect's port is for the
// next request. The file of a Unix socket gets its permissions when the configuration is put in
// force.
config::Listen lasting(config::Listen listen) {
    if (listen.tls) listen.tls.emplace();
    listen.takes_http1 = listen.takes_http2 = true;
    listen.half_close = false;
    listen.hsts = {};
    listen.redirect_port = {};
    listen.socket_file = {};
    return listen;
}

bool listens_alike(const Config& a, const Config& b) {
    return std::is_permutation(
        a.listen.begin(), a.listen.end(), b.listen.begin(), b.listen.end(),
        [](const auto& one, const auto& other) { return lasting(one) == lasting(other); });
}

// Where listeners of `next` gain or lose `tls`, which changes what clients have to speak there.
// Empty: nowhere.
std::string with_other_transport(const Config& running, const Config& next) {
    std::string shown;
    for (const config::Listen& listen : next.listen) {
        const auto is_same = [&](const auto& other) { return other.address == listen.address; };
        const auto found = std::find_if(running.listen.begin(), running.listen.end(), is_same);
        if (found == running.listen.end() || found->tls.has_value() == listen.tls.has_value()) {
            continue;
        }
        shown += (shown.empty() ? "`" : ", `") + listen.address.to_string() + "`";
    }
    return shown;
}

std::optional<config::Address> admin_address(const Config& config) {
    return config.admin ? std::optional(config.admin->address) : std::nullopt;
}

// Which of Redis and memory counts, and for Redis everything: its connections are made of it. But
// certificates run out; new ones are for connections made from then on.
bool stores_alike(const Config& a, const Config& b) {
    if (a.store.index() != b.store.index()) return false;
    if (!std::holds_alternative<config::RedisSettings>(a.store)) return true;
    auto redis = std::get<config::RedisSettings>(a.store);
    const auto& other = std::get<config::RedisSettings>(b.store);
    if (redis.tls && other.tls) redis.tls = other.tls;
    if (redis.sentinel && other.sentinel && redis.sentinel->tls && other.sentinel->tls) {
        redis.sentinel->tls = other.sentinel->tls;
    }
    return redis == other;
}

}  // namespace

std::vector<std::string> needs_restart(const Config& running, const Config& next,
                                       std::size_t workers, std::size_t workers_next) {
    std::vector<std::string> parts;
    const auto add = [&](const std::string& what) {
        parts.push_back(what + " cannot change while Tidegate runs: restart it");
    };
    if (const std::string where = with_other_transport(running, next); !where.empty()) {
        parts.push_back("`listen`: `tls` of " + where +
                        " cannot be turned on or off while Tidegate runs: restart it");
    } else if (!listens_alike(running, next)) {
        add("`listen`");
    }
    if (admin_address(running) != admin_address(next)) add("the address of `admin`");
    if (running.check_secret != next.check_secret) add("`check.secret`");
    // `auto` goes on meaning what it meant at the start, though the machine may have changed.
    if (running.threads != next.threads && workers != workers_next) add("`threads`");
    if (!stores_alike(running, next)) {
        add(running.store.index() != next.store.index() ? "`store`, from memory to Redis or back,"
                                                        : "`store.redis`");
    }
    return parts;
}

}  // namespace tidegate::app

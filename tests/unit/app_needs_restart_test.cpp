#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "app/needs_restart.hpp"

namespace tidegate::app::needs_restart_test {
namespace {

config::Config read(const std::string& yaml) {
    auto loaded = config::load_text("upstream: http://127.0.0.1:3000\n" + yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    const config::Config& read = *loaded.config;
    config::Config copy;
    copy.listen = read.listen;
    copy.admin = read.admin;
    copy.threads = read.threads;
    copy.store = read.store;
    return copy;
}

std::vector<std::string> between(const std::string& running, const std::string& next,
                                 std::size_t workers = 2, std::size_t workers_next = 2) {
    return needs_restart(read(running), read(next), workers, workers_next);
}

// The one message there is, or how many.
std::string only(const std::vector<std::string>& parts) {
    return parts.size() == 1 ? parts[0] : std::to_string(parts.size());
}

TEST_CASE("needs_restart: settings that stay or may change need none") {
    CHECK(between("", "").empty());
    CHECK(between("", "limits: [1/s]\nlog: {level: error}\n").empty());
    CHECK(between("listen: [127.0.0.1:1, 127.0.0.1:2]\n", "listen: [127.0.0.1:2, 127.0.0.1:1]\n")
              .empty());
    CHECK(between("store: memory\n", "store: {memory: {max_keys: 5000, on_full: deny}}\n").empty());
    CHECK(between("admin: {address: 127.0.0.1:9, token: a}\n", "admin: 127.0.0.1:9\n").empty());
    CHECK(between("listen: {address: \"unix:/x\", mode: \"0660\"}\n",
                  "listen: {address: \"unix:/x\", mode: \"0600\", group: daemon}\n")
              .empty());
}

TEST_CASE("needs_restart: other addresses to listen on need one") {
    for (const char* listen : {"127.0.0.1:2", "[127.0.0.1:1, 127.0.0.1:2]", "\"unix:/x\""}) {
        CHECK(only(between("listen: 127.0.0.1:1\n", std::string("listen: ") + listen + "\n")) ==
              "`listen` cannot change while Tidegate runs: restart it");
    }
    CHECK(only(between("listen: {address: \"unix:/x\"}\n",
                       "listen: {address: \"unix:/x\", trusted: on}\n"))
              .starts_with("`listen`"));
    CHECK(only(between("admin: 127.0.0.1:9\n", "admin: off\n"))
              .starts_with("the address of `admin`"));
    CHECK(only(between("admin: off\n", "admin: 127.0.0.1:9\n"))
              .starts_with("the address of `admin`"));
}

config::Config secure(const TlsServerSettings& tls) {
    config::Config config = read("listen: [127.0.0.1:1, 127.0.0.1:2]\n");
    config.listen[0].tls = tls;
    config.listen[0].is_https = true;
    return config;
}

TEST_CASE(
    "needs_restart: all of a listener's `tls`, `http` and `half_close` may change, and where a "
    "redirect leads") {
    const config::Config running = secure({});
    config::Config next = secure({.certificates = {{"certificate", "key", {"a"}, "file"}},
                                  .unknown_names = UnknownNames::refuse,
                                  .min_version = TlsVersion::tls_1_3,
                                  .http = HttpVersions::http2,
                                  .client_auth = {ClientAuth::require, "ca", "crl", 1},
                                  .ticket_keys = {"k"}});
    next.listen[0].takes_http1 = false;
    next.listen[0].takes_http2 = true;
    next.listen[1].takes_http2 = true;
    next.listen[1].half_close = true;
    next.listen[0].hsts = std::chrono::seconds{1};
    next.listen[1].redirect_port = 8443;
    CHECK(needs_restart(running, next, 1, 1).empty());
    next.listen[1].redirects = true;
    CHECK(only(needs_restart(running, next, 1, 1)).starts_with("`listen` cannot change"));
}

TEST_CASE("needs_restart: turning `tls` on or off needs one") {
    const config::Config plain = read("listen: [127.0.0.1:2, 127.0.0.1:1]\n");
    const std::string said =
        "`listen`: `tls` of `127.0.0.1:1` cannot be turned on or off while Tidegate runs: restart "
        "it";
    CHECK(only(needs_restart(plain, secure({}), 1, 1)) == said);
    CHECK(only(needs_restart(secure({}), plain, 1, 1)) == said);
}

TEST_CASE(
    "needs_restart: another number of threads needs one, another word for the same does not") {
    CHECK(only(between("threads: 2\n", "threads: 3\n", 2, 3)).starts_with("`threads`"));
    CHECK(between("threads: auto\n", "threads: 2\n", 2, 2).empty());
    // The machine has more cores now, but the configuration asks for the same number.
    CHECK(between("threads: auto\n", "threads: auto\n", 2, 4).empty());
}

TEST_CASE("needs_restart: another store, and anything of Redis, need one") {
    const std::string redis = "store: {redis: {url: \"redis://h:1/0\"";
    CHECK(between(redis + "}}\n", redis + "}}\n").empty());
    CHECK(only(between("", redis + "}}\n")).starts_with("`store`, from memory to Redis or back,"));
    CHECK(only(between(redis + "}}\n", "")).starts_with("`store`, from memory to Redis or back,"));
    for (const char* more :
         {", key_prefix: x", ", timeout: 5ms", ", password: p", ", clock: local"}) {
        CHECK(only(between(redis + "}}\n", redis + more + "}}\n")).starts_with("`store.redis`"));
    }
}

TEST_CASE("needs_restart: other sentinels need one, other certificates of theirs do not") {
    const auto store = [](const std::string& sentinel) {
        return "store: {redis: {sentinel: {master: m, " + sentinel + "}}}\n";
    };
    const std::string plain = store("nodes: [redis://s1]");
    const std::string encrypted = store("nodes: [rediss://s1]");
    const std::string named = store("nodes: [rediss://s1], tls: {server_name: s}");
    CHECK(between(plain, plain).empty());
    CHECK(only(between(plain, store("nodes: [redis://s2]"))).starts_with("`store.redis`"));
    CHECK(only(between(plain, encrypted)).starts_with("`store.redis`"));
    CHECK(between(encrypted, named).empty());
}

TEST_CASE("needs_restart: every part is named, not only the first") {
    CHECK(between("", "listen: 127.0.0.1:1\nthreads: 3\nadmin: off\n", 2, 3).size() == 3);
}

}  // namespace
}  // namespace tidegate::app::needs_restart_test

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/key_documents.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config::needs_restart_test {
namespace {

Config read(const std::string& yaml) {
    auto loaded = load_text("upstream: http://127.0.0.1:3000\n" + yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    const Config& read = *loaded.config;
    Config copy;
    copy.listen = read.listen;
    copy.admin = read.admin;
    copy.threads = read.threads;
    copy.store = read.store;
    copy.check_secret = read.check_secret;
    return copy;
}

std::vector<std::string> between(const std::string& running, const std::string& next,
                                 std::size_t workers = 2, std::size_t workers_next = 2) {
    return needs_restart({read(running), read(next), workers, workers_next});
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

Config secure(const TlsServerSettings& tls) {
    Config config = read("listen: [127.0.0.1:1, 127.0.0.1:2]\n");
    config.listen[0].tls = tls;
    config.listen[0].is_https = true;
    return config;
}

TEST_CASE(
    "needs_restart: all of a listener's `tls`, `http` and `half_close` may change, and where a "
    "redirect leads") {
    const Config running = secure({});
    Config next = secure({.certificates = {{"certificate", "key", {"a"}, "file"}},
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
    CHECK(needs_restart({running, next}).empty());
    next.listen[1].redirects = true;
    CHECK(only(needs_restart({running, next})).starts_with("`listen` cannot change"));
}

TEST_CASE("needs_restart: turning `tls` on or off needs one") {
    const Config plain = read("listen: [127.0.0.1:2, 127.0.0.1:1]\n");
    const std::string said =
        "`listen`: `tls` of `127.0.0.1:1` cannot be turned on or off while Tidegate runs: restart "
        "it";
    CHECK(only(needs_restart({plain, secure({})})) == said);
    CHECK(only(needs_restart({secure({}), plain})) == said);
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

// What changes each key that only a restart can change.
struct Example {
    std::string key;
    std::string running;
    std::string next;
    std::string said;  // the message begins so
};

const std::vector<Example>& examples() {
    static const std::vector<Example> all{
        {"listen[].address", "listen: 127.0.0.1:1\n", "listen: 127.0.0.1:2\n", "`listen`"},
        {"listen[].tls", "", "", "`listen`: `tls`"},  // has files; see the case above
        {"admin.address", "admin: off\n", "", "the address of `admin`"},
        {"check.secret", "listen: {address: 127.0.0.1:1, face: check}\n",
         "listen: {address: 127.0.0.1:1, face: check}\ncheck: {secret: 0123456789abcdef}\n",
         "`check.secret`"},
        {"threads", "threads: 2\n", "threads: 3\n", "`threads`"},
        {"store.redis", "", "store: {redis: {url: \"redis://h:1/0\"}}\n", "`store`"},
    };
    return all;
}

void add_keys_with_restart(const KeyRows& keys, const std::string& path,
                           std::vector<std::string>& out) {
    for (const KeyRows::Row& row : keys.rows()) {
        const std::string key = path + std::string(row.key);
        if (row.restart != nullptr) out.push_back(key);
        if (row.kind.below == nullptr) continue;
        add_keys_with_restart(*row.kind.below, key + row.kind.steps + ".", out);
    }
}

TEST_CASE("needs_restart: each row that has a reason for a restart is asked") {
    std::vector<std::string> keys;
    add_keys_with_restart(root_keys(), "", keys);
    std::vector<std::string> tested;
    for (const Example& example : examples()) tested.push_back(example.key);
    CHECK(keys == tested);
    for (const Example& example : examples()) {
        if (example.running == example.next) continue;
        CAPTURE(example.key);
        const std::string said = only(between(example.running, example.next, 2, 3));
        CHECK(said.starts_with(example.said));
        CHECK(said.ends_with(" cannot change while Tidegate runs: restart it"));
    }
}

TEST_CASE("needs_restart: the reference says which keys need a restart, and which a connection") {
    const auto row_of = [](const std::string& key) {
        const std::string table = key_table(std::vector<std::string>{key});
        const std::size_t begin = table.find("| `" + key + "` |");
        return table.substr(begin, table.find('\n', begin) - begin);
    };
    for (const char* key : {"threads", "listen[].face", "check.secret", "store.redis.timeout"}) {
        CHECK(row_of(key).find(" (a change needs a restart) |") != std::string::npos);
    }
    for (const char* key : {"http2.streams", "listen[].http", "timeouts.tls_handshake"}) {
        CHECK(row_of(key).find(" (a change is for new connections) |") != std::string::npos);
    }
    for (const char* key : {"listen[].mode", "store.memory.max_keys", "timeouts.drain"}) {
        CHECK(row_of(key).find("restart)") == std::string::npos);
    }
}

}  // namespace
}  // namespace tidegate::config::needs_restart_test

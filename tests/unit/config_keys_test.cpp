#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"

// What follows of the rows of the keys, without a test for each key: its bounds, its default, and
// what the documents made of it.
namespace tidegate::config::keys_test {

namespace {

// A row, where messages name it, and the text of a configuration around a value of its key.
struct Place {
    const KeyRows::Row* row;
    std::string path;
    std::string before;
    std::string after;
};

void add_places(const KeyRows& keys, const Place& above, std::vector<Place>& places) {
    for (const KeyRows::Row& row : keys.rows()) {
        Place place = above;
        place.row = &row;
        place.path += row.key;
        place.before.append(row.key).append(": ");
        places.push_back(place);
        if (row.kind.below == nullptr) continue;
        for (std::string_view steps = row.kind.steps; !steps.empty();) {
            const bool is_list = steps.starts_with("[]");
            steps.remove_prefix(std::string_view(is_list ? "[]" : ".NAME").size());
            place.path += is_list ? "[0]" : ".x";
            place.before += is_list ? "[" : "{x: ";
            place.after.insert(0, is_list ? "]" : "}");
        }
        place.path += '.';
        place.before += '{';
        place.after.insert(0, "}");
        add_places(*row.kind.below, place, places);
    }
}

std::vector<Place> all_places() {
    std::vector<Place> places;
    add_places(root_keys(), {}, places);
    return places;
}

// What is wrong with `value` as a value of this key, whatever else is wrong.
std::vector<std::string> faults_of(const Place& place, const std::string& value) {
    // Without an upstream, nothing reads `limits`.
    const std::string more = place.path.starts_with("upstream") ? "" : "upstream: http://a:1\n";
    const Loaded loaded = load_text(place.before + value + place.after + "\n" + more, "keys");
    std::vector<std::string> faults;
    for (const Diagnostic& fault : loaded.errors) {
        if (fault.message.starts_with(place.path + ": ")) faults.push_back(fault.message);
    }
    return faults;
}

// Whether the reason is the value itself, and no other key beside it.
bool is_outside(const Place& place, const std::string& value) {
    const std::vector<std::string> faults = faults_of(place, value);
    return std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
        return fault.find("`" + value + "`") != fault.npos || fault.find("expected") != fault.npos;
    });
}

std::vector<std::string> messages_about_unknown_key(const Place& place) {
    std::string before = place.before;
    std::string after = place.after;
    for (std::string_view steps = place.row->kind.steps; !steps.empty();) {
        const bool is_list = steps.starts_with("[]");
        steps.remove_prefix(std::string_view(is_list ? "[]" : ".NAME").size());
        before += is_list ? "[" : "{x: ";
        after.insert(0, is_list ? "]" : "}");
    }
    const std::string more = place.path.starts_with("upstream") ? "" : "upstream: http://a:1\n";
    const Loaded loaded = load_text(before + "{qqqqqq: 1}" + after + "\n" + more, "keys");
    std::vector<std::string> messages;
    for (const Diagnostic& fault : loaded.errors) {
        if (fault.message.starts_with("unknown key `qqqqqq`")) messages.push_back(fault.message);
    }
    return messages;
}

}  // namespace

TEST_CASE("keys: each kind refuses what is outside of its bounds, and takes the bounds") {
    int checked = 0;
    for (const Place& place : all_places()) {
        for (const std::string& value : place.row->kind.refuses) {
            CAPTURE(place.path);
            CAPTURE(value);
            CHECK_FALSE(faults_of(place, value).empty());
            ++checked;
        }
        for (const std::string& value : place.row->kind.takes) {
            CAPTURE(place.path);
            CAPTURE(value);
            CHECK_FALSE(is_outside(place, value));
        }
    }
    CHECK(checked > 200);
}

TEST_CASE("keys: a section refuses a key that it does not have, and lists all that it has") {
    int checked = 0;
    for (const Place& place : all_places()) {
        const KeyRows* const section = place.row->kind.below;
        if (section == nullptr) continue;
        std::vector<std::string_view> keys;
        for (const KeyRows::Row& row : section->rows()) keys.push_back(row.key);
        const std::string wanted = "llowed here: " + one_of(keys);
        CAPTURE(place.path);
        CAPTURE(wanted);
        const std::vector<std::string> messages = messages_about_unknown_key(place);
        CHECK(std::any_of(messages.begin(), messages.end(),
                          [&](const std::string& message) { return message.ends_with(wanted); }));
        ++checked;
    }
    CHECK(checked > 40);
}

TEST_CASE("keys: a default that is one value can be written") {
    int checked = 0;
    for (const Place& place : all_places()) {
        const std::string& shown = place.row->unset;
        const bool is_value =
            shown.size() > 2 && shown.front() == '`' && shown.find('`', 1) == shown.size() - 1;
        if (!is_value || shown[1] == '{' || shown[1] == '[') continue;
        const std::string value = shown.substr(1, shown.size() - 2);
        CAPTURE(place.path);
        CAPTURE(value);
        CHECK_FALSE(is_outside(place, '"' + value + '"'));
        ++checked;
    }
    CHECK(checked > 60);
}

TEST_CASE("keys: each key says what it is, and what a required one lacks") {
    for (const Place& place : all_places()) {
        CAPTURE(place.path);
        CHECK_FALSE(place.row->what.empty());
        if (place.row->needed.empty()) continue;
        CHECK(place.row->needed.find(std::string(place.row->key) + ":") != std::string_view::npos);
    }
}

TEST_CASE("keys: a table has the keys of its places, and none for a place that is not there") {
    const std::vector<std::string> places{"telemetry"};
    CHECK(key_table(places).find("| `telemetry.top` |") != std::string::npos);
    const std::vector<std::string> bare{"policies.NAME.limits."};
    CHECK(key_table(bare).find("| `quota` |") != std::string::npos);
    const std::vector<std::string> methods{"identity.user."};
    CHECK(key_table(methods).find("| `jwt.leeway` |") != std::string::npos);
    for (const std::string wrong : {"timeouts.zzz", "zzz", "log.level.*", "", "."}) {
        CAPTURE(wrong);
        CHECK(key_table(std::vector<std::string>{wrong}).empty());
    }
}

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

TEST_CASE("needs_restart: what else changes of listeners is not said beside their `tls`") {
    const Config other = read("listen: [127.0.0.1:3, 127.0.0.1:1]\n");
    CHECK(only(needs_restart({secure({}), other})).find("`tls` of `127.0.0.1:1`") !=
          std::string::npos);
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
}  // namespace tidegate::config::keys_test

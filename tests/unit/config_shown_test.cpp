// What `/api/config` shows: secrets are blanked by the rows of their keys, and the hash is of what
// is shown.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/yaml_document.hpp"
#include "places.hpp"

namespace tidegate::config_shown_test {

using config::KeyRows;
using config::Loaded;
using config::TreeNode;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kMarker = "m4rk3r";

// What variables of the environment are; the reader takes a plain function.
std::map<std::string, std::string, std::less<>>& variables() {
    static std::map<std::string, std::string, std::less<>> all;
    return all;
}

std::optional<std::string> environment(std::string_view name) {
    const auto found = variables().find(name);
    return found == variables().end() ? std::nullopt : std::optional(found->second);
}

Loaded loaded(const std::string& text) {
    return config::load_text(text, "t.yaml", environment);
}

config::Shown shown(const std::string& text) {
    const Loaded read = loaded(text);
    for (const auto& error : read.errors) FAIL_CHECK(error.to_string());
    REQUIRE(read.config != nullptr);
    return read.config->shown;
}

Json shown_json(const std::string& text) {
    return Json::parse(shown(text).json);
}

// Calls `visit` with the path and the row of every key, each section once.
template <class Visit>
void for_each_row(const KeyRows& keys, const std::string& path, std::set<const KeyRows*>& seen,
                  const Visit& visit) {
    if (!seen.insert(&keys).second) return;
    for (const KeyRows::Row& row : keys.rows()) {
        const std::string here = path + std::string(row.key);
        visit(here, row);
        if (row.kind.below != nullptr) for_each_row(*row.kind.below, here + ".", seen, visit);
    }
}

std::vector<std::string> rows_that(bool (*wanted)(const KeyRows::Row&)) {
    std::vector<std::string> paths;
    std::set<const KeyRows*> seen;
    for_each_row(config::root_keys(), "", seen, [&](const std::string& path, const auto& row) {
        if (wanted(row)) paths.push_back(path);
    });
    std::sort(paths.begin(), paths.end());
    return paths;
}

// Every place in which a secret may be written, each with `secret`.
std::string all_secrets(const std::string& secret) {
    return "listen:\n"
           "  - {address: 127.0.0.1:1, face: check, token: \"" +
           secret +
           "\"}\n"
           "  - 127.0.0.1:2\n"
           "check: {secret: \"" +
           secret +
           "\"}\n"
           "admin: {address: 127.0.0.1:3, token: \"" +
           secret +
           "\"}\n"
           "store:\n"
           "  redis: {sentinel: {master: m, nodes: ['redis://127.0.0.1:4'], password: \"" +
           secret + "\"}, username: u, password: \"" + secret +
           "\"}\n"
           "tracing: {otlp: 'http://127.0.0.1:5/v1/traces', headers: {authorization: \"" +
           secret +
           "\"}}\n"
           "upstreams: {api: {servers: ['http://127.0.0.1:6']}}\n"
           "routes: [{match: {path: /a, headers: {x-key: \"" +
           secret + "\"}}, upstream: api, policies: []}]\n";
}

}  // namespace

TEST_CASE("config_shown: it is the configuration as it is written, in the order of the file") {
    CHECK(shown("upstream: http://127.0.0.1:3000\nlimits: [10/s, {quota: 5, per: 1h}]\n"
                "log: {access: off}\nconnections: {max: \"100\"}\n")
              .json ==
          R"({"upstream":"http://127.0.0.1:3000","limits":["10/s",{"quota":5,"per":"1h"}],)"
          R"("log":{"access":"off"},"connections":{"max":100}})");
}

TEST_CASE("config_shown: files of `include` are part of it, and their names are not") {
    namespace fs = std::filesystem;
    std::string folder = fs::temp_directory_path() / "shown-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/a.part") << "policies: {p: {key: [ip], limits: [5/s]}}\n";
    std::ofstream(folder + "/t.yaml") << "include: '*.part'\n"
                                         "upstreams: {api: {servers: ['http://127.0.0.1:1']}}\n"
                                         "routes: [{upstream: api, policies: [p]}]\n";
    const Loaded read = config::load_file(folder + "/t.yaml", environment);
    fs::remove_all(folder);
    REQUIRE(read.config != nullptr);
    const Json json = Json::parse(read.config->shown.json);
    CHECK_FALSE(json.contains("include"));
    CHECK(json["policies"]["p"]["limits"][0] == "5/s");
    CHECK(read.config->shown.json.find(folder) == std::string::npos);
}

TEST_CASE("config_shown: the hash is of what is shown: neither comments nor secrets change it") {
    const auto hash = [](const std::string& quota, const std::string& token,
                         const std::string& comment) {
        return shown("upstream: http://127.0.0.1:1\n" + comment + "limits: [" + quota +
                     "]\nadmin: {address: '127.0.0.1:2', token: \"" + token + "\"}\n")
            .hash;
    };
    const std::string first = hash("5/s", "secret one", "");
    CHECK(first.size() == 16);
    CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(hash("5/s", "secret two", "# why\n") == first);
    CHECK(hash("6/s", "secret one", "") != first);
}

TEST_CASE("config_shown: secrets are blanked; `file:` and variables are as they are written") {
    variables() = {{"TOKEN", kMarker}};
    const auto token = [](const std::string& written) {
        return shown_json(
            "upstream: http://127.0.0.1:1\nadmin: {address: '127.0.0.1:2', token: \"" + written +
            "\"}\n")["admin"]["token"];
    };
    CHECK(token("hunter2") == "***");
    CHECK(token("1234567") == "***");
    CHECK(token("${TOKEN}") == "${TOKEN}");
    CHECK(token("x${TOKEN}") == "***");
    CHECK(token("${TOKEN:-hunter2}") == "***");
    CHECK(token("${NONE:-hunter2}") == "***");
    const std::string file = std::filesystem::temp_directory_path() / "shown-token";
    std::ofstream(file) << kMarker << '\n';
    CHECK(token("file:" + file) == "file:" + file);
    std::filesystem::remove(file);
}

TEST_CASE("config_shown: a secret of tokens, which a file or a variable has, is as it is written") {
    variables() = {{"SECRET", std::string(kMarker) + "-with-32-bytes-or-more-of-it"}};
    const config::Shown found = shown(
        "upstream: http://127.0.0.1:1\n"
        "identity: {user: [{jwt: {secret: \"${SECRET}\", algorithms: [HS256]}}]}\n");
    CHECK(Json::parse(found.json)["identity"]["user"][0]["jwt"]["secret"] == "${SECRET}");
    CHECK(found.json.find(kMarker) == std::string::npos);
}

TEST_CASE("config_shown: the user part and the query of URLs are blanked") {
    variables() = {{"PASSWORD", kMarker}, {"HOST", "127.0.0.1"}};
    const auto redis = [](const std::string& url) {
        return shown_json("upstream: http://127.0.0.1:1\nstore: {redis: {url: \"" + url +
                          "\"}}\n")["store"]["redis"]["url"];
    };
    CHECK(redis("redis://user:hunter2@127.0.0.1:6379/0") == "redis://***@127.0.0.1:6379/0");
    CHECK(redis("redis://:hunter2@127.0.0.1") == "redis://***@127.0.0.1");
    CHECK(redis("redis://127.0.0.1:6379") == "redis://127.0.0.1:6379");
    CHECK(redis("redis://:${PASSWORD}@${HOST}:1") == "redis://***@${HOST}:1");
    CHECK(redis("redis://:${PASSWORD:-a/b@c}@${HOST}:1") == "redis://***@${HOST}:1");
    CHECK(redis("${URL:-redis://u:hunter2@127.0.0.1:1}") == "${URL:-redis://***@127.0.0.1:1}");
    const Json jwks = shown_json(
        "upstream: http://127.0.0.1:1\nidentity: {user: [{jwt: {jwks: "
        "'https://idp.example/keys?code=hunter2', algorithms: [ES256]}}]}\n");
    CHECK(jwks["identity"]["user"][0]["jwt"]["jwks"] == "https://idp.example/keys?***");
}

TEST_CASE("config_shown: variables that bring parts of a URL uncover no secret in it") {
    variables() = {{"SCH", "redis://"}, {"SEP", "://"}, {"SL", "/"},         {"Q", "?k="},
                   {"HOST", "h"},       {"PORT", "1"},  {"HTTP", "http://"}, {"NONE", ""}};
    const auto redis = [](const std::string& url) {
        return shown_json("upstream: http://127.0.0.1:1\nstore: {redis: {url: '" + url +
                          "'}}\n")["store"]["redis"]["url"];
    };
    CHECK(redis("${SCH}u:hunter2@h:1") == "***@h:1");
    CHECK(redis("redis${SEP}u:hunter2@h") == "***@h");
    CHECK(redis("redis:/${SL}u:hunter2@h") == "***@h");
    CHECK(redis("${NONE}redis://u:hunter2@h") == "***@h");
    CHECK(redis("redis://${HOST}:${PORT:-6379}/0") == "redis://${HOST}:${PORT:-6379}/0");
    CHECK(redis("redis://${HOST:-127.0.0.1}:1") == "redis://${HOST:-127.0.0.1}:1");
    const auto otlp = [](const std::string& url) {
        return shown_json("upstream: http://127.0.0.1:1\ntracing: {otlp: '" + url +
                          "'}\n")["tracing"]["otlp"];
    };
    CHECK(otlp("http://h/v1/traces${Q}hunter2") == "http://h/v1/traces${Q}***");
    CHECK(otlp("${HTTP}h/v1/traces?k=hunter2") == "${HTTP}***");
    CHECK(otlp("http://h/v1/traces${Q}${K:-hunter2}") == "http://h/v1/traces${Q}***");
    CHECK(otlp("http://h/v1/traces?k=${K:-hunter2}") == "http://h/v1/traces?***");
}

TEST_CASE("config_shown: the query of the path of a health check is blanked") {
    const auto path = [](const std::string& written) {
        return shown_json(
            "upstreams: {api: {servers: ['http://127.0.0.1:1'], health_check: {path: '" + written +
            "'}}}\n"
            "routes: [{upstream: api, policies: []}]\n")["upstreams"]["api"]["health_check"]
                                                        ["path"];
    };
    CHECK(path("/health?token=hunter2") == "/health?***");
    CHECK(path("/health") == "/health");
}

TEST_CASE("config_shown: what is blanked in a path or a URL is refused where it is read") {
    for (const char* const text :
         {"upstreams: {api: {servers: ['http://127.0.0.1:1'], health_check: {path: '/h?***'}}}\n"
          "routes: [{upstream: api, policies: []}]\n",
          "upstream: http://127.0.0.1:1\ntracing: {otlp: 'http://h/v1/traces***'}\n",
          "upstream: http://127.0.0.1:1\nstore: {redis: {url: '***@h:1'}}\n"}) {
        CAPTURE(text);
        const Loaded read = loaded(text);
        REQUIRE(read.errors.size() == 1);
        CHECK(read.errors[0].message.find("write the secret") != std::string::npos);
    }
}

TEST_CASE("config_shown: no error repeats a secret") {
    for (const char* const secret : {"@hunter2", "%hunter2", "*hunter2", "`hunter2", "&hunter2 x",
                                     "\"${A:?hunter2}\"", "\"${hunter2-x}\""}) {
        CAPTURE(secret);
        const Loaded read =
            loaded("upstream: http://127.0.0.1:1\nadmin:\n  address: 127.0.0.1:2\n  token: " +
                   std::string(secret) + "\n");
        REQUIRE_FALSE(read.errors.empty());
        for (const auto& error : read.errors) {
            CHECK(error.to_string().find("hunter2") == std::string::npos);
        }
    }
    const Loaded read = loaded(
        "upstream: http://127.0.0.1:1\n"
        "routes: [{match: {headers: {x-key: \"hunter2\\x01\"}}, policies: []}]\n");
    REQUIRE_FALSE(read.errors.empty());
    for (const auto& error : read.errors) {
        CHECK(error.to_string().find("hunter2") == std::string::npos);
    }
}

TEST_CASE("config_shown: rows that are secret are these") {
    CHECK(rows_that([](const KeyRows::Row& row) { return row.kind.is_secret; }) ==
          std::vector<std::string>{"admin.token", "check.secret", "identity.user.jwt.secret",
                                   "listen.token", "routes.match.headers", "store.redis.password",
                                   "store.redis.sentinel.password", "tracing.headers"});
}

TEST_CASE(
    "config_shown: a row whose name sounds secret is one, or names a file or something else") {
    const auto sounds_secret = [](const KeyRows::Row& row) {
        const std::string_view key = row.key;
        const bool sounds = key.find("secret") != key.npos || key.find("token") != key.npos ||
                            key.find("password") != key.npos || key.find("key") != key.npos ||
                            key.find("credential") != key.npos;
        // A map with rows of its own; `file` and `pattern` are paths.
        return sounds && !row.kind.is_secret && row.kind.below == nullptr &&
               row.kind.schema.find("$defs/file") == std::string::npos;
    };
    // No secret is written there. A new key that belongs here is added, one that does not has
    // `.secret()` in its row.
    const std::set<std::string> known{
        "identity.failed_credentials", "identity.on_invalid_credentials", "policies.key",
        "response.cors.credentials",   "routes.cors.credentials",         "store.memory.max_keys",
        "store.redis.key_prefix"};
    for (const std::string& path : rows_that(sounds_secret)) {
        if (path.starts_with("identity.user.") && path.ends_with(".keys")) continue;  // a file
        CHECK_MESSAGE(known.contains(path), path);
    }
}

TEST_CASE("config_shown: no secret comes out, however it is written") {
    const std::string secret = std::string(kMarker) + "-with-32-bytes-or-more-of-it";
    const std::string file = std::filesystem::temp_directory_path() / "shown-secret";
    std::ofstream(file) << secret << '\n';
    variables() = {{"SECRET", secret}};
    for (const std::string& written :
         {secret, std::string("${SECRET}"), "file:" + file, "${NONE:-" + secret + "}"}) {
        CAPTURE(written);
        const Loaded read = loaded(all_secrets(written));
        for (const auto& error : read.errors) FAIL_CHECK(error.to_string());
        REQUIRE(read.config != nullptr);
        const std::string& json = read.config->shown.json;
        CHECK_MESSAGE(json.find(kMarker) == std::string::npos, json);
        for (const auto& warning : read.warnings) {
            CHECK(warning.message.find(kMarker) == std::string::npos);
        }
    }
    std::filesystem::remove(file);
    // In the clear, each is blanked; nothing else is.
    const std::string json = shown(all_secrets(secret)).json;
    std::size_t blanked = 0;
    for (std::size_t at = 0; (at = json.find("\"***\"", at)) != std::string::npos; ++at) ++blanked;
    CHECK(blanked == 7);
}

namespace {

// The document as JSON, which is YAML, too. `replaced`: this scalar is a variable instead.
std::string text_of(const TreeNode& node, const TreeNode* replaced) {
    std::string out;
    switch (node.kind) {
        case TreeNode::Kind::scalar:
            return Json(&node == replaced ? "${REPLACED}" : node.text).dump();
        case TreeNode::Kind::sequence:
            for (const TreeNode& item : node.items) {
                out += (out.empty() ? "" : ",") + text_of(item, replaced);
            }
            return "[" + out + "]";
        case TreeNode::Kind::map:
            for (const config::TreeEntry& entry : node.entries) {
                out += (out.empty() ? "" : ",") + Json(entry.key).dump() + ":" +
                       text_of(entry.value, replaced);
            }
            return "{" + out + "}";
        case TreeNode::Kind::null:
        case TreeNode::Kind::broken:
            break;
    }
    return "null";
}

void list_scalars(const TreeNode& node, std::vector<const TreeNode*>& scalars) {
    if (node.kind == TreeNode::Kind::scalar) scalars.push_back(&node);
    for (const TreeNode& item : node.items) list_scalars(item, scalars);
    for (const config::TreeEntry& entry : node.entries) list_scalars(entry.value, scalars);
}

std::size_t count_of(const std::string& text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
}

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("config_shown: what a variable brings comes out in no place of a configuration") {
    const std::string folder = test::source_folder() + "/config/";
    for (const char* const name : {"gateway.yaml", "identity.yaml", "redis.yaml", "plans.yaml"}) {
        CAPTURE(name);
        std::vector<config::ConfigFault> faults;
        const TreeNode tree = config::parse_document(content_of(folder + name), faults);
        REQUIRE(faults.empty());
        std::vector<const TreeNode*> scalars;
        list_scalars(tree, scalars);
        std::size_t replaced = 0;
        for (const TreeNode* const scalar : scalars) {
            CAPTURE(scalar->text);
            variables() = {{"REPLACED", scalar->text}};
            const config::Source source{name, folder, text_of(tree, scalar)};
            config::Config config;
            config.source = source;
            const Loaded read = config::reread(config, environment);
            if (!read.config) continue;  // a number that cannot come from a variable
            ++replaced;
            CHECK(count_of(read.config->shown.json, "${REPLACED}") +
                      count_of(read.config->shown.json, "***") >=
                  1);
        }
        CHECK(replaced > scalars.size() / 2);
    }
}

TEST_CASE("config_shown: in the examples, a row describes each key") {
    const std::string folder = test::source_folder() + "/config";
    std::size_t read_files = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
        if (file.path().extension() != ".yaml") continue;
        const Loaded read = config::load_file(file.path(), environment);
        if (!read.config) continue;
        ++read_files;
        CAPTURE(file.path().string());
        // What no row describes would be blanked; these files have no secret in the clear but
        // fields that routes match.
        std::string json = read.config->shown.json;
        const bool matches_fields = json.find("\"headers\"") != std::string::npos;
        CHECK_MESSAGE((matches_fields || json.find("\"***\"") == std::string::npos), json);
    }
    CHECK(read_files > 20);
}

TEST_CASE("config_shown: the descriptors of `rls` are shown, so that their limits are hashed") {
    const std::string folder = test::source_folder() + "/config/recipes";
    const Loaded read = config::load_file(folder + "/behind-envoy-rls.yaml", environment);
    REQUIRE(read.config != nullptr);
    const Json json = Json::parse(read.config->shown.json);
    REQUIRE(json["rls"]["descriptors"].size() == 1);
    CHECK(json["rls"]["descriptors"][0].contains("domain"));
    CHECK(json["rls"]["descriptors"][0]["descriptors"][0].contains("key"));
}

TEST_CASE("config_shown: values of descriptors whose key sounds secret are blanked") {
    namespace fs = std::filesystem;
    std::string folder = fs::temp_directory_path() / "shown-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/d.yaml")
        << "domain: d\ndescriptors:\n"
           "  - {key: session_token, value: hunter2, rate_limit: {unit: second, requests_per_unit: "
           "1}}\n"
           "  - {key: generic_key, value: slow, rate_limit: {unit: second, requests_per_unit: "
           "2}}\n";
    std::ofstream(folder + "/t.yaml") << "listen: {address: '127.0.0.1:1', face: envoy_grpc}\n"
                                         "rls: {files: [d.yaml]}\n";
    const Loaded read = config::load_file(folder + "/t.yaml", environment);
    fs::remove_all(folder);
    for (const auto& error : read.errors) FAIL_CHECK(error.to_string());
    REQUIRE(read.config != nullptr);
    const Json rules = Json::parse(read.config->shown.json)["rls"]["descriptors"][0]["descriptors"];
    CHECK(rules[0]["value"] == "***");
    CHECK(rules[1]["value"] == "slow");
}

TEST_CASE("config_shown: the price list is shown, so that a change of a price changes the hash") {
    namespace fs = std::filesystem;
    std::string folder = fs::temp_directory_path() / "shown-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/t.yaml")
        << "listen: 127.0.0.1:1\nupstream: http://127.0.0.1:2\nprices: p.yaml\n"
           "policies:\n  budget:\n    key: [ip]\n    limits: [{quota: 5, unit: usd, per: 1h}]\n"
           "    cost: {reserve: auto, settle: openai, unit: usd}\n"
           "routes: [{match: {path: '/**'}, policies: [budget]}]\n";
    const auto shown_with = [&](std::string_view output) {
        std::ofstream(folder + "/p.yaml")
            << "currency: usd\nmodels:\n  'x*': {input: 1.25, output: " << output << "}\n";
        const Loaded read = config::load_file(folder + "/t.yaml", environment);
        for (const auto& error : read.errors) FAIL_CHECK(error.to_string());
        REQUIRE(read.config != nullptr);
        return read.config->shown;
    };
    const config::Shown first = shown_with("10");
    const config::Shown second = shown_with("11");
    fs::remove_all(folder);
    CHECK(Json::parse(first.json)["prices"]["models"]["x*"]["input"] == "1.25");
    CHECK(first.hash != second.hash);
}

}  // namespace tidegate::config_shown_test

// `rls`: the files of Envoy's rate limit service, right and wrong.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_rls_test {

namespace {

namespace fs = std::filesystem;

// A folder with a configuration and the files `limits0.yaml`, `limits1.yaml`, ...
class Folder {
  public:
    explicit Folder(const std::vector<std::string>& files, const std::string& more = "") {
        std::string path = (fs::temp_directory_path() / "tidegate-rls-XXXXXX").string();
        REQUIRE(::mkdtemp(path.data()) != nullptr);
        path_ = path;
        for (std::size_t i = 0; i < files.size(); ++i) {
            std::ofstream(path_ / ("limits" + std::to_string(i) + ".yaml")) << files[i];
        }
        std::ofstream(path_ / "tidegate.yaml")
            << "listen: {address: \"127.0.0.1:8181\", face: envoy_grpc}\n"
               "rls: {files: [\"limits*.yaml\"]"
            << more << "}\n";
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    config::Loaded load() const {
        return config::load_file((path_ / "tidegate.yaml").string(),
                                 [](std::string_view) { return std::optional<std::string>(); });
    }
    // Messages, without the path of the folder.
    std::vector<std::string> errors() const {
        std::vector<std::string> out;
        for (const auto& error : load().errors) {
            std::string text = error.to_string();
            for (std::size_t at; (at = text.find(path_.string() + "/")) != std::string::npos;) {
                text.erase(at, path_.string().size() + 1);
            }
            out.push_back(std::move(text));
        }
        return out;
    }

  private:
    fs::path path_;
};

std::vector<std::string> errors_of(const std::string& descriptors) {
    return Folder({"domain: d\ndescriptors:\n" + descriptors}).errors();
}

// One error, that begins so.
void check_error(const std::string& descriptors, const std::string& wanted) {
    const auto errors = errors_of(descriptors);
    CAPTURE(descriptors);
    REQUIRE(errors.size() == 1);
    CHECK_MESSAGE(errors[0].starts_with("limits0.yaml:" + wanted), errors[0]);
}

const rls::Rule* find(const config::Config& config, std::string_view domain,
                      std::vector<rls::Entry> entries) {
    std::vector<std::string_view> values;
    return rls::find_rule(*config.rls->domains.find(domain), entries, values);
}

}  // namespace

TEST_CASE("rls: files of envoyproxy/ratelimit become policies with a limit a unit") {
    using namespace std::chrono_literals;
    const Folder folder({R"(domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit: {unit: second, requests_per_unit: 500}
  - key: database
    detailed_metric: false
    shadow_mode: true
    descriptors:
      - key: table
        rate_limit: {name: tables, unit: WEEK, requests_per_unit: 7, replaces: [{name: other}]}
        quota_mode: true
        metadata: {any: [thing, {at: all}]}
      - key: index
        rate_limit: {unlimited: true}
)",
                         "domain: empty\n"});
    const auto loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    const config::Config& config = *loaded.config;
    REQUIRE(config.rls != nullptr);
    const auto* const users = find(config, "mongo_cps", {{"database", "users"}});
    REQUIRE(users != nullptr);
    REQUIRE(users->policy != nullptr);
    CHECK(users->policy->name == "rls:mongo_cps.database_users");
    CHECK(users->policy->limits[0].quota == 500);
    CHECK(users->policy->limits[0].duration == 1s);
    CHECK(users->policy->limits[0].algorithm == limit::Algorithm::fixed_window);
    const auto* const tables = find(config, "mongo_cps", {{"database", "x"}, {"table", "y"}});
    REQUIRE(tables != nullptr);
    CHECK(tables->policy->name == "rls:mongo_cps.database.table");
    CHECK(tables->policy->limits[0].duration == 168h);
    CHECK(tables->is_quota);
    CHECK(tables->name == "tables");
    CHECK(tables->replaces == std::vector<std::string>{"other"});
    CHECK(find(config, "mongo_cps", {{"database", "x"}, {"index", "y"}})->is_unlimited);
    CHECK(find(config, "mongo_cps", {{"database", "x"}})->policy == nullptr);
    CHECK(config.rls->domains.find("empty") != nullptr);
    CHECK(config.rls->takes_overrides);
    CHECK(config.rls->override_policies[3]->limits[0].duration == 1h);
}

TEST_CASE("rls: the settings beside the files are read") {
    const Folder folder({"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, "
                         "requests_per_unit: 4}}]\n"},
                        ", algorithm: sliding_window, overrides: off, unmatched: deny, count: all");
    const auto loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    const config::Rls& rls = *loaded.config->rls;
    CHECK(rls.counts_all);
    CHECK(rls.denies_unmatched);
    CHECK_FALSE(rls.takes_overrides);
    CHECK(rls.override_policies[1] == nullptr);
    CHECK(find(*loaded.config, "d", {{"a", "1"}})->policy->limits[0].algorithm ==
          limit::Algorithm::sliding_window);
}

TEST_CASE("rls: the files are read as they are: dollars, anchors, aliases and merge keys") {
    const Folder folder({R"(domain: ${NO_SUCH:-d}
descriptors:
  - &first
    key: price
    value: US$$
    rate_limit: &five
      unit: minute
      requests_per_unit: 5
  - key: b
    rate_limit: *five
  - <<: *first
    value: ${HOME}
  - key: c
    value: $PATH
    rate_limit: {<<: *five, requests_per_unit: 7}
    descriptors:
      - <<: [{rate_limit: {unit: hour, requests_per_unit: 1}}, *first]
        shadow_mode: true
)"});
    const auto loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    const config::Config& config = *loaded.config;
    const auto quota = [&](std::vector<rls::Entry> entries) -> std::int64_t {
        const auto* const rule = find(config, "${NO_SUCH:-d}", std::move(entries));
        REQUIRE(rule != nullptr);
        REQUIRE(rule->policy != nullptr);
        return rule->policy->limits.at(0).quota;
    };
    CHECK(quota({{"price", "US$$"}}) == 5);
    CHECK(quota({{"price", "${HOME}"}}) == 5);
    CHECK(quota({{"b", "x"}}) == 5);
    CHECK(quota({{"c", "$PATH"}}) == 7);
    CHECK(quota({{"c", "$PATH"}, {"price", "US$$"}}) == 1);
}

TEST_CASE("rls: with `count: all` each limit counts what it denies, and keeps its counts") {
    const std::vector<std::string> files{R"(domain: d
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: b, rate_limits: [10/s, {quota: 9, per: 1h, algorithm: gcra}]}
)"};
    const Folder admitted(files);
    const Folder all(files, ", count: all");
    const auto before = admitted.load();
    const auto after = all.load();
    REQUIRE(before.config != nullptr);
    REQUIRE(after.config != nullptr);
    std::size_t limits = 0;
    for (std::size_t i = 0; i < after.config->policies.size(); ++i) {
        const auto& policy = *after.config->policies[i];
        if (!policy.name.starts_with("rls")) continue;
        for (std::size_t k = 0; k < policy.limits.size(); ++k, ++limits) {
            CHECK(policy.limits[k].count == limit::Count::all);
            CHECK(policy.limits[k].id == before.config->policies[i]->limits[k].id);
        }
    }
    CHECK(limits > 3);
}

TEST_CASE("rls: other limits stand beside or in place of `rate_limit`") {
    const Folder folder({R"(domain: d
descriptors:
  - key: a
    rate_limit: {unit: second, requests_per_unit: 5}
    rate_limits: [250/day, {quota: 3, per: 1s, algorithm: gcra}]
  - {key: a_b, rate_limits: [1/s]}
  - {key: a, value: b, rate_limits: [1/s]}
)"});
    const auto loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    CHECK(find(*loaded.config, "d", {{"a", "1"}})->policy->limits.size() == 3);
    // Names stay different where theirs would be the same.
    CHECK(find(*loaded.config, "d", {{"a_b", "1"}})->policy->name == "rls:d.a_b");
    CHECK(find(*loaded.config, "d", {{"a", "b"}})->policy->name == "rls:d.a_b#2");
}

TEST_CASE("rls: a mistake in a file is reported with its place there") {
    check_error("  - {key: a, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n",
                "3:33: descriptors[0].rate_limit.unit: unknown unit `fortnight`");
    check_error("  - {key: a, rate_limit: {requests_per_unit: 1}}\n",
                "3:26: descriptors[0].rate_limit: the key `unit` is missing");
    check_error("  - {key: a, rate_limit: {unit: day, unlimited: true}}\n",
                "3:33: descriptors[0].rate_limit.unit: not beside `unlimited: true`");
    check_error("  - {key: a, ratelimit: {unit: day}}\n",
                "3:14: unknown key `ratelimit` in descriptors[0]; did you mean `rate_limit`?");
    check_error("  - {value: a}\n", "3:5: descriptors[0]: the key `key` is missing");
    check_error("  - {key: a*}\n", "3:11: descriptors[0].key: `*` stands for any text");
    check_error("  - {key: a, value: b, share_threshold: true}\n",
                "3:41: descriptors[0].share_threshold: only with a `value` that has a `*`");
    check_error("  - {key: a, value: b}\n  - {key: a, value: b}\n",
                "4:5: descriptors[1]: a descriptor with this key and value is in the list");
    check_error(
        "  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: x, replaces: [{name: "
        "x}]}}\n",
        "3:87: descriptors[0].rate_limit.replaces[0].name: a limit cannot replace itself");
    check_error("  - {key: a, rate_limits: [{quota: 3, algorithm: concurrency}]}\n",
                "3:27: descriptors[0].rate_limits: Envoy does not say how a request ends");
    CHECK(Folder({"descriptors: []\n"}).errors() ==
          std::vector<std::string>{
              "limits0.yaml:1:1: the key `domain` is missing: write `domain: mongo_cps`"});
}

TEST_CASE("rls: a domain in two files is refused, and both are named") {
    const auto errors = Folder({"domain: d\n", "domain: e\n", "domain: d\n"}).errors();
    REQUIRE(errors.size() == 1);
    CHECK(errors[0] ==
          "limits2.yaml:1:9: domain: the domain `d` is in `limits0.yaml`, too: write all its "
          "descriptors into one of the two files");
}

TEST_CASE("rls: check warns where Envoy would not wait for Redis, or let requests pass") {
    const std::string file = "domain: d\n";
    const auto warnings = [&](const std::string& store) {
        std::vector<std::string> out;
        const auto loaded = Folder({file}, "}\n" + store + "\nlog: {level: info").load();
        for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
        for (const auto& one : loaded.warnings) out.push_back(one.message);
        return out;
    };
    const std::string redis = "replicas: 1\nstore: {redis: {url: \"redis://127.0.0.1\"";
    REQUIRE(warnings(redis + "}}").size() == 1);
    CHECK(warnings(redis + "}}")[0].starts_with("rls: store.redis.timeout is 100ms, and Envoy"));
    CHECK(warnings(redis + ", timeout: 15ms}}").empty());
    const auto denying = warnings("on_store_failure: deny");
    REQUIRE(denying.size() == 1);
    CHECK(denying[0].find("failure_mode_deny") != std::string::npos);
}

TEST_CASE("rls: the files are among those that `--watch` looks at, and so are new ones") {
    const Folder folder({"domain: d\n"});
    const auto loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    const auto is_noted = [&](std::string_view end, bool is_pattern) {
        const auto is_it = [&](const auto& one) {
            return one.is_pattern == is_pattern && one.path.ends_with(end);
        };
        return std::any_of(loaded.files_read.begin(), loaded.files_read.end(), is_it);
    };
    CHECK(is_noted("/limits0.yaml", false));
    CHECK(is_noted("/limits*.yaml", true));
}

}  // namespace tidegate::config_rls_test

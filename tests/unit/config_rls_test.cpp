// `rls`: the files of Envoy's rate limit service.
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

  private:
    fs::path path_;
};

const rls::Rule* find(const config::Config& config, std::string_view domain,
                      std::vector<rls::DescriptorEntry> entries) {
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
    const auto quota = [&](std::vector<rls::DescriptorEntry> entries) -> std::int64_t {
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

TEST_CASE(
    "rls: what would end a name in a list, a field or a line is encoded in names of policies") {
    const std::string odd = R"(a;b c"d\e%f)";
    const Folder folder({"domain: '" + odd + "'\ndescriptors: [{key: '" + odd + "', value: '" +
                         odd + "', rate_limit: {unit: day, requests_per_unit: 4}}]\n"});
    const auto loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    const auto* const rule = find(*loaded.config, odd, {{odd, odd}});
    REQUIRE(rule != nullptr);
    const std::string encoded = "a%3Bb%20c%22d%5Ce%25f";
    CHECK(rule->policy->name == "rls:" + encoded + "." + encoded + "_" + encoded);
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

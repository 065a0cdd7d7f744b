#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "app/shared_state.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::app::shared_state_test {

namespace {

namespace fs = std::filesystem;

std::string made_folder() {
    std::string name = (fs::temp_directory_path() / "replicas-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    return name;
}

struct StateFolder {
    StateFolder() = default;
    ~StateFolder() { fs::remove_all(root); }
    StateFolder(const StateFolder&) = delete;
    StateFolder& operator=(const StateFolder&) = delete;

    void with(const std::string& path, const std::string& text) const {
        std::ofstream(root + path) << text;
    }

    std::string root = made_folder();
    ReplicasFile file{root + "/replicas"};
};

TEST_CASE("replicas file: what was written is read, and nothing else is left in the folder") {
    const StateFolder folder;
    CHECK(folder.file.read() == 0);
    CHECK(folder.file.write(3).empty());
    CHECK(folder.file.read() == 3);
    CHECK(folder.file.write(1 << 20).empty());
    CHECK(folder.file.read() == 1 << 20);
    CHECK(std::distance(fs::directory_iterator(folder.root), fs::directory_iterator{}) == 1);
}

TEST_CASE("replicas file: one that is broken, too large or no file is ignored") {
    const StateFolder folder;
    for (const std::string text :
         {"", "\n", "0\n", "-3\n", "3 4\n", "three\n", "1048577\n", "99999999999999999999\n"}) {
        CAPTURE(text);
        folder.with("/replicas", text);
        CHECK(folder.file.read() == 0);
    }
    folder.with("/replicas", "3" + std::string(10'000'000, '\n'));
    CHECK(folder.file.read() == 0);
    fs::remove(folder.root + "/replicas");
    fs::create_directory(folder.root + "/replicas");
    CHECK(folder.file.read() == 0);
    CHECK_FALSE(folder.file.write(3).empty());
    fs::remove(folder.root + "/replicas");
    fs::create_symlink("/dev/zero", folder.root + "/replicas");
    CHECK(folder.file.read() == 0);
}

TEST_CASE("replicas file: a folder that is gone is a fault, which the file survives") {
    const ReplicasFile gone("/no-such-folder/replicas");
    CHECK(gone.read() == 0);
    CHECK(gone.write(2).find("No such file") != std::string::npos);
}

TEST_CASE("replicas file: it is in the first folder that systemd gives, if that is absolute") {
    const auto path = [](config::Environment environment) {
        return ReplicasFile::of(environment).path();
    };
    CHECK(path([](std::string_view) { return std::optional<std::string>("/a:/b"); }) ==
          "/a/replicas");
    CHECK(path([](std::string_view) { return std::optional<std::string>("relative"); }).empty());
    CHECK(path([](std::string_view) { return std::optional<std::string>(); }).empty());
    CHECK(ReplicasFile("").read() == 0);
}

TEST_CASE("shared state: a store that refused at the start has taken Tidegate once it counts") {
    SharedState shared(*config::load_text("upstream: http://127.0.0.1:1\n", "t.yaml").config, 1,
                       "0");
    CHECK_FALSE(shared.is_refused_by_store());
    shared.was_refused = true;
    CHECK(shared.is_refused_by_store());
    shared.store_changed(false, "it refuses");
    CHECK(shared.is_refused_by_store());
    SUBCASE("it counts proxies") {
        shared.replicas.seen = 1;
    }
    SUBCASE("it is back") {
        shared.store_changed(true, "there");
    }
    CHECK_FALSE(shared.is_refused_by_store());
}

}  // namespace

namespace {

using Scripts = std::vector<const redis::Script*>;

constexpr const char* kRedis = "store: {redis: {url: 'redis://127.0.0.1:1'}}\n";
constexpr const char* kCluster = "store: {redis: {cluster: ['redis://127.0.0.1:1']}}\n";

Scripts scripts_of(const std::string& yaml) {
    auto loaded = config::load_text(
        "replicas: 1\nupstreams: {api: {servers: ['http://127.0.0.1:1']}}\n" + yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return preloaded_scripts(*loaded.config);
}

const redis::Script* general() {
    return &store::charge_script({});
}

const redis::Script* windows() {
    limit::Policy policy;
    policy.limits.resize(1);
    const limit::ChargeItem item{&policy, "ip:192.0.2.1"};
    return &store::charge_script({{&item, 1}, 1});
}

const std::string kOne = "routes: [{name: all, upstream: api, policies: [p]}]\n";
const std::string kBoth = "routes: [{name: all, upstream: api, policies: [p, q]}]\n";
const std::string kTwoAndThree =
    "policies: {p: {key: [ip], limits: [1/s, 2/min]}, "
    "q: {key: [user], limits: [1/s, 2/min, 3/h]}}\n"
    "identity: {user: [{header: {name: x-user, from: trusted_proxies}}]}\n";
const std::string kWindowAndBucket =
    "policies: {p: {key: [ip], limits: [2/min]}, "
    "q: {key: [user], limits: [{algorithm: gcra, quota: 5, per: 1s}]}}\n"
    "identity: {user: [{header: {name: x-user, from: trusted_proxies}}]}\n";

}  // namespace

TEST_CASE("script_preload: it loads the general script and those of the routes") {
    CHECK(
        scripts_of(kRedis + std::string("routes: [{name: all, upstream: api, policies: []}]\n")) ==
        Scripts{general()});
    CHECK(scripts_of(kRedis + ("policies: {p: {key: [ip], limits: [1/s, 2/min]}}\n" + kOne)) ==
          Scripts{general(), windows()});
    // Several policies of one request are one charge.
    CHECK(scripts_of(kRedis + kTwoAndThree + kBoth) == Scripts{general(), windows()});
    CHECK(scripts_of(kRedis + kWindowAndBucket + kBoth) == Scripts{general()});
}

TEST_CASE("script_preload: in a cluster each identifier is asked about apart") {
    CHECK(scripts_of(kCluster + kTwoAndThree + kBoth) == Scripts{general(), windows()});
    CHECK(scripts_of(kCluster + kWindowAndBucket + kBoth) == Scripts{general(), windows()});
}

TEST_CASE("script_preload: the give_back script is loaded when limits may be given back") {
    const auto scripts = scripts_of(
        kRedis +
        ("policies: {p: {key: [ip], limits: [{quota: 5, per: 1h, count: [200]}]}}\n" + kOne));
    CHECK(scripts == Scripts{general(), &store::give_back_script()});
    const auto of_costs =
        scripts_of(kRedis + ("policies: {p: {key: [ip], limits: [9/h], cost: {reserve: 2, settle: "
                             "{header: x-cost}}}}\n" +
                             kOne));
    CHECK(of_costs ==
          Scripts{general(), windows(), &store::give_back_script(), &store::report_once_script()});
    const auto of_leases =
        scripts_of(kRedis + ("policies: {p: {key: [ip], limits: [9000/h], lease: auto}}\n" + kOne));
    CHECK(of_leases == Scripts{general(), windows(), &store::give_back_script()});
}

}  // namespace tidegate::app::shared_state_test

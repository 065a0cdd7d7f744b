// `tidegate config` and `tidegate rollback` against a running proxy.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::config_api_test {

using Json = nlohmann::json;

namespace {

constexpr const char* kMarker = "m4rk3r-with-more-than-32-bytes-in-it";

Finished asked(const Tidegate& proxy, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--admin", "127.0.0.1:" + std::to_string(proxy.admin_port())});
    return run_tidegate(arguments);
}

Json config_json(const Tidegate& proxy) {
    const Finished finished = asked(proxy, {"config", "--json"});
    CAPTURE(finished.errors);
    REQUIRE(finished.code == 0);
    return Json::parse(finished.output);
}

std::string hash_of(const Tidegate& proxy) {
    return config_json(proxy).at("hash");
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("config: command, log, metric and `check` have the same hash") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url(), "5/min"));
    const std::string hash = hash_of(proxy);
    CHECK(proxy.metric("tidegate_config_info{hash=\"" + hash + "\"}") == 1);
    CHECK_SOON(proxy.errors().find("starts with configuration 1, hash " + hash) !=
               std::string::npos);
    says(run_tidegate({"check", proxy.file()}).output, hash);
    CHECK(Json::parse(run_tidegate({"check", "--json", proxy.file()}).output).at("hash") == hash);

    const Finished text = asked(proxy, {"config"});
    CHECK(text.code == 0);
    CHECK(text.output.starts_with("# configuration 1, hash " + hash));
    says(text.output, "upstream: " + upstream.url() + "\n");
    // What it prints is a configuration that means the same.
    const TemporaryFolder folder;
    const std::string copy = folder.path() / "copy.yaml";
    std::ofstream(copy) << text.output;
    says(run_tidegate({"check", copy}).output, hash);
}

TEST_CASE("config: a rollback puts the former configuration in force, and its limits") {
    const Upstream upstream(ok());
    Tidegate proxy(simple(upstream.url(), "3/h"));
    const std::string first = hash_of(proxy);
    Finished finished = asked(proxy, {"rollback"});
    CHECK(finished.code == 1);
    says(finished.errors, "there is nothing to go back to");
    for (int i = 0; i < 2; ++i) CHECK(proxy.get("/").status() == 200);

    proxy.write_configuration(simple(upstream.url(), "1/h"));
    CHECK(asked(proxy, {"reload"}).code == 0);
    CHECK(hash_of(proxy) != first);
    CHECK(proxy.get("/").status() == 429);

    finished = asked(proxy, {"rollback"});
    CHECK(finished.code == 0);
    CHECK(finished.output == "configuration 3 is in force, hash " + first + "\n");
    CHECK_SOON(proxy.errors().find("rollback: configuration 3 is in force, hash " + first) !=
               std::string::npos);
    CHECK(proxy.metric("tidegate_config_rolled_back") == 1);
    CHECK(proxy.metric("tidegate_config_generation") == 3);
    CHECK(config_json(proxy).at("rolled_back") == true);
    // A limit that was there before has kept its count.
    CHECK(proxy.get("/").status() == 200);
    CHECK(proxy.get("/").status() == 429);
    CHECK(asked(proxy, {"rollback"}).code == 1);

    CHECK(asked(proxy, {"reload"}).code == 0);
    CHECK(proxy.metric("tidegate_config_rolled_back") == 0);
    CHECK(hash_of(proxy) != first);
}

TEST_CASE("config: with --watch, a rollback holds until a file changes") {
    const Upstream upstream(ok());
    Tidegate proxy(simple(upstream.url(), "3/h"), "", {.options = {"--watch"}});
    const std::string first = hash_of(proxy);
    proxy.write_configuration(simple(upstream.url(), "4/h"));
    CHECK_SOON(proxy.metric("tidegate_config_generation") == 2);
    CHECK(asked(proxy, {"rollback"}).code == 0);
    // An event of the folder that changes no file.
    std::ofstream(std::filesystem::path(proxy.file()).parent_path() / "other") << "x";
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    CHECK(hash_of(proxy) == first);
    CHECK(proxy.metric("tidegate_config_generation") == 3);
    proxy.write_configuration(simple(upstream.url(), "5/h"));
    CHECK_SOON(proxy.metric("tidegate_config_generation") == 4);
    CHECK(hash_of(proxy) != first);
}

TEST_CASE("config: no secret comes out, of a file, a variable or the text") {
    const TemporaryFolder folder;
    const std::string file = folder.path() / "secret";
    std::ofstream(file) << kMarker << '\n';
    ::setenv("TIDEGATE_TEST_SECRET", kMarker, 1);
    const Upstream upstream(ok());
    for (const std::string& written :
         {std::string(kMarker), "file:" + file, std::string("${TIDEGATE_TEST_SECRET}"),
          std::string("${TIDEGATE_TEST_NOTHING:-") + kMarker + "}"}) {
        CAPTURE(written);
        const std::string quoted = "\"" + written + "\"";
        Tidegate proxy("tracing: {otlp: 'http://127.0.0.1:1/v1/traces', headers: {authorization: " +
                       quoted + "}}\nupstreams: {api: {servers: ['" + upstream.url() +
                       "']}}\nroutes: [{match: {path: /a, headers: {x-key: " + quoted +
                       "}}, upstream: api, policies: []}, {upstream: api, policies: []}]\n");
        CHECK(proxy.get("/a").status() == 200);
        CHECK(asked(proxy, {"reload"}).code == 0);
        for (const Finished& finished :
             {asked(proxy, {"config"}), asked(proxy, {"config", "--json"}),
              run_tidegate({"explain", "-c", proxy.file(), "--path", "/a", "--from", "127.0.0.1"}),
              run_tidegate({"check", proxy.file()})}) {
            CHECK(finished.code == 0);
            CHECK_MESSAGE(finished.output.find(kMarker) == std::string::npos, finished.output);
            CHECK_MESSAGE(finished.errors.find(kMarker) == std::string::npos, finished.errors);
        }
        CHECK(proxy.errors().find(kMarker) == std::string::npos);
    }
    ::unsetenv("TIDEGATE_TEST_SECRET");
}

}  // namespace tidegate::test::config_api_test

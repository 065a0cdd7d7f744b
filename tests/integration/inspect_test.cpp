// `tidegate inspect` and `tidegate reset`, and the API behind them, against a running proxy.
#include <csignal>
#include <exception>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cluster_world.hpp"
#include "integration/limiter_world.hpp"

namespace tidegate::test::inspect_test {

using Json = nlohmann::json;

namespace {

const std::string kPolicy =
    "{key: [user, ip], limits: [{name: hourly, quota: 3, per: 1h}, {name: burst, quota: 9, per: 1h,"
    " algorithm: gcra}]}";

std::string as_user(const std::string& name) {
    return "X-User-Id: " + name + "\r\n";
}

Finished asked(const Tidegate& tidegate, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--admin", "127.0.0.1:" + std::to_string(tidegate.admin_port())});
    return run_tidegate(arguments);
}

Json inspected(const Tidegate& tidegate, const std::string& identifier) {
    const Finished finished = asked(tidegate, {"inspect", identifier, "--json"});
    CAPTURE(finished.errors);
    REQUIRE(finished.code <= 1);
    const Json json = Json::parse(finished.output);
    CHECK(json.at("counted") == (finished.code == 0));
    return json;
}

// Of the first limit of the first policy.
std::int64_t counted(const Tidegate& tidegate, const std::string& identifier) {
    const Json json = inspected(tidegate, identifier);
    return json.at("identifiers").at(0).at("policies").at(0).at("limits").at(0).at("counted");
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

void await_logged(const Tidegate& tidegate, const std::string& part) {
    await(part, [&] { return tidegate.errors().find(part) != std::string::npos; });
}

// An answer of the admin listener to exactly these bytes.
Message admin_answer(const Tidegate& tidegate, const std::string& method, const std::string& target,
                     const std::string& fields = "") {
    RawClient client(tidegate.admin_port());
    client.send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
    return client.response();
}

}  // namespace

TEST_CASE("inspect: it shows the counts of a user, and a reset admits the user at once") {
    const CountedIn counted_in = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted_in.yaml() + kUsersFromHere + one_policy(upstream, kPolicy));
    Finished finished = asked(tidegate, {"inspect", "user:alice"});
    CHECK(finished.code == 1);
    for (int i = 0; i < 3; ++i) CHECK(tidegate.get("/", as_user("alice")).status() == 200);
    CHECK(tidegate.get("/", as_user("alice")).status() == 429);

    const Json json = inspected(tidegate, "user:alice");
    CHECK(json.at("store") == counted_in.name());
    const Json& one = json.at("identifiers").at(0);
    CHECK(one.at("identifier") == "user:alice");
    const Json& limits = one.at("policies").at(0).at("limits");
    CHECK(limits.at(0).at("name") == "p-hourly");
    CHECK(limits.at(0).at("counted") == 3);
    CHECK(limits.at(0).at("remaining") == 0);
    CHECK(limits.at(0).at("denied") == true);
    CHECK(limits.at(0).at("denied_for_us") > 3'000'000'000);
    CHECK(limits.at(0).at("all_free_us") >= limits.at(0).at("next_unit_us"));
    CHECK(limits.at(1).at("counted") == 3);
    CHECK(limits.at(1).at("denied") == false);
    CHECK(limits.at(1).at("denied_for_us").is_null());

    finished = asked(tidegate, {"inspect", "user:alice"});
    CHECK(finished.code == 0);
    says(finished.output, "p-hourly");
    says(finished.output, "denies for ");
    says(finished.output, counted_in.redis ? "counted in Redis" : "counted in process");

    finished = asked(tidegate, {"reset", "user:alice"});
    CHECK(finished.code == 0);
    says(finished.output, "p: forgotten");
    CHECK(counted(tidegate, "user:alice") == 0);
    // Her address is counted, too.
    CHECK(counted(tidegate, "127.0.0.1") == 3);
    CHECK(tidegate.get("/", as_user("alice")).status() == 429);
    CHECK(asked(tidegate, {"reset", "127.0.0.1"}).code == 0);
    CHECK(tidegate.get("/", as_user("alice")).status() == 200);
    CHECK(asked(tidegate, {"reset", "user:bob"}).code == 1);
    await_logged(tidegate, "admin: reset user:alice");
}

TEST_CASE("inspect: upstreams are shown with their servers, those that are down first") {
    const Upstream upstream(ok());
    const std::string away = "http://127.0.0.1:" + std::to_string(free_port());
    const Tidegate tidegate(unlimited({upstream.url(), away},
                                      "health_check: {path: /healthz, every: 200ms}, "
                                      "max_connections: 7"));
    await("both are checked", [&] {
        const Json json = Json::parse(admin_answer(tidegate, "GET", "/api/upstreams").body);
        const Json& servers = json.at("upstreams").at(0).at("servers");
        return servers.at(0).at("checked") == true && servers.at(0).at("state") == "up" &&
               servers.at(1).at("state") == "unhealthy";
    });
    CHECK(tidegate.get().status() == 200);
    Finished finished = asked(tidegate, {"inspect", "--upstreams"});
    CHECK_MESSAGE(finished.code == 1, finished.errors);
    says(finished.output, "api: 1 of 2 servers up, ");
    says(finished.output, " of 7 connections, 0 waiting\n");
    says(finished.output, "up (checked)");
    CHECK(finished.output.find("unhealthy") < finished.output.find("up (checked)"));

    finished = asked(tidegate, {"inspect", "--upstreams", "--json"});
    const Json api = Json::parse(finished.output).at("upstreams").at(0);
    CHECK(api.at("name") == "api");
    CHECK(api.at("unresolved").empty());
    const Json& up = api.at("servers").at(0);
    CHECK(up.at("server") == upstream.url().substr(7));
    CHECK(up.at("configured") == upstream.url().substr(7));
    CHECK(up.at("requests") == 1);
    CHECK(up.at("failures") == 0);

    const Tidegate well(simple(upstream.url()));
    CHECK(asked(well, {"inspect", "--upstreams"}).code == 0);
    CHECK(asked(well, {"inspect", "--upstreams", "user:alice"}).code == 2);
    CHECK(asked(well, {"inspect"}).code == 2);
}

TEST_CASE("inspect: a policy with tiers labels the row of its own limits") {
    const Upstream upstream(ok());
    const Tidegate tiered(
        kUsersFromHere +
        one_policy(upstream, "{key: [user, ip], limits: [3/h], tiers: {pro: [9/h]}}"));
    CHECK(tiered.get("/", as_user("alice")).status() == 200);
    const Finished finished = asked(tiered, {"inspect", "user:alice"});
    CHECK(finished.code == 0);
    says(finished.output, "p (no tier)");
    says(finished.output, "A request meets one row of each policy");
    CHECK(inspected(tiered, "user:alice").at("identifiers")[0].at("policies")[0].at("has_tiers") ==
          true);
    const Tidegate plain(kUsersFromHere + one_policy(upstream, kPolicy));
    const std::string untiered = asked(plain, {"inspect", "user:alice"}).output;
    CHECK(untiered.find("no tier") == std::string::npos);
    CHECK(untiered.find("A request meets") == std::string::npos);
}

TEST_CASE("inspect: no worker remembers a denial that a reset has forgotten") {
    const CountedIn counted_in = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 4\n" + counted_in.yaml() +
                            one_policy(upstream, "{key: [ip], limits: [{quota: 1, per: 1h}]}"));
    std::vector<RawClient> clients;
    for (int i = 0; i < 32; ++i) clients.push_back(tidegate.client());
    for (int round = 0; round < 3; ++round) {
        int admitted = 0;
        for (RawClient& client : clients) admitted += client.get().status() == 200 ? 1 : 0;
        CHECK(admitted == 1);
        REQUIRE(asked(tidegate, {"reset", "127.0.0.1"}).code == 0);
    }
}

TEST_CASE("inspect: requests in flight keep their slots through a reset") {
    const CountedIn counted_in = either_store();
    GatedUpstream upstream;
    const Tidegate tidegate(counted_in.yaml() +
                            one_policy(upstream.upstream(),
                                       "{key: [ip], limits: [{name: slots, quota: 1, algorithm: "
                                       "concurrency}]}"));
    std::thread first([&] { CHECK(tidegate.get().status() == 200); });
    await("a request is in flight", [&] { return counted(tidegate, "127.0.0.1") == 1; });
    asked(tidegate, {"reset", "127.0.0.1"});
    CHECK(counted(tidegate, "127.0.0.1") == 1);
    CHECK(tidegate.get().status() == 429);
    upstream.open();
    first.join();
    await("its slot is free", [&] { return counted(tidegate, "127.0.0.1") == 0; });
}

TEST_CASE("inspect: while others drain, threads that have left delay no answer") {
    const CountedIn counted_in = counted_in_redis();
    GatedUpstream upstream;
    const Tidegate tidegate("threads: 4\n" + counted_in.yaml() +
                            one_policy(upstream.upstream(), "{key: [ip], limits: [5/h]}"));
    std::thread last([&] { CHECK(tidegate.get().status() == 200); });
    await("a request is in flight", [&] { return upstream.waiting() == 1; });
    tidegate.signal(SIGTERM);
    await("nobody is accepted any more", [&] {
        try {
            return !Socket::try_connect(tidegate.port()).has_value();
        } catch (const std::exception&) {
            return false;
        }
    });
    CHECK(asked(tidegate, {"inspect", "127.0.0.1"}).code == 0);
    const Finished finished = asked(tidegate, {"reset", "127.0.0.1"});
    CHECK_MESSAGE(finished.code == 0, finished.errors);
    upstream.open();
    last.join();
}

TEST_CASE("inspect: a secret is found by its value, which no answer repeats") {
    const CountedIn counted_in = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted_in.yaml() +
                            one_policy(upstream, "{key: [\"header:x-api-key\"], limits: [5/h]}"));
    CHECK(tidegate.get("/", "X-Api-Key: s3cret\r\n").status() == 200);
    CHECK(counted(tidegate, "header:X-Api-Key=s3cret") == 1);
    const Finished finished = asked(tidegate, {"reset", "header:x-api-key=s3cret"});
    CHECK(finished.code == 0);
    CHECK(finished.output.find("s3cret") == std::string::npos);
    await_logged(tidegate, "admin: reset header:x-api-key=#");
    CHECK(tidegate.errors().find("s3cret") == std::string::npos);
}

TEST_CASE("inspect: counts of a limit that was taken out of the configuration are shown") {
    const CountedIn counted_in = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted_in.yaml() +
                            one_policy(upstream, "{key: [ip], limits: [5/h, 7/day]}"));
    CHECK(tidegate.get().status() == 200);
    tidegate.write_configuration(counted_in.yaml() +
                                 one_policy(upstream, "{key: [ip], limits: [5/h]}"));
    // In Redis only when the number of proxies that share it is known.
    await("the reload", [&] { return tidegate.reload().status() == 200; });
    const Json json = inspected(tidegate, "127.0.0.1");
    const Json& policy = json.at("identifiers").at(0).at("policies").at(0);
    CHECK(policy.at("limits").size() == 1);
    CHECK(policy.at("unknown").size() == 1);
    says(asked(tidegate, {"inspect", "127.0.0.1"}).output, "of a limit that was removed");
}

TEST_CASE("inspect: a Redis that does not answer is reported in time, and nothing is forgotten") {
    const CountedIn counted_in = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted_in.yaml() + "replicas: 1\n" +
                            one_policy(upstream, "{key: [ip], limits: [5/h]}"));
    CHECK(tidegate.get().status() == 200);
    counted_in.redis->pause();
    // All at once: each waits for as long as Redis may take.
    std::vector<std::future<Finished>> commands;
    for (const char* command : {"inspect", "reset"}) {
        commands.push_back(std::async(std::launch::async, [&tidegate, command] {
            return asked(tidegate, {command, "127.0.0.1"});
        }));
    }
    CHECK(admin_answer(tidegate, "GET", "/api/inspect?identifier=127.0.0.1").status() == 503);
    for (auto& command : commands) {
        const Finished finished = command.get();
        CHECK(finished.code == 3);
        says(finished.errors, "Redis");
    }
    counted_in.redis->resume();
    await("Redis is back", [&] { return asked(tidegate, {"inspect", "127.0.0.1"}).code <= 1; });
}

TEST_CASE("inspect: an identifier in a cluster is looked up at its own node") {
    ClusterWorld world({.masters = 3, .replicas = false});
    const Upstream upstream(ok());
    const Tidegate tidegate("store: {redis: {cluster: " + world.urls() +
                            ", timeout: 5s}}\nreplicas: 1\n" + kUsersFromHere +
                            one_policy(upstream, "{key: [user], limits: [5/h]}"));
    for (int i = 0; i < 12; ++i) {
        const std::string user = "u" + std::to_string(i);
        CHECK(tidegate.get("/", as_user(user)).status() == 200);
        CHECK(counted(tidegate, "user:" + user) == 1);
        CHECK(asked(tidegate, {"reset", "user:" + user}).code == 0);
        CHECK(counted(tidegate, "user:" + user) == 0);
    }
}

TEST_CASE("inspect: the command line reports a fault of the question, or that nothing answers") {
    const Upstream upstream(ok());
    const Tidegate tidegate(one_policy(upstream, kPolicy));
    for (const std::string text : {"alice", "", "user:", "ip:nowhere"}) {
        const Finished finished = asked(tidegate, {"inspect", text});
        CAPTURE(text);
        CHECK(finished.code == 2);
        CHECK_FALSE(finished.errors.empty());
    }
    CHECK(run_tidegate({"inspect"}).code == 2);
    CHECK(run_tidegate({"inspect", "user:a", "--admin", "nowhere"}).code == 2);
    CHECK(run_tidegate({"inspect", "user:a", "-c", "/nonexistent.yaml"}).code == 2);
    const Finished nobody =
        run_tidegate({"inspect", "user:a", "--admin", "127.0.0.1:" + std::to_string(free_port())});
    CHECK(nobody.code == 3);
    says(nobody.errors, "cannot reach");
    // A Unix socket, the token from a file, and both from the configuration.
    const TemporaryFolder folder;
    CHECK(run_tidegate({"inspect", "user:a", "--admin", "unix:" + (folder.path() / "none").string(),
                        "--token-file", folder.write("token", "secret\n")})
              .code == 3);
    const std::string file =
        folder.write("tidegate.yaml", "admin: 127.0.0.1:" + std::to_string(tidegate.admin_port()) +
                                          "\n" + one_policy(upstream, kPolicy));
    CHECK(run_tidegate({"inspect", "user:a", "-c", file}).code == 1);
}

TEST_CASE(
    "inspect: the command takes the token from the configuration, and says where it belongs") {
    const Upstream upstream(ok());
    const Tidegate tidegate(one_policy(upstream, kPolicy), "s3cret");
    CHECK(run_tidegate({"inspect", "user:a", "-c", tidegate.file()}).code == 1);
    CHECK(run_tidegate({"reset", "user:a", "-c", tidegate.file()}).code == 1);

    Finished finished = asked(tidegate, {"inspect", "user:a"});
    CHECK(finished.code == 3);
    says(finished.errors, "wants a token");
    says(finished.errors, "--token-file");
    const TemporaryFolder folder;
    finished = asked(tidegate, {"reset", "user:a", "--token-file", folder.write("token", "old\n")});
    CHECK(finished.code == 3);
    says(finished.errors, "holds another token");
    CHECK(asked(tidegate, {"reset", "user:a", "--token-file", folder.write("token", "s3cret\n")})
              .code == 1);
    for (const bool has_token : {false, true}) {
        const std::string file = folder.write(
            "other.yaml", "admin: {address: 127.0.0.1:" + std::to_string(tidegate.admin_port()) +
                              (has_token ? ", token: other}\n" : "}\n") +
                              one_policy(upstream, kPolicy));
        finished = run_tidegate({"inspect", "user:a", "-c", file});
        CHECK(finished.code == 3);
        says(finished.errors, "`admin.token`");
        says(finished.errors, has_token ? "reload the proxy" : "has no");
        CHECK(finished.errors.find("s3cret") == std::string::npos);
    }
}

TEST_CASE(
    "inspect: the API changes nothing for a page of another origin, and takes no odd question") {
    const Upstream upstream(ok());
    const Tidegate tidegate(one_policy(upstream, "{key: [ip], limits: [5/h]}"));
    CHECK(tidegate.get().status() == 200);
    const std::string reset = "/api/reset?identifier=127.0.0.1";
    CHECK(admin_answer(tidegate, "GET", reset).status() == 405);
    for (const std::string origin : {"http://localhost:3000", "http://a.example", "null"}) {
        CHECK(admin_answer(tidegate, "POST", reset, "Origin: " + origin + "\r\n").status() == 403);
    }
    CHECK(counted(tidegate, "127.0.0.1") == 1);
    const std::string inspect = "/api/inspect";
    CHECK(admin_answer(tidegate, "POST", inspect + "?identifier=user:a").status() == 405);
    for (const std::string query :
         {"", "?", "?identifier=", "?identifier=user:a&identifier=user:b", "?identifier=user:%",
          "?identifier=user:%00", "?identifier=nobody", "?identifier[]=user:a"}) {
        CAPTURE(query);
        CHECK(admin_answer(tidegate, "GET", inspect + query).status() == 400);
    }
    // Decoded once, and never part of a line that it could end.
    const auto answer = admin_answer(tidegate, "GET", inspect + "?identifier=user:%2541%0a%1b");
    CHECK(answer.status() == 200);
    CHECK(Json::parse(answer.body).at("identifiers").at(0).at("identifier") == "user:%2541%0A%1B");
    CHECK(admin_answer(tidegate, "POST", "/api/reset?identifier=user:a%0ab").status() == 200);
    await_logged(tidegate, "admin: reset user:a%0Ab");
}

}  // namespace tidegate::test::inspect_test

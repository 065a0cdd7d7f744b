// `candidate` and `enforce` of policies: what a change of limits would do is seen before it is
// live.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::candidates_test {

using nlohmann::json;

namespace {

std::string routed(const Upstream& upstream, const std::string& policies,
                   const std::string& route = "[p]") {
    return api(upstream, "policies:\n" + policies +
                             "routes: [{name: all, upstream: api, policies: " + route + "}]\n");
}

double candidates(const Tidegate& tidegate, const std::string& live, const std::string& candidate,
                  const std::string& policy = "p") {
    return tidegate.metric("tidegate_candidate_total{policy=\"" + policy + "\",live=\"" + live +
                           "\",candidate=\"" + candidate + "\"}");
}

Finished asked(const Tidegate& tidegate, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--admin", "127.0.0.1:" + std::to_string(tidegate.admin_port())});
    return run_tidegate(arguments);
}

json answer_of(const Tidegate& tidegate, std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const Finished finished = asked(tidegate, std::move(arguments));
    CAPTURE(finished.errors);
    REQUIRE(finished.code <= 1);
    return json::parse(finished.output);
}

json live_of(const Tidegate& tidegate) {
    RawClient client(tidegate.admin_port());
    client.send("GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return json::parse(client.response().body);
}

int admitted_of(int requests, const Tidegate& tidegate, const std::string& from = "") {
    int admitted = 0;
    for (int i = 0; i < requests; ++i) {
        admitted += tidegate.get("/", "", from.empty() ? "127.0.0.1" : from).status() == 200;
    }
    return admitted;
}

}  // namespace

TEST_CASE("candidate: metrics and log say who would change sides, and clients see nothing of it") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        routed(upstream,
               "  p: {key: [\"query:k\"], limits: [4/h], candidate: {limits: [2/h]}}\n"
               "  q: {key: [\"query:k\"], limits: [3/h], candidate: {limits: [6/h]}}\n",
               "[p, q]"));
    for (int i = 0; i < 8; ++i) {
        const auto answer = tidegate.get("/" + std::to_string(i) + "?k=a");
        CHECK(answer.status() == (i < 3 ? 200 : 429));
        CHECK(answer.body.find("candidate") == std::string::npos);
        CHECK(answer.field("RateLimit").find("candidate") == std::string::npos);
        CHECK(answer.field("RateLimit-Policy").find("candidate") == std::string::npos);
    }
    // Stricter: it would have refused the third request, and those that q refuses as well.
    CHECK_SOON(candidates(tidegate, "admitted", "admitted") == 2);
    CHECK_SOON(candidates(tidegate, "admitted", "denied") == 1);
    CHECK_SOON(candidates(tidegate, "denied", "denied") == 5);
    CHECK_SOON(candidates(tidegate, "denied", "admitted") == 0);
    // Laxer: with 6 in place of 3, requests go on until p refuses them, which counts what is
    // admitted in truth.
    CHECK_SOON(candidates(tidegate, "admitted", "admitted", "q") == 3);
    CHECK_SOON(candidates(tidegate, "denied", "admitted", "q") == 3);
    CHECK_SOON(candidates(tidegate, "denied", "denied", "q") == 2);
    CHECK(logged(tidegate, "/1").contains("candidate_limited_by") == false);
    const auto third = logged(tidegate, "/2");
    CHECK(third.at("candidate_limited_by") == "p@candidate-1h");
    CHECK(third.at("limited_identifier") == "query:k=a");
    CHECK(third.at("quota") == 2);
    CHECK(third.at("verdict") == "admitted");
    CHECK(third.at("shadow_limited_by") == "");
    CHECK(logged(tidegate, "/3").at("limited_by") == "q-1h");
}

TEST_CASE("candidate: `denials --candidate`, `inspect` and the dashboard know it") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        routed(upstream, "  p: {key: [ip], limits: [9/h], candidate: {limits: [1/h]}}\n"));
    CHECK(admitted_of(3, tidegate) == 3);
    const json denials = answer_of(tidegate, {"denials", "--candidate"});
    CHECK(denials.at("candidate") == true);
    REQUIRE(denials.at("denials").size() == 2);
    CHECK(denials.at("denials").at(0).at("policy") == "p@candidate");
    CHECK(denials.at("denials").at(0).at("identifier") == "ip:127.0.0.1");
    CHECK(answer_of(tidegate, {"denials", "--candidate", "--policy", "p"}).at("denials").size() ==
          2);
    CHECK(answer_of(tidegate, {"denials", "--shadow"}).at("denials").empty());
    CHECK(answer_of(tidegate, {"denials"}).at("denials").empty());
    CHECK(asked(tidegate, {"denials", "--shadow", "--candidate"}).code != 0);
    const json counts = answer_of(tidegate, {"inspect", "ip:127.0.0.1"});
    const json& policies = counts.at("identifiers").at(0).at("policies");
    REQUIRE(policies.size() == 2);
    CHECK(policies.at(0).at("limits").at(0).at("counted") == 3);
    CHECK(policies.at(1).at("policy") == "p@candidate");
    CHECK(policies.at(1).at("mode") == "candidate");
    CHECK(policies.at(1).at("limits").at(0).at("counted") == 1);
    CHECK_SOON(live_of(tidegate).at("policies").size() == 2);
    const json columns = live_of(tidegate).at("policies");
    REQUIRE(columns.size() == 2);
    CHECK(columns.at(1).at("mode") == "candidate");
    CHECK_SOON(live_of(tidegate).at("totals").at("candidates") == json::parse("[[0,0],[2,0]]"));
}

TEST_CASE("candidate: a remembered denial of its policy does not starve it") {
    const CountedIn counted = counted_in_redis();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        routed(upstream, "  p: {key: [ip], limits: [1/h], candidate: {limits: [5/h]}}\n"));
    CHECK(admitted_of(8, tidegate) == 1);
    CHECK_SOON(candidates(tidegate, "denied", "admitted") == 4);
    CHECK_SOON(candidates(tidegate, "denied", "denied") == 3);
}

TEST_CASE("candidate: promoted, it decides what it said, and begins with counts of its own") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const std::string before =
        counted.yaml() +
        routed(upstream, "  p: {key: [ip], limits: [3/h], candidate: {limits: [5/h]}}\n");
    const Tidegate tidegate(before);
    CHECK(admitted_of(9, tidegate) == 3);
    CHECK_SOON(candidates(tidegate, "denied", "admitted") == 2);
    const double said =
        candidates(tidegate, "admitted", "admitted") + candidates(tidegate, "denied", "admitted");
    tidegate.write_configuration(counted.yaml() +
                                 routed(upstream, "  p: {key: [ip], limits: [5/h]}\n"));
    const auto reloaded = tidegate.reload();
    REQUIRE_MESSAGE(reloaded.status() == 200, reloaded.body);
    // The policy keeps what its own limits counted.
    CHECK(admitted_of(9, tidegate) == 2);
    // Another client meets the new limits as the candidate said.
    CHECK(admitted_of(9, tidegate, "127.0.0.2") == said);
}

TEST_CASE("candidate: of a cost that is known afterwards, it settles what it took") {
    const CountedIn counted = either_store();
    // The path says what the request costs.
    const Upstream upstream(Upstream::answering([](const Message& request) {
        return ok("", "X-Cost: " + request.target().substr(1) + "\r\n");
    }));
    const Tidegate tidegate(
        "threads: 1\n" + counted.yaml() +
        routed(upstream,
               "  p: {key: [ip, \"constant:all\"], limits: [100/h], cost: {reserve: 20, settle: "
               "{header: x-cost}}, candidate: {limits: [50/h]}}\n"));
    const auto counts = [&](std::size_t policy) {
        const json all = answer_of(tidegate, {"inspect", "ip:127.0.0.1"});
        return all.at("identifiers")
            .at(0)
            .at("policies")
            .at(policy)
            .at("limits")
            .at(0)
            .at("counted");
    };
    CHECK(tidegate.get("/5").status() == 200);
    CHECK_SOON(counts(0) == 5);
    CHECK_SOON(counts(1) == 5);
    CHECK(tidegate.get("/45").status() == 200);
    CHECK_SOON(counts(0) == 50);
    CHECK_SOON(counts(1) == 50);
    // The candidate has no room for these, and they cost it nothing.
    for (int i = 0; i < 2; ++i) CHECK(tidegate.get("/22").status() == 200);
    CHECK_SOON(counts(0) == 94);
    CHECK(counts(1) == 50);
    CHECK(tidegate.get("/1").status() == 429);
    CHECK_SOON(candidates(tidegate, "admitted", "denied") == 2);
    CHECK_SOON(candidates(tidegate, "denied", "denied") == 1);
    // What was spent in truth, once for both identifiers.
    CHECK_SOON(tidegate.metric("tidegate_usage_cost_total{policy=\"p\"}") == 94);
    CHECK(tidegate.metric("tidegate_usage_cost_total{policy=\"p@candidate\"}") == 0);
}

TEST_CASE("enforce: a cost counts once for identifiers on both sides of the share") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok("", "X-Cost: 7\r\n"));
    const Tidegate tidegate(
        counted.yaml() +
        routed(upstream,
               "  p: {key: [\"query:a\", \"query:b\", \"query:c\", \"query:d\"], limits: [900/h], "
               "cost: {reserve: 20, settle: {header: x-cost}}, enforce: 50%}\n"));
    CHECK(tidegate.get("/?a=1&b=2&c=3&d=4").status() == 200);
    CHECK_SOON(tidegate.metric_sum("tidegate_usage_cost_total") == 7);
    CHECK_SOON(decisions(tidegate, "admitted") > 0);
    CHECK_SOON(decisions(tidegate, "shadow_admitted") > 0);
}

TEST_CASE("candidate: `explain` says what it counts, and whom `enforce` leaves in shadow") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string file = folder.write(
        "t.yaml", routed(upstream,
                         "  p: {key: [ip, route], limits: [9/h], enforce: 20%, candidate: {limits: "
                         "[1/h]}}\n"));
    const auto told =
        run_tidegate({"explain", "-c", file, "--json", "--from", "203.0.113.5", "--path", "/"});
    REQUIRE_MESSAGE(told.code == 0, told.errors);
    const json policies = json::parse(told.output).at("policies");
    REQUIRE(policies.size() == 2);
    // .776 of all identifiers are below it.
    CHECK(policies.at(0).at("unenforced").at(0) == "ip:203.0.113.5");
    CHECK(policies.at(1).at("name") == "p@candidate");
    CHECK(policies.at(1).at("mode") == "candidate");
    CHECK(policies.at(1).at("candidate_of") == "p");
    CHECK(policies.at(1).at("limits").at(0).at("name") == "p@candidate-1h");
    const auto text = run_tidegate({"explain", "-c", file, "--from", "203.0.113.5", "--path", "/"});
    CHECK_MESSAGE(text.output.find("candidate: refuses no request") != std::string::npos,
                  text.output);
}

TEST_CASE("enforce: it refuses its share of the identifiers, and counts the others in shadow") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const auto yaml = [&](const std::string& share) {
        return counted.yaml() + kUsersFromHere +
               routed(upstream, "  p: {key: [user], limits: [2/h], enforce: " + share + "}\n");
    };
    const Tidegate tidegate(yaml("40%"));
    const auto refused = [&] {
        std::vector<std::string> users;
        for (int user = 0; user < 20; ++user) {
            const std::string name = "u" + std::to_string(user);
            bool is_refused = false;
            for (int i = 0; i < 3; ++i) {
                is_refused =
                    tidegate.get("/" + name, "X-User-Id: " + name + "\r\n").status() == 429;
            }
            if (is_refused) users.push_back(name);
        }
        return users;
    };
    const auto some = refused();
    // Of 20 users a share of 40%, as SHA-256 has it.
    CHECK(some.size() == 6);
    CHECK_SOON(decisions(tidegate, "denied") == static_cast<double>(some.size()));
    CHECK_SOON(decisions(tidegate, "shadow_denied") == static_cast<double>(20 - some.size()));
    CHECK(refused() == some);
    tidegate.write_configuration(yaml("80%"));
    const auto reloaded = tidegate.reload();
    REQUIRE_MESSAGE(reloaded.status() == 200, reloaded.body);
    const auto more = refused();
    CHECK(more.size() == 17);
    for (const std::string& user : some) {
        CHECK(std::find(more.begin(), more.end(), user) != more.end());
    }
}

}  // namespace tidegate::test::candidates_test

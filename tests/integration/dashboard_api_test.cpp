// What the admin listener shows of the running proxy, second by second: its clients, and why it
// refused them; and the commands that print it.
#include <csignal>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/process.hpp"

namespace tidegate::test::dashboard_api_test {

using Json = nlohmann::json;

namespace {

const std::string kThreeAnHour = "{key: [user, ip], limits: [{name: hourly, quota: 3, per: 1h}]}";
// Each user for herself.
const std::string kThreeOfUser = "{key: [user], limits: [{name: hourly, quota: 3, per: 1h}]}";

std::string as_user(const std::string& name) {
    return "X-User-Id: " + name + "\r\n";
}

Message answer_of(const Tidegate& tidegate, const std::string& target,
                  const std::string& method = "GET", const std::string& fields = "") {
    RawClient client(tidegate.admin_port());
    client.send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
    return client.response();
}

Json json_of(const Tidegate& tidegate, const std::string& target) {
    const Message answer = answer_of(tidegate, target);
    REQUIRE(answer.status() == 200);
    CHECK(answer.field("Cache-Control") == "no-store");
    CHECK(answer.field("Content-Type") == "application/json");
    return Json::parse(answer.body);
}

// /api/live once its totals are of `requests` requests.
Json live_of(const Tidegate& tidegate, int requests) {
    Json live;
    await("a sample has them all", [&] {
        live = json_of(tidegate, "/api/live");
        return live.at("totals").at("requests") == requests;
    });
    return live;
}

double sum_over_samples(const Json& live, const std::string& name) {
    double sum = 0;
    for (const Json& sample : live.at("samples")) sum += sample.at(name).get<double>();
    return sum;
}

std::uint64_t count_of(const Json& top, const std::string& identifier) {
    for (const Json& one : top.at("identifiers")) {
        if (one.at("identifier") == identifier) return one.at("count");
    }
    return 0;
}

std::vector<std::string> asking(const Tidegate& tidegate, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--admin", "127.0.0.1:" + std::to_string(tidegate.admin_port())});
    return arguments;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("dashboard: the figures of /api/live are those of /metrics") {
    const Upstream upstream(ok());
    const Tidegate tidegate(kUsersFromHere + one_policy(upstream, kThreeOfUser));
    for (int i = 0; i < 8; ++i) tidegate.get("/", as_user("alice"));
    for (int i = 0; i < 2; ++i) tidegate.get("/", as_user("bob"));
    const Json live = live_of(tidegate, 10);
    const Json& totals = live.at("totals");
    CHECK(totals.at("denials") == 5);
    CHECK(totals.at("answers").at("2xx") == 5);
    CHECK(totals.at("answers").at("4xx") == 5);
    CHECK(tidegate.metric_sum("tidegate_requests_total") == 10);
    CHECK(tidegate.metric_sum("tidegate_requests_total", "outcome=\"limited\"") == 5);
    CHECK(sum_over_samples(live, "requests") == 10);
    CHECK(sum_over_samples(live, "denials") == 5);

    CHECK(live.at("routes").at(1).at("route") == "all");
    CHECK(totals.at("routes") == Json::parse("[[0,0],[10,5]]"));
    CHECK(live.at("policies").at(0).at("policy") == "p");
    CHECK(totals.at("policies").at(0).at(0) == decisions(tidegate, "admitted"));
    CHECK(totals.at("policies").at(0).at(1) == decisions(tidegate, "denied"));

    double timed = 0;
    for (const Json& sample : live.at("samples")) {
        const Json& times = sample.at("request_seconds");
        timed += times.at("count").get<double>();
        CHECK(times.at("p50").is_null() == (times.at("count") == 0));
        if (times.at("count") != 0) CHECK(times.at("p99") >= times.at("p50"));
    }
    CHECK(timed == tidegate.metric_sum("tidegate_request_seconds_count"));
    const Json& last = live.at("samples").back();
    CHECK(last.at("store") == "up");
    CHECK(last.at("generation") == tidegate.metric("tidegate_config_generation"));
    CHECK(last.at("upstreams") == Json::parse("[[1,1]]"));
    CHECK(live.at("upstreams").at(0).at("upstream") == "api");

    const std::string since = last.at("time_ms").dump();
    for (const Json& sample : json_of(tidegate, "/api/live?since=" + since).at("samples")) {
        CHECK(sample.at("time_ms") > last.at("time_ms"));
    }
    CHECK(answer_of(tidegate, "/api/live?since=yesterday").status() == 400);
}

TEST_CASE("dashboard: the heavy hitter stands out among many, by requests and by denials") {
    const Upstream upstream(ok());
    const Tidegate tidegate("telemetry: {top: 64}\n" + kUsersFromHere +
                            one_policy(upstream, kThreeOfUser));
    // More users than there are counters.
    for (int i = 0; i < 200; ++i) {
        tidegate.get("/", as_user("user-" + std::to_string(i)));
        if (i % 2 == 0) tidegate.get("/", as_user("heavy"));
    }
    const Json requests = json_of(tidegate, "/api/top?by=requests");
    CHECK(requests.at("enabled") == true);
    CHECK(requests.at("names") == 64);
    CHECK(requests.at("total") == 300);
    const Json& first = requests.at("identifiers").at(0);
    CHECK(first.at("identifier") == "user:heavy");
    CHECK(first.at("count") <= 100);
    CHECK(first.at("count").get<int>() + first.at("error").get<int>() >= 100);
    CHECK(requests.at("error_max") <= 300 / 64);

    const Json denials = json_of(tidegate, "/api/top?by=denials");
    CHECK(denials.at("total") == 97);
    CHECK(denials.at("identifiers").size() == 1);
    CHECK(count_of(denials, "user:heavy") == 97);

    const Finished shown = run_tidegate(asking(tidegate, {"top", "--by", "denials"}));
    CHECK(shown.code == 0);
    CHECK_MESSAGE(has(shown.output, "user:heavy"), shown.output);
    CHECK(run_tidegate(asking(tidegate, {"top", "--by", "limits"})).code == 2);
    const Message wrong = answer_of(tidegate, "/api/top?by=limits");
    CHECK(wrong.status() == 400);
    CHECK_MESSAGE(has(wrong.body, "by=requests"), wrong.body);
}

TEST_CASE("dashboard: a denial says whose it is, by which limit, and when to come back") {
    const Upstream upstream(ok());
    const Tidegate tidegate(kUsersFromHere + one_policy(upstream, kThreeAnHour));
    const auto command = asking(tidegate, {"denials"});
    CHECK(run_tidegate(command).code == 1);
    for (int i = 0; i < 3; ++i) tidegate.get("/", as_user("alice"));
    const Message refused = tidegate.get("/", as_user("alice"));
    REQUIRE(refused.status() == 429);
    const Json json = json_of(tidegate, "/api/denials");
    REQUIRE(json.at("denials").size() == 1);
    const Json& denial = json.at("denials").at(0);
    CHECK(denial.at("request_id") == refused.field("X-Request-Id"));
    CHECK(denial.at("identifier") == "user:alice");
    CHECK(denial.at("route") == "all");
    CHECK(denial.at("policy") == "p");
    CHECK(denial.at("limit") == "p-hourly");
    CHECK(denial.at("count") == 3);
    CHECK(denial.at("quota") == 3);
    CHECK(denial.at("cost") == 1);
    CHECK(std::to_string(denial.at("retry_after_seconds").get<int>()) ==
          refused.field("Retry-After"));
    const Finished shown = run_tidegate(command);
    CHECK(shown.code == 0);
    CHECK_MESSAGE(has(shown.output, "p-hourly"), shown.output);
    CHECK_MESSAGE(has(shown.output, "3 of 3"), shown.output);
}

TEST_CASE("dashboard: denials are found by identifier, policy and time") {
    const Upstream upstream(ok());
    const Tidegate tidegate(kUsersFromHere +
                            api(upstream,
                                "policies:\n"
                                "  people: {key: [user], limits: [1/h]}\n"
                                "  addresses: {key: [\"query:k\"], limits: [1/h]}\n"
                                "routes:\n"
                                "  - {name: people, match: {path: /people}, policies: [people]}\n"
                                "  - {name: addresses, policies: [addresses]}\n"));
    for (int i = 0; i < 2; ++i) {
        tidegate.get("/people", as_user("alice"));
        tidegate.get("/people", as_user("bob"));
        tidegate.get("/other?k=a");
    }
    const auto listed = [&](const std::string& query) {
        return json_of(tidegate, "/api/denials?" + query).at("denials");
    };
    CHECK(listed("").size() == 3);
    CHECK(listed("since=1h").size() == 3);
    REQUIRE(listed("identifier=user:alice").size() == 1);
    CHECK(listed("identifier=user:alice").at(0).at("identifier") == "user:alice");
    CHECK(listed("policy=people").size() == 2);
    CHECK(listed("policy=addresses&identifier=user:alice").empty());
    CHECK(listed("identifier=query:k%3Da&policy=addresses&since=10m").size() == 1);
    CHECK(listed("identifier=127.0.0.1").empty());

    const auto run = [&](std::vector<std::string> options) {
        options.insert(options.begin(), "denials");
        return run_tidegate(asking(tidegate, std::move(options)));
    };
    const Finished one = run({"--identifier", "user:bob", "--policy", "people", "--since", "10m"});
    CHECK(one.code == 0);
    CHECK_MESSAGE(has(one.output, "user:bob"), one.output);
    CHECK_FALSE(has(one.output, "user:alice"));
    const Finished none = run({"--identifier", "user:carol"});
    CHECK(none.code == 1);
    CHECK(none.output == "no limit has refused a request that the options describe\n");

    const std::pair<std::vector<std::string>, std::string> mistakes[] = {
        {{"--policy", "poeple"}, "has no policy"},
        {{"--policy", ""}, "it is empty; write the name of a policy"},
        {{"--since", "10"}, "has no unit"},
        {{"--since", "0s"}, "from 1s to 31d"},
        {{"--since", "32d"}, "from 1s to 31d"},
        {{"--since", "yesterday"}, "is not a duration"},
        {{"--identifier", "alice"}, "is not an identifier"},
    };
    for (const auto& [options, message] : mistakes) {
        const Finished wrong = run(options);
        CAPTURE(options.back());
        CHECK(wrong.code == 2);
        CHECK_MESSAGE(has(wrong.errors, message), wrong.errors);
    }
    CHECK(answer_of(tidegate, "/api/denials?shadow=perhaps").status() == 400);
    CHECK(answer_of(tidegate, "/api/denials?since=1h&since=2h").status() == 400);
}

TEST_CASE("dashboard: denials of policies in shadow are lists of their own") {
    const Upstream upstream(ok());
    const Tidegate tidegate(kUsersFromHere +
                            api(upstream,
                                "policies:\n"
                                "  real: {key: [user], limits: [4/h]}\n"
                                "  trial: {key: [user], limits: [1/h], mode: shadow}\n"
                                "routes: [{name: all, policies: [real, trial]}]\n"));
    const auto command = asking(tidegate, {"denials", "--shadow"});
    const Finished before = run_tidegate(command);
    CHECK(before.code == 1);
    CHECK(before.output == "no policy in shadow would have refused a request\n");
    for (int i = 0; i < 6; ++i) tidegate.get("/", as_user("alice"));
    tidegate.get("/", as_user("bob"));

    const Json shadow = json_of(tidegate, "/api/denials?shadow=on");
    CHECK(shadow.at("shadow") == true);
    // Of six requests one was within the trial, and two were refused for good.
    REQUIRE(shadow.at("denials").size() == 3);
    const Json& denial = shadow.at("denials").at(0);
    CHECK(denial.at("identifier") == "user:alice");
    CHECK(denial.at("policy") == "trial");
    CHECK(denial.at("limit") == "trial-1h");
    CHECK(denial.at("count") == 1);
    CHECK(denial.at("quota") == 1);
    CHECK(denial.at("retry_after_seconds").is_null());
    const Json enforced = json_of(tidegate, "/api/denials");
    CHECK(enforced.at("shadow") == false);
    REQUIRE(enforced.at("denials").size() == 2);
    CHECK(enforced.at("denials").at(0).at("policy") == "real");

    CHECK(json_of(tidegate, "/api/top?by=denials").at("total") == 2);
    const Json top = json_of(tidegate, "/api/top?by=shadow");
    CHECK(top.at("by") == "shadow");
    CHECK(top.at("total") == 3);
    CHECK(count_of(top, "user:alice") == 3);
    CHECK(count_of(top, "user:bob") == 0);

    const Finished shown = run_tidegate(command);
    CHECK(shown.code == 0);
    CHECK_MESSAGE(has(shown.output, "trial-1h"), shown.output);
    CHECK_FALSE(has(shown.output, "real-1h"));
    const Finished names = run_tidegate(asking(tidegate, {"top", "--by", "shadow"}));
    CHECK(names.code == 0);
    CHECK_MESSAGE(has(names.output, "shadow of the last"), names.output);
    CHECK_MESSAGE(has(names.output, "user:alice"), names.output);
    CHECK(run_tidegate(asking(tidegate, {"denials", "--shadow", "--policy", "real"})).code == 1);
}

TEST_CASE("dashboard: names of clients stay data, and do not command the terminal") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        one_policy(upstream, "{key: [\"query:name\"], limits: [{quota: 1, per: 1h}]}"));
    const std::string path = "/?name=%22%3C/script%3E%1b%5b2J%e2%80%ae";
    tidegate.get(path);
    tidegate.get(path);
    for (const std::string target : {"/api/top", "/api/top?by=denials", "/api/denials"}) {
        for (const char c : answer_of(tidegate, target).body) {
            CHECK((c == '\n' || (c >= ' ' && c <= '~')));
        }
    }
    const Json denials = json_of(tidegate, "/api/denials");
    REQUIRE(denials.at("denials").size() == 1);
    const std::string identifier = denials.at("denials").at(0).at("identifier");
    CHECK(identifier.starts_with("query:name="));
    CHECK(count_of(json_of(tidegate, "/api/top"), identifier) == 2);
    for (const std::string command : {"top", "denials"}) {
        const Finished shown = run_tidegate(asking(tidegate, {command}));
        CHECK(shown.code == 0);
        for (const char c : shown.output) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    }
}

TEST_CASE("dashboard: the figures require the token, and nothing is kept when `top` is off") {
    const Upstream upstream(ok());
    const Tidegate tidegate("telemetry: {top: off}\n" + one_policy(upstream, kThreeAnHour),
                            "secret");
    for (int i = 0; i < 4; ++i) tidegate.get("/");
    for (const std::string target : {"/api/live", "/api/top", "/api/denials"}) {
        CHECK(answer_of(tidegate, target).status() == 401);
        CHECK(answer_of(tidegate, target, "GET", "Authorization: Bearer wrong\r\n").status() ==
              401);
        const std::string token = "Authorization: Bearer secret\r\n";
        CHECK(answer_of(tidegate, target, "POST", token).status() == 405);
        const Message answer = answer_of(tidegate, target, "GET", token);
        REQUIRE(answer.status() == 200);
        CHECK(answer.field("Cache-Control") == "no-store");
        const Json json = Json::parse(answer.body);
        if (target != "/api/live") CHECK(json.at("enabled") == false);
        if (target == "/api/denials") CHECK(json.at("denials").empty());
    }
}

TEST_CASE("dashboard: a reload turns the names on and off") {
    const Upstream upstream(ok());
    const std::string yaml = one_policy(upstream, kThreeAnHour);
    const Tidegate tidegate(yaml);
    tidegate.get("/");
    CHECK(json_of(tidegate, "/api/top").at("total") == 1);
    tidegate.write_configuration("telemetry: {top: off}\n" + yaml);
    REQUIRE(tidegate.reload().status() == 200);
    CHECK(json_of(tidegate, "/api/top").at("enabled") == false);
    tidegate.write_configuration(yaml);
    REQUIRE(tidegate.reload().status() == 200);
    CHECK(json_of(tidegate, "/api/top").at("total") == 0);
    tidegate.get("/");
    CHECK(json_of(tidegate, "/api/top").at("total") == 1);
}

TEST_CASE(
    "dashboard: denials --follow shows new ones until an interrupt, also of a proxy that "
    "restarts") {
    const Upstream upstream(ok());
    Tidegate tidegate(kUsersFromHere + one_policy(upstream, kThreeOfUser));
    const TemporaryFolder folder;
    std::vector<std::string> command = asking(tidegate, {"denials", "--follow"});
    command.insert(command.begin(), program());
    Process interrupted(command, folder.path());
    await("it has begun", [&] { return has(interrupted.output(), "IDENTIFIER"); });
    for (int i = 0; i < 4; ++i) tidegate.get("/", as_user("alice"));
    await("the denial is shown", [&] { return has(interrupted.output(), "user:alice"); });
    interrupted.signal(SIGINT);
    CHECK(interrupted.wait(kPatience) == 0);
    const std::string shown = interrupted.output();
    CHECK(shown.find("user:alice") == shown.rfind("user:alice"));

    const TemporaryFolder other;
    Process left(command, other.path());
    await("it has begun", [&] { return has(left.output(), "user:alice"); });
    CHECK(tidegate.stop() == 0);
    await("it says that nothing answers", [&] { return has(left.errors(), "trying again"); });
    const TemporaryFolder third;
    Process again({program(), "run", tidegate.file()}, third.path());
    await("it says that the proxy is back", [&] { return has(left.errors(), "answers again"); });
    for (int i = 0; i < 4; ++i) tidegate.get("/", as_user("bob"));
    await("the denial of the new proxy is shown", [&] { return has(left.output(), "user:bob"); });
    left.signal(SIGINT);
    CHECK(left.wait(kPatience) == 0);
    const std::string errors = left.errors();
    CHECK_MESSAGE(errors.find("trying again") == errors.rfind("trying again"), errors);
    again.signal(SIGTERM);
    CHECK(again.wait(kPatience) == 0);
    // A proxy that never answered ends it.
    const TemporaryFolder fourth;
    Process never(command, fourth.path());
    CHECK(never.wait(kPatience) == 3);
    CHECK_MESSAGE(has(never.errors(), "cannot reach the admin listener"), never.errors());
}

}  // namespace tidegate::test::dashboard_api_test

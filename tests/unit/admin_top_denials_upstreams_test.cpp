#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "admin/top_denials_upstreams.hpp"

namespace tidegate::admin::top_denials_upstreams_test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;
using Fine = telemetry::FineHistogram<telemetry::kRequestBounds>;
using Kind = ActivityRequest::Kind;
using WallTime = std::chrono::system_clock::time_point;

const std::string kHostile = "user:\x1b[2J\"</script>\n\xff\u202e";

struct SomeSeries {
    SomeSeries() : series(Fine::kCutBounds, Fine::kCutBounds, {}) {
        for (int second = 1; second <= 3; ++second) {
            telemetry::LiveTotals totals;
            const auto n = static_cast<std::uint64_t>(10 * second);
            totals.outcomes[static_cast<std::size_t>(telemetry::Outcome::limited)] = n;
            totals.answers[3] = n;
            totals.add_route("-", {});
            totals.add_route(kHostile, {n, n});
            telemetry::LivePolicies policies;
            policies.add({"p", true});
            totals.add_policies(policies);
            totals.policies[0] = {n, 1};
            totals.request_cuts.assign(Fine::kCutBuckets, 0);
            totals.request_cuts[3] = n;
            telemetry::LiveGauges gauges;
            gauges.connections = 7;
            gauges.store_is_up = second != 3;
            gauges.generation = second < 3 ? 1 : 2;
            gauges.upstreams = {{2, 1}};
            series.add(std::move(totals), std::move(gauges), WallTime{second * 1s},
                       SteadyTime{second * 1s});
        }
    }
    AdminAnswer answer(std::string_view target) const {
        const std::vector<upstream::UpstreamStatus> upstreams(1);
        return answer_to_live(target, {.series = series,
                                       .upstreams = upstreams,
                                       .now = WallTime{4s},
                                       .started = WallTime{0s},
                                       .version = "1",
                                       .generation = 2,
                                       .store = "memory",
                                       .threads = 2});
    }
    telemetry::LiveSeries series;
};

TEST_CASE("live answer: samples, their columns and the sums since the start") {
    const AdminAnswer answer = SomeSeries().answer("/api/live");
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "application/json");
    const Json json = Json::parse(answer.body);
    CHECK(json.at("now_ms") == 4'000);
    CHECK(json.at("workers") == 2);
    CHECK(json.at("store").at("kind") == "memory");
    CHECK(json.at("policies") == Json::parse(R"([{"policy":"p","mode":"shadow"}])"));
    CHECK(json.at("routes").at(0).at("route") == "-");
    CHECK(json.at("upstreams").size() == 1);
    CHECK(json.at("totals").at("requests") == 30);
    CHECK(json.at("totals").at("denials") == 30);
    CHECK(json.at("totals").at("policies") == Json::parse("[[30,1]]"));
    REQUIRE(json.at("samples").size() == 3);
    const Json& last = json.at("samples").at(2);
    CHECK(last.at("time_ms") == 3'000);
    CHECK(last.at("took_ms") == 1'000);
    CHECK(last.at("requests") == 10);
    CHECK(last.at("answers").at("4xx") == 10);
    CHECK(last.at("answers").at("none") == 0);
    CHECK(last.at("outcomes").at("limited") == 10);
    CHECK(last.at("routes") == Json::parse("[[0,0],[10,10]]"));
    CHECK(last.at("request_seconds").at("count") == 10);
    CHECK(last.at("request_seconds").at("p999") == doctest::Approx(0.0005));
    CHECK(last.at("decision_seconds").at("p50").is_null());
    CHECK(last.at("store") == "down");
    CHECK(last.at("connections") == 7);
    CHECK(last.at("upstreams") == Json::parse("[[2,1]]"));
}

TEST_CASE("live answer: all fields, in their order") {
    using telemetry::LiveSeries;
    telemetry::LiveTotals totals;
    totals.answers = {0, 7, 0, 2, 0, 0, 1};
    totals.outcomes = {7, 0, 0, 2, 0, 0, 0, 1};
    telemetry::LivePolicies policies;
    policies.add({"p", false});
    totals.add_policies(policies);
    totals.policies[0] = {8, 2};
    totals.add_route("search", {10, 2});
    totals.add_other_routes(3, {4, 1});
    totals.request_cuts.assign(Fine::kCutBuckets, 0);
    totals.request_cuts[3] = 10;
    totals.store_failures = 5;
    totals.upstream_failures = 6;
    telemetry::LiveGauges gauges;
    gauges.connections = 7;
    gauges.upstream_connections = 8;
    gauges.leased_units = 9;
    gauges.generation = 2;
    gauges.upstreams = {{2, 1}};
    LiveSeries series(Fine::kCutBounds, Fine::kCutBounds, {});
    series.add(totals, gauges, WallTime{1s}, SteadyTime{1s});
    const std::vector<upstream::UpstreamStatus> upstreams;
    const AdminAnswer answer = answer_to_live("/api/live", {.series = series,
                                                            .upstreams = upstreams,
                                                            .now = WallTime{4s},
                                                            .started = WallTime{1s},
                                                            .version = "1",
                                                            .generation = 2,
                                                            .config_hash = "0123456789abcdef",
                                                            .is_rolled_back = true,
                                                            .store = "redis",
                                                            .threads = 2});
    const std::string counts =
        R"("requests":10,"denials":2,"answers":{"1xx":0,"2xx":7,"3xx":0,"4xx":2,"5xx":0,)"
        R"("other":0,"none":1},"outcomes":{"forwarded":7,"answered":0,"redirected":0,)"
        R"("limited":2,"rejected":0,"failed":0,"unavailable":0,"aborted":1})";
    const std::string columns = R"("policies":[[8,2]],"routes":[[10,2],[4,1]])";
    CHECK(
        answer.body ==
        R"({"now_ms":4000,"started_ms":1000,"version":"1","workers":2,"store":{"kind":"redis"},)"
        R"("config":{"hash":"0123456789abcdef","rolled_back":true},)"
        R"("policies":[{"policy":"p","mode":"enforce"}],"routes":[{"route":"search"},{"rest":3}],)"
        R"("upstreams":[],"totals":{)" +
            counts + "," + columns + R"(},"samples":[{"time_ms":1000,"took_ms":1000,)" + counts +
            R"(,"decision_seconds":{"count":0,"p50":null,"p99":null,"p999":null},)"
            R"("request_seconds":{"count":10,"p50":0.0005,"p99":0.0005,"p999":0.0005},)"
            R"("store":"up","store_failures":5,"leased_units":9,)"
            R"("connections":7,"upstream_connections":8,)"
            R"("upstream_failures":6,"upstreams":[[2,1]],"generation":2,)" +
            columns + "}]}\n");
}

TEST_CASE("live answer: costs of policies that have any, money in dollars") {
    telemetry::LiveSeries series(Fine::kCutBounds, Fine::kCutBounds, {});
    telemetry::LivePolicies policies;
    for (const char* const name : {"requests", "tokens", "budget", "idle"}) {
        policies.add({name, false});
    }
    policies.set_unit(1, telemetry::CostUnit::tokens);
    policies.set_unit(2, telemetry::CostUnit::usd);
    policies.set_unit(3, telemetry::CostUnit::units);
    for (int second = 1; second <= 2; ++second) {
        telemetry::LiveTotals totals;
        totals.add_policies(policies);
        totals.costs[1] = {120, 700};
        totals.costs[2] = {second == 1 ? 15U : 1'000'015U, second == 1 ? 20U : 3'000'020U};
        series.add(std::move(totals), {}, WallTime{second * 1s}, SteadyTime{second * 1s});
    }
    const std::vector<upstream::UpstreamStatus> upstreams;
    const AdminAnswer answer = answer_to_live("/api/live", {.series = series,
                                                            .upstreams = upstreams,
                                                            .now = WallTime{4s},
                                                            .started = WallTime{1s},
                                                            .version = "1",
                                                            .store = "memory"});
    const Json json = Json::parse(answer.body);
    CHECK_FALSE(json.at("policies").at(0).contains("unit"));
    CHECK(json.at("policies").at(1).at("unit") == "tokens");
    CHECK(json.at("policies").at(2).at("unit") == "usd");
    CHECK(json.at("policies").at(3).at("unit") == "units");
    CHECK(answer.body.find(R"("costs":[[1,120,700],[2,1.000015,3.000020]]},"samples")") !=
          std::string::npos);
    CHECK(json.at("samples").at(0).at("costs") ==
          Json::parse("[[1,120,700],[2,0.000015,0.00002]]"));
    CHECK(json.at("samples").at(1).at("costs") == Json::parse("[[2,1.0,3.0]]"));
}

TEST_CASE("live answer: samples of another configuration leave its upstreams out") {
    const Json json = Json::parse(SomeSeries().answer("/api/live").body);
    CHECK_FALSE(json.at("samples").at(1).contains("upstreams"));
    CHECK(json.at("samples").at(1).at("generation") == 1);
}

TEST_CASE("live answer: `since` leaves out what the client has") {
    const SomeSeries some;
    const auto samples = [&](const std::string& since) {
        return Json::parse(some.answer("/api/live?since=" + since).body).at("samples");
    };
    CHECK(samples("0").size() == 3);
    CHECK(samples("1000").size() == 2);
    REQUIRE(samples("2999").size() == 1);
    CHECK(samples("2999").at(0).at("time_ms") == 3'000);
    CHECK(samples("3000").empty());
    for (const char* since : {"x", "-1", "1.5", "99999999999999999999", "1&since=2"}) {
        const AdminAnswer answer = some.answer("/api/live?since=" + std::string(since));
        CHECK(answer.status == 400);
        CHECK(answer.content_type == "application/problem+json");
    }
}

TEST_CASE("live answer: names of any bytes stay data") {
    const AdminAnswer answer = SomeSeries().answer("/api/live");
    for (const char c : answer.body) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    CHECK(Json::parse(answer.body).at("routes").at(1).at("route") ==
          "user:\x1b[2J\"</script>\n\ufffd\u202e");
}

// Each name with its count and error.
telemetry::CountedNames counted(
    const std::vector<std::pair<std::string, std::pair<std::uint64_t, std::uint64_t>>>& names,
    std::uint64_t total) {
    telemetry::CountedNames copy;
    for (const auto& [name, counts] : names) {
        copy.names.push_back({copy.text.size(), name.size(), counts.first, counts.second});
        copy.text += name;
    }
    copy.total = total;
    copy.names_max = 64;
    return copy;
}

std::vector<ThreadActivity> some_activity() {
    std::vector<ThreadActivity> threads(2);
    threads[0].thread = 0;
    threads[0].copy.names.generations[0] = counted({{kHostile, {5, 1}}, {"ip:1", {2, 0}}}, 7);
    threads[1].thread = 1;
    threads[1].copy.names.generations[1] = counted({{"ip:1", {9, 0}}}, 9);
    telemetry::Denial denial;
    denial.number = 8;
    denial.time = WallTime{5s};
    denial.identifier = kHostile;
    denial.limit = "p-1s";
    denial.count = 3;
    denial.quota = 4;
    threads[0].copy.denials = {denial};
    threads[0].copy.denials_left_out = 2;
    denial.time = WallTime{6s};
    denial.retry_after_seconds = 7;
    threads[1].copy.denials = {denial};
    threads[1].copy.denials_left_out = 3;
    return threads;
}

TEST_CASE("denials answer: those of money have dollars and say so") {
    std::vector<ThreadActivity> threads(1);
    telemetry::Denial denial;
    denial.identifier = "claim:org=a";
    denial.limit = "budget-utc_month";
    denial.count = {499'999'985, true};
    denial.quota = {500'000'000, true};
    denial.cost = {30'000, true};
    threads[0].copy.denials = {denial};
    const AdminAnswer answer = answer_to_denials(threads, 64);
    const Json json = Json::parse(answer.body).at("denials").at(0);
    CHECK(json.at("count") == 499.999985);
    CHECK(json.at("quota") == 500);
    CHECK(json.at("cost") == 0.03);
    CHECK(json.at("unit") == "usd");
    CHECK(denial_line(json).find("499.999985 of 500.000000") != std::string::npos);
}

TEST_CASE("top answer: the threads as one list, what is certain first") {
    const AdminAnswer answer = answer_to_top(Kind::top_denials, some_activity(), 64, 87s);
    for (const char c : answer.body) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    const Json json = Json::parse(answer.body);
    CHECK(json.at("by") == "denials");
    CHECK(json.at("enabled") == true);
    CHECK(json.at("names") == 64);
    CHECK(json.at("seconds") == 87);
    CHECK(json.at("total") == 16);
    CHECK(json.at("error_max") == 0);
    REQUIRE(json.at("identifiers").size() == 2);
    CHECK(json.at("identifiers").at(0) ==
          Json::parse(R"({"identifier":"ip:1","count":11,"error":0})"));
    CHECK(json.at("identifiers").at(1).at("count") == 4);
    CHECK(json.at("identifiers").at(1).at("error") == 1);
    CHECK(Json::parse(answer_to_top(Kind::top_requests, {}, 0, 1s).body).at("enabled") == false);
}

TEST_CASE("denials answer: newest first, each with its reason") {
    const AdminAnswer answer = answer_to_denials(some_activity(), 64);
    for (const char c : answer.body) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    const Json json = Json::parse(answer.body);
    CHECK(json.at("left_out") == 5);
    REQUIRE(json.at("denials").size() == 2);
    const Json& newest = json.at("denials").at(0);
    CHECK(newest.at("id") == "1-8");
    CHECK(newest.at("time_ms") == 6'000);
    CHECK(newest.at("retry_after_seconds") == 7);
    CHECK(newest.at("limit") == "p-1s");
    CHECK(newest.at("count") == 3);
    CHECK(newest.at("quota") == 4);
    CHECK(json.at("denials").at(1).at("id") == "0-8");
    CHECK(json.at("denials").at(1).at("retry_after_seconds").is_null());
}

TEST_CASE("denials answer: all fields, in their order") {
    std::vector<ThreadActivity> threads(1);
    threads[0].thread = 3;
    telemetry::Denial denial;
    denial.number = 8;
    denial.time = WallTime{5s};
    denial.request_id = "0f3c";
    denial.identifier = "ip:1";
    denial.route = "search";
    denial.policy = "p";
    denial.limit = "p-1s";
    denial.count = 3;
    denial.quota = 4;
    denial.cost = 2;
    denial.retry_after_seconds = 7;
    threads[0].copy.denials = {denial};
    CHECK(
        answer_to_denials(threads, 64).body ==
        R"({"enabled":true,"shadow":false,"candidate":false,"left_out":0,"denials":[{"id":"3-8","time_ms":5000,)"
        R"("request_id":"0f3c","identifier":"ip:1","route":"search","policy":"p",)"
        R"("limit":"p-1s","count":3,"quota":4,"cost":2,"retry_after_seconds":7}]})"
        "\n");
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("top text: what is certain and what is possible") {
    const AdminAnswer answer = answer_to_top(Kind::top_denials, some_activity(), 64, 87s);
    CHECK(answer.exit_code == 0);
    CHECK(answer.text ==
          "denials of the last 87s, identifiers counted 16 times\n"
          "    AT LEAST     AT MOST  IDENTIFIER\n"
          "          11          11  ip:1\n"
          "           4           5  user:\\u001b[2J\\\"</script>\\n\\ufffd\\u202e\n");
}

TEST_CASE("top text: it says when there is nothing, and when nothing is kept") {
    const AdminAnswer none = answer_to_top(Kind::top_requests, {}, 64, 1s);
    CHECK(none.text == "requests of the last 1s, identifiers counted 0 times\n");
    CHECK(none.exit_code == 1);
    const AdminAnswer off = answer_to_top(Kind::top_requests, {}, 0, 1s);
    CHECK(has(off.text, "`telemetry: {top: off}`"));
    CHECK(off.exit_code == 1);
}

telemetry::Denial some_denial() {
    telemetry::Denial denial;
    denial.number = 8;
    denial.time = WallTime{1'764'000'600'001ms};
    denial.request_id = "0f3c";
    denial.identifier = "ip:1";
    denial.route = "search";
    denial.policy = "p";
    denial.limit = "p-1s";
    denial.count = 10;
    denial.quota = 10;
    denial.retry_after_seconds = 1;
    return denial;
}

TEST_CASE("denials text: a line for each, the oldest first, and what is not known is a dash") {
    std::vector<ThreadActivity> threads(1);
    telemetry::Denial unknown;
    unknown.number = 9;
    unknown.time = WallTime{1'764'000'600'002ms};
    threads[0].copy.denials = {some_denial(), unknown};
    const AdminAnswer answer = answer_to_denials(threads, 64);
    CHECK(answer.exit_code == 0);
    CHECK(answer.text ==
          "TIME                      IDENTIFIER                    LIMIT                 "
          "TAKEN           RETRY     ROUTE           REQUEST\n"
          "2025-11-24T16:10:00.001Z  ip:1                          p-1s                  "
          "10 of 10        1s        search          0f3c\n"
          "2025-11-24T16:10:00.002Z  -                             -                     "
          "0 of 0          -         -               -\n");
    // `--follow` makes the same of the JSON.
    const Json json = Json::parse(answer.body);
    CHECK(denial_heading() + denial_line(json.at("denials").at(1)) +
              denial_line(json.at("denials").at(0)) ==
          answer.text);
    CHECK_THROWS_AS(denial_line(Json{{"id", 1}}), Json::exception);
}

TEST_CASE("denials text: names of clients do not command the terminal") {
    const std::string text = answer_to_denials(some_activity(), 64).text;
    for (const char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
    CHECK_FALSE(has(text, "\u202e"));
}

TEST_CASE("denials text: it says when there are none, and when none are kept") {
    const AdminAnswer none = answer_to_denials({}, 64);
    CHECK(none.text == "no limit has refused a request\n");
    CHECK(none.exit_code == 1);
    CHECK(answer_to_denials({}, 0).text == std::string(kNotKept) + "\n");
}

std::vector<ThreadActivity> denials_of(
    const std::vector<std::pair<std::string, std::string>>& identifiers_and_policies) {
    std::vector<ThreadActivity> threads(1);
    std::uint64_t number = 0;
    for (const auto& [identifier, policy] : identifiers_and_policies) {
        telemetry::Denial denial;
        denial.number = ++number;
        denial.time = WallTime{number * 1s};
        denial.identifier = identifier;
        denial.policy = policy;
        threads[0].copy.denials.push_back(denial);
    }
    return threads;
}

TEST_CASE("denials answer: by identifier, policy and time") {
    const std::string long_name = "user:" + std::string(200, 'a');
    const auto threads =
        denials_of({{"ip:1", "p"}, {"ip:2", "p"}, {"ip:1", "q"}, {long_name, "q"}});
    const auto ids = [&](const WantedDenials& wanted) {
        std::string found;
        const AdminAnswer answer = answer_to_denials(threads, 64, wanted);
        const Json json = Json::parse(answer.body);
        for (const Json& one : json.at("denials")) {
            found += one.at("id").get<std::string>() + " ";
        }
        return found;
    };
    CHECK(ids({}) == "0-4 0-3 0-2 0-1 ");
    CHECK(ids({.identifiers = {"ip:1"}}) == "0-3 0-1 ");
    CHECK(ids({.identifiers = {"ip:1", "ip:2"}}) == "0-3 0-2 0-1 ");
    // Denials have the first bytes of a name.
    CHECK(ids({.identifiers = {long_name}}) == "0-4 ");
    CHECK(ids({.policy = "p"}) == "0-2 0-1 ");
    CHECK(ids({.identifiers = {"ip:1"}, .policy = "p"}) == "0-1 ");
    CHECK(ids({.since = WallTime{3s}}) == "0-4 0-3 ");
    CHECK(ids({.policy = "x"}) == "");
    const AdminAnswer none = answer_to_denials(threads, 64, {.in_shadow = true, .policy = "x"});
    CHECK(none.text ==
          "no policy in shadow would have refused a request that the options describe\n");
    CHECK(none.exit_code == 1);
    CHECK(Json::parse(none.body).at("shadow") == true);
    // A policy that a reload has removed is known by its denials.
    CHECK(ids({.policy = "q", .policy_is_known = false}) == "0-4 0-3 ");
    const AdminAnswer unknown =
        answer_to_denials(threads, 64, {.policy = "x", .policy_is_known = false});
    CHECK(unknown.status == 400);
    CHECK(has(unknown.body, "The configuration has no policy"));
}

TEST_CASE("admin: the peers that may see the dashboard's figures") {
    AdminSources sources;
    std::string token;
    sources.token = [&] { return std::string_view(token); };
    sources.live = [](std::string_view) { return AdminAnswer{}; };
    for (const std::string_view target : {"/api/live", "/api/top?by=denials", "/api/denials"}) {
        token.clear();
        AdminRequest request;
        request.method = "GET";
        request.target = target;
        request.host = "localhost";
        CHECK(answer_to(request, sources).status == 403);
        request.local = true;
        CHECK(answer_to(request, sources).status == 200);
        request.host = "rebound.example";
        CHECK(answer_to(request, sources).status == 403);
        request.host = "localhost";
        for (const std::string_view method : {"HEAD", "POST"}) {
            request.method = method;
            CHECK(answer_to(request, sources).status == 405);
        }
        request.method = "GET";
        token = "secret";
        CHECK(answer_to(request, sources).status == 401);
        request.authorization = "Bearer secret";
        request.local = false;
        request.host = "tidegate.internal";
        CHECK(answer_to(request, sources).status == 200);
    }
}

using upstream::ServerHealth;
using upstream::ServerStatus;
using upstream::UpstreamStatus;

ServerStatus server_at(const std::string& address, ServerHealth health) {
    ServerStatus server;
    server.server = address;
    server.configured = "api.internal:3000";
    server.health = health;
    return server;
}

UpstreamStatus some_upstream() {
    UpstreamStatus status;
    status.upstream = "api";
    status.servers = {server_at("10.0.0.5:3000", ServerHealth::up),
                      server_at("10.0.0.6:3000", ServerHealth::unhealthy),
                      server_at("10.0.0.7:3000", ServerHealth::ejected)};
    status.unresolved = {"gone.internal:3000"};
    status.connections = 3;
    status.connections_max = 512;
    status.queued = 2;
    return status;
}

AdminSources sources_with(std::string_view token) {
    AdminSources sources;
    sources.token = [token] { return token; };
    sources.upstreams = [] { return std::vector<UpstreamStatus>{some_upstream()}; };
    return sources;
}

AdminRequest upstreams_request() {
    AdminRequest request;
    request.method = "GET";
    request.target = "/api/upstreams";
    request.host = "127.0.0.1:9901";
    request.local = true;
    return request;
}

TEST_CASE("admin upstreams: each server is listed with its state and its counts") {
    UpstreamStatus status = some_upstream();
    ServerStatus& server = status.servers[1];
    server.weight = 2;
    server.is_checked = true;
    server.active = 4;
    server.requests = 100;
    server.failures = 7;
    server.ejections = 1;
    const AdminAnswer answer = answer_to_upstreams(std::vector{status});
    CHECK(answer.status == 200);
    CHECK(answer.content_type == "application/json");
    const auto json = nlohmann::json::parse(answer.body);
    REQUIRE(json.at("upstreams").size() == 1);
    const auto& api = json.at("upstreams")[0];
    CHECK(api.at("name") == "api");
    CHECK(api.at("connections") == 3);
    CHECK(api.at("connections_max") == 512);
    CHECK(api.at("queued") == 2);
    CHECK(api.at("unresolved") == std::vector<std::string>{"gone.internal:3000"});
    REQUIRE(api.at("servers").size() == 3);
    CHECK(api.at("servers")[0].at("state") == "up");
    CHECK(api.at("servers")[0].at("checked") == false);
    CHECK(api.at("servers")[2].at("state") == "ejected");
    CHECK(api.at("servers")[1] == nlohmann::json{{"server", "10.0.0.6:3000"},
                                                 {"configured", "api.internal:3000"},
                                                 {"weight", 2},
                                                 {"state", "unhealthy"},
                                                 {"checked", true},
                                                 {"active", 4},
                                                 {"requests", 100},
                                                 {"failures", 7},
                                                 {"ejections", 1}});
}

TEST_CASE("admin upstreams: the text has a table, and servers that are not up come first") {
    UpstreamStatus status = some_upstream();
    status.servers.pop_back();
    for (ServerStatus& server : status.servers) server.is_checked = true;
    const AdminAnswer answer = answer_to_upstreams(std::vector{status});
    CHECK(answer.exit_code == 1);
    CHECK(
        answer.text ==
        "api: 1 of 2 servers up, 3 of 512 connections, 2 waiting\n"
        "  SERVER         CONFIGURED         WEIGHT  STATE         ACTIVE  REQUESTS  FAILURES  "
        "EJECTIONS\n"
        "  10.0.0.6:3000  api.internal:3000  1       unhealthy     0       0         0         0\n"
        "  10.0.0.5:3000  api.internal:3000  1       up (checked)  0       0         0         0\n"
        "  gone.internal:3000: has no address yet\n");
}

TEST_CASE("admin upstreams: all is up if every server is, and every name has an address") {
    UpstreamStatus status = some_upstream();
    status.servers.resize(1);
    CHECK(answer_to_upstreams(std::vector{status}).exit_code == 1);
    status.unresolved.clear();
    CHECK(answer_to_upstreams(std::vector{status}).exit_code == 0);
    const AdminAnswer none = answer_to_upstreams({});
    CHECK(none.exit_code == 0);
    CHECK(none.text == "the configuration has no upstreams\n");
    CHECK(none.body == "{\n  \"upstreams\": []\n}\n");
}

TEST_CASE("admin upstreams: readiness counts the servers that are up") {
    CHECK(upstreams_summary({}) == "{}");
    UpstreamStatus none;
    none.upstream = "later";
    none.unresolved = {"later.internal:3000"};
    CHECK(upstreams_summary(std::vector{some_upstream(), none}) ==
          R"({"api":{"servers":3,"up":1},"later":{"servers":0,"up":0}})");
}

TEST_CASE("admin upstreams: they are shown to GET, on this machine or with the token") {
    AdminRequest request = upstreams_request();
    CHECK(answer_to(request, sources_with("")).status == 200);
    request.method = "POST";
    CHECK(answer_to(request, sources_with("")).allow == "GET");
    request = upstreams_request();
    request.local = false;
    CHECK(answer_to(request, sources_with("")).status == 403);
    CHECK(answer_to(request, sources_with("secret")).status == 401);
    request.authorization = "Bearer secret";
    CHECK(answer_to(request, sources_with("secret")).status == 200);
}

TEST_CASE("admin upstreams: a page under a name of its own does not see them") {
    AdminRequest request = upstreams_request();
    for (const std::string_view host : {"", "evil.example", "evil.example:9901"}) {
        request.host = host;
        const AdminAnswer answer = answer_to(request, sources_with(""));
        CHECK_MESSAGE(answer.status == 403, host);
        CHECK(answer.body.find("10.0.0.5") == std::string::npos);
        CHECK(answer.refusal.starts_with("The field Host"));
    }
}

}  // namespace
}  // namespace tidegate::admin::top_denials_upstreams_test

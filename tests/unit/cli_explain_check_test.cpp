// Explanations of calls of the check API, and of questions to one of several listeners.
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"
#include "identity/key_source.hpp"

namespace tidegate::cli::explain_check_test {
namespace {

using nlohmann::json;
using Form = faces::CheckCall::Form;

constexpr const char* kApi = R"(
listen:
  - {address: "127.0.0.1:8181", face: check}
  - {address: "127.0.0.1:8182", face: forward_auth, dialect: envoy, path_prefix: /a}
  - {address: "127.0.0.1:8183", face: forward_auth, dialect: envoy, path_prefix: /b}
  - {address: "unix:/run/x.sock", face: forward_auth, dialect: envoy}
policies:
  per-user: {key: [user], limits: [5/h, 50/day]}
  both: {key: ["user+header:x-tenant"], limits: [3/h]}
  per-ip: {key: [ip], limits: [2/h], deny: [198.51.100.0/24]}
  teams: {key: ["claim:team+path:id"], limits: [2/h]}
  mails: {key: [user], limits: [{algorithm: schedule, quota: 5, per: 1h, at: {header: x-at}}]}
routes:
  - {name: api, match: {path: /v1/**}, policies: [per-ip], cost: 2}
)";

std::shared_ptr<const config::Config> api() {
    static const config::Loaded loaded = config::load_text(kApi, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

void never_fetches(const std::shared_ptr<identity::KeySource>&) {
    FAIL("keys are not needed");
}

CallExplanation asked(std::string_view body, bool reserves = false,
                      const std::string& from = "127.0.0.1") {
    return explain_call(api(), {api()->listen.front(), parse_ip(from), reserves, body},
                        never_fetches);
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("explain check: a policy with its identifiers, limits and cost") {
    const auto told = asked(R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":3})");
    CHECK(told.refusal == 0);
    CHECK(told.form == Form::one);
    REQUIRE(told.items.size() == 1);
    CHECK(doc_of(told).text() ==
          "policy    per-user                         counts it\n"
          "  counts  user:alice                       by key user\n"
          "  limit   per-user-1h                      5 in 1h, sliding_window\n"
          "  limit   per-user-1day                    50 in 1day, sliding_window\n"
          "cost      3                                stated by the call\n"
          "result    admitted if the limits admit it  2 limits for 1 identifier; nothing was "
          "charged\n");
    const json object = json::parse(doc_of(told).json_text());
    CHECK_FALSE(object.contains("request"));
    CHECK(object.at("policies")[0].at("keys")[0].at("identifiers")[0] == "user:alice");
    CHECK(object.at("cost").at("units") == 3);
    CHECK(object.at("result").at("outcome") == "limited");
    CHECK(asked(R"({"policy":"per-user","identifiers":{"user":"a"}})").items[0].cost->units == 1);
}

TEST_CASE("explain check: an item names captures and claims") {
    const auto told =
        asked(R"({"policy":"teams","identifiers":{"claim:team":"ops","path:id":"7"}})");
    REQUIRE(told.items.size() == 1);
    CHECK(contains(doc_of(told).text(), "14:claim:team=ops+9:path:id=7"));
}

TEST_CASE("explain check: a request takes its route, and is not forwarded") {
    const auto told =
        asked(R"({"request":{"path":"/v1/x?key=hush","from":"203.0.113.7","method":"POST"}})");
    REQUIRE(told.items.size() == 1);
    const Explanation& one = told.items[0];
    CHECK(one.method == "POST");
    CHECK(one.client == "203.0.113.7");
    CHECK(one.route == "api");
    CHECK(one.cost->units == 2);
    const std::string text = doc_of(told).text();
    CHECK(contains(text, "ip:203.0.113.7"));
    CHECK(contains(text, "admitted if the limits admit it"));
    CHECK_FALSE(contains(text, "hush"));
    CHECK(asked(R"({"request":{"path":"/v1/x","from":"203.0.113.7"},"cost":9})")
              .items[0]
              .cost->units == 9);
    CHECK(asked(R"({"request":{"path":"/v2"}})").items[0].refusal == 404);
    const auto without_from = asked(R"({"request":{"path":"/v1/x"}})");
    CHECK(without_from.items[0].refusal == 400);
    CHECK(contains(doc_of(without_from).text(), "the item has no `from`"));
}

TEST_CASE("explain check: a call that the API would refuse is refused with the same words") {
    const auto is_refused = [](std::string_view body, int status, const std::string& part,
                               bool reserves = false) {
        const auto told = asked(body, reserves);
        CHECK(told.refusal == status);
        CHECK_MESSAGE(contains(told.refusal_reason, part), told.refusal_reason);
        CHECK(contains(doc_of(told).text(), part));
        CHECK(json::parse(doc_of(told).json_text()).at("result").at("status") == status);
    };
    is_refused("{", 400, "no JSON object");
    is_refused(R"({"policy":"none"})", 400, "there is no policy `none`");
    is_refused(R"({"policy":"per-user"})", 400, "write each part");
    is_refused(R"({"policy":"per-user","identifiers":{"ip":"::1"}})", 400, "no part of a key");
    is_refused(R"({"policy":"mails","identifiers":{"user":"a"}})", 400, "needs a request");
    is_refused(R"({"policy":"per-ip","identifiers":{"ip":"198.51.100.7"}})", 403, "");
    is_refused(R"({"policy":"per-user","identifiers":{"user":"a"},"ttl":"1s"})", 400, "`ttl`");
    CHECK(asked(R"({"policy":"per-user","identifiers":{"user":"a"},"ttl":"1s"})", true).refusal ==
          0);
    is_refused(R"({"each":[{"policy":"none"}]})", 400, "`all`", true);
    const auto stranger =
        asked(R"({"policy":"per-user","identifiers":{"user":"a"}})", false, "203.0.113.7");
    CHECK(stranger.refusal == 403);
    CHECK(stranger.items.empty());
}

TEST_CASE("explain check: `all` is one charge, and each item of `each` has a result of its own") {
    const std::string alice = R"({"policy":"per-user","identifiers":{"user":"alice"}})";
    const std::string tenant =
        R"({"policy":"both","identifiers":{"user":"alice","header:x-tenant":"acme"}})";
    const auto all = asked(R"({"all":[)" + alice + "," + tenant + "]}");
    CHECK(all.refusal == 0);
    CHECK(all.identifiers == 2);
    CHECK(all.limits == 3);
    const std::string text = doc_of(all).text();
    CHECK(text.starts_with("all[0]\npolicy"));
    CHECK(
        contains(text, "result  all or nothing  3 limits for 2 identifiers; nothing was charged"));
    const json object = json::parse(doc_of(all).json_text());
    CHECK(object.at("all").size() == 2);
    CHECK(object.at("result").at("limits") == 3);

    const auto costs =
        asked(R"({"all":[{"policy":"per-user","identifiers":{"user":"alice"},"cost":3},)" + tenant +
              "]}");
    CHECK(costs.refusal == 0);
    CHECK(costs.items[0].cost->units == 3);
    CHECK(costs.items[1].cost->units == 1);
    CHECK(contains(
        asked(R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":0.5})").refusal_reason,
        "cost: write a whole number"));

    const auto twice = asked(R"({"all":[)" + alice + "," + alice + "]}");
    CHECK(twice.refusal == 400);
    CHECK(contains(twice.refusal_reason, "all[1]: an item before it counts"));
    const auto broken = asked(R"({"all":[)" + alice + R"(,{"policy":"none"}]})");
    CHECK(contains(broken.refusal_reason, "all[1]: there is no policy"));

    const auto each = asked(R"({"each":[)" + alice + R"(,{"policy":"none"},)" + alice + "]}");
    CHECK(each.refusal == 0);
    REQUIRE(each.items.size() == 3);
    CHECK(each.items[1].refusal == 400);
    CHECK(each.items[2].refusal == 0);
    CHECK(json::parse(doc_of(each).json_text()).at("each")[1].at("result").at("status") == 400);
}

TEST_CASE("explain: a gateway's question is read as its listener reads it") {
    const auto path_at = [](std::size_t listener, const std::string& target, bool by_socket) {
        ExplainQuestion question;
        question.face = Face::forward_auth;
        question.listener = listener;
        question.target = target;
        question.fields = {"X-Forwarded-For: 203.0.113.7"};
        if (!by_socket) question.from = parse_ip("127.0.0.1");
        const Explanation told = explain(api(), question, never_fetches);
        CHECK_FALSE(told.trusted);
        CHECK((told.refusal == 400 || told.client == "203.0.113.7"));
        return told.refusal == 0 ? told.path : std::to_string(told.refusal);
    };
    CHECK(path_at(1, "/a/v1/x", false) == "/v1/x");
    CHECK(path_at(1, "/b/v1/x", false) == "400");
    CHECK(path_at(2, "/b/v1/x", false) == "/v1/x");
    CHECK(path_at(3, "/v1/x", true) == "/v1/x");
}

}  // namespace tidegate::cli::explain_check_test

// The check API: the reader of its calls, its questions and answers, and the ids of reservations.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "ask/charge_list.hpp"
#include "ask/identify.hpp"
#include "ask/request_checks.hpp"
#include "faces/check_call.hpp"
#include "faces/check_question.hpp"
#include "faces/faces.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::faces::check_test {

namespace {

CheckCall read(std::string_view body, bool reserves = false) {
    auto call = read_check_call(body, reserves);
    REQUIRE(call.has_value());
    return std::move(*call);
}

std::string fault(std::string_view body, bool reserves = false) {
    const auto call = read_check_call(body, reserves);
    return call.has_value() ? "" : call.error();
}

}  // namespace

TEST_CASE("check call: a policy, its identifiers and a cost") {
    const CheckCall call =
        read(R"({"policy":"p","identifiers":{"user":"alice","header:x-a":"b"},"cost":3})");
    CHECK(call.form == CheckCall::Form::one);
    REQUIRE(call.items.size() == 1);
    CHECK(call.items[0].policy == "p");
    CHECK(call.items[0].cost == 3);
    REQUIRE(call.items[0].identifiers.size() == 2);
    CHECK_FALSE(read(R"({"policy":"p"})").items[0].cost);
    CHECK(read(R"({"policy":"p","cost":0})").items[0].cost == 0);
    CHECK(read(R"({"policy":"p","cost":4294967295})").items[0].cost == 4'294'967'295);
}

TEST_CASE("check call: a cost is whole units, or dollars where the policy counts money") {
    const std::string units = "cost: write a whole number from 0 to 4294967295";
    for (const std::string cost : {"-1", "-0.5", "true", "null", "[1]", R"("1")"}) {
        CAPTURE(cost);
        CHECK(fault(R"({"policy":"p","cost":)" + cost + "}") == units);
    }
    // That of a request counts units; that of a policy is known once the policy is found.
    for (const std::string cost : {"0.5", "4294967296"}) {
        CAPTURE(cost);
        CHECK(fault(R"({"request":{"path":"/"},"cost":)" + cost + "}") == units);
        CHECK(fault(R"({"policy":"p","cost":)" + cost + "}").empty());
    }
    CHECK(units_of(3, false) == 3);
    CHECK(units_of(4'294'967'295, false) == 4'294'967'295);
    CHECK_FALSE(units_of(4'294'967'296, false));
    CHECK_FALSE(units_of(0.5, false));
    CHECK(units_of(0, true) == 0);
    CHECK(units_of(2, true) == 2'000'000);
    CHECK(units_of(0.0125, true) == 12'500);
    CHECK(units_of(0.1 + 0.2, true) == 300'000);
    CHECK(units_of(0.0000001, true) == 1);  // rounded up
    CHECK(units_of(999'999'999.999999, true) == 999'999'999'999'999);
    CHECK(units_of(1e9, true) == 1'000'000'000'000'000);
    CHECK_FALSE(units_of(1e9 + 1, true));
    const auto shown = [](std::int64_t cost, bool in_money) {
        std::string text;
        append_cost(cost, in_money, text);
        return text;
    };
    CHECK(shown(12'500, false) == "12500");
    CHECK(shown(12'500, true) == "0.0125");
    CHECK(shown(2'000'000, true) == "2");
    CHECK(shown(2'000'001, true) == "2.000001");
}

TEST_CASE("check call: a request has defaults") {
    const CheckItem item = read(R"({"request":{"path":"/"}})").items[0];
    CHECK(item.policy.empty());
    CHECK(item.request.method == "GET");
    CHECK(item.request.path == "/");
    CHECK(item.request.host == "localhost");
    CHECK_FALSE(item.request.from);
    const CheckItem whole =
        read(R"({"request":{"method":"PUT","path":"/a?b","host":"h","from":"::1",)"
             R"("headers":{"x-a":"b"}}})")
            .items[0];
    CHECK(whole.request.method == "PUT");
    CHECK(whole.request.path == "/a?b");
    CHECK(whole.request.from->to_string() == "::1");
    REQUIRE(whole.request.headers.size() == 1);
    CHECK(whole.request.headers[0].second == "b");
}

TEST_CASE("check call: a fault in a list names its place") {
    const CheckCall call = read(R"({"all":[{"policy":"a"},{"policy":"b","cost":2}]})");
    CHECK(call.form == CheckCall::Form::all);
    CHECK(call.items.size() == 2);
    CHECK(read(R"({"each":[{"policy":"a"}]})").form == CheckCall::Form::each);
    CHECK(fault(R"({"each":[{"policy":"a"},{}]})") ==
          "each[1]: write `policy` with `identifiers`, or `request`");
    CHECK(fault(R"({"all":[{"policy":"a","cost":-1}]})") ==
          "all[0].cost: write a whole number from 0 to 4294967295");
    CHECK(fault(R"({"all":[],"x":1})").starts_with("there is no member `x` here"));
    CHECK(fault(R"({"all":[]})") == "all: write a list of 1 to 100 questions");
    CHECK(fault(R"({"all":[{"policy":"a"}],"each":[{"policy":"a"}]})").find("`each`") !=
          std::string::npos);
}

TEST_CASE("check call: only a reservation has a time, and none is `each`") {
    CHECK(read(R"({"policy":"p"})", true).ttl == std::chrono::seconds{60});
    CHECK(read(R"({"policy":"p","ttl":"1s"})", true).ttl == std::chrono::seconds{1});
    CHECK(read(R"({"all":[{"policy":"p"}],"ttl":"10min"})", true).ttl == std::chrono::seconds{600});
    for (const std::string ttl : {"24h", "1440min", "86400s"}) {
        CHECK(read(R"({"policy":"p","ttl":")" + ttl + "\"}", true).ttl == std::chrono::hours{24});
    }
    for (const std::string ttl : {"0s", "0h", "86401s", "1441min", "25h", "1d", "s", "h", "1",
                                  "-1s", "1.5s", "1h30min", "999999s", "99999h"}) {
        CAPTURE(ttl);
        CHECK(fault(R"({"policy":"p","ttl":")" + ttl + "\"}", true) ==
              "ttl: write a time from `1s` to `24h`");
    }
    CHECK_FALSE(fault(R"({"policy":"p","ttl":"1s"})").empty());
    CHECK_FALSE(fault(R"({"each":[{"policy":"p"}]})", true).empty());
}

TEST_CASE("check call: a value cannot end a line, and a name stands once") {
    CHECK(fault("{\"policy\":\"a\\nb\"}") == "policy: a control character cannot stand here");
    CHECK(fault("{\"request\":{\"path\":\"/a\\r\\nX: b\"}}").starts_with("request.path: "));
    for (const std::string without_path : {"{}", R"({"method":"GET","host":"h"})"}) {
        CHECK(fault("{\"request\":" + without_path + "}") ==
              "request: write the `path` of the request: `{\"path\": \"/v1/x\"}`");
        CHECK(fault("{\"each\":[{\"request\":" + without_path + "}]}")
                  .starts_with("each[0].request: write the `path`"));
    }
    CHECK(
        fault("{\"request\":{\"headers\":{\"a\":\"\\u0000\"}}}").starts_with("request.headers.a"));
    CHECK(fault("{\"request\":{\"headers\":{\"a: b\\r\\nc\":\"d\"}}}")
              .starts_with("request.headers: "));
    CHECK(fault(R"({"policy":"a","policy":"b"})").starts_with("the body is no JSON object: "));
    CHECK(fault("[1]").starts_with("the body is no JSON object: "));
    CHECK(fault(R"({"policy":"a","request":{}})") ==
          "write `policy` with `identifiers`, or `request`");
}

TEST_CASE("check call: a settlement is an id and a cost, or costs") {
    const auto call = read_settle_call(R"({"id":"abc","cost":7})");
    REQUIRE(call.has_value());
    CHECK(call->id == "abc");
    CHECK(call->costs == std::vector<double>{7});
    CHECK_FALSE(call->is_list);
    const auto list = read_settle_call(R"({"id":"abc","costs":[7,0.5,0]})");
    REQUIRE(list.has_value());
    CHECK(list->costs == std::vector<double>{7, 0.5, 0});
    CHECK(list->is_list);
    for (const std::string wrong :
         {R"("id":"abc")", R"("cost":7)", R"("costs":[7])", R"("id":7,"cost":7)",
          R"("id":"a","cost":7,"more":1)", R"("id":"a","cost":7,"costs":[7])",
          R"("id":"a","cost":[7])", R"("id":"a","costs":7)", R"("id":"a","costs":[])",
          R"("id":"a","costs":[-1])"}) {
        CAPTURE(wrong);
        CHECK_FALSE(read_settle_call("{" + wrong + "}").has_value());
    }
    CHECK(read_settle_call(R"({"id":"a","costs":[1,-1]})").error() ==
          "costs[1]: write a whole number from 0 to 4294967295");
    std::string many = R"({"id":"a","costs":[0)";
    for (std::size_t i = 0; i < kCostsMax; ++i) many += ",0";
    CHECK_FALSE(read_settle_call(many + "]}").has_value());
}

namespace {

using namespace std::chrono_literals;
using Decided = store::LimitDecision::Result;

const std::string kConfiguration =
    "listen: {address: '127.0.0.1:8181', face: check}\n"
    "policies:\n"
    "  mails: {key: [user], limits: [100/h, 5/s]}\n"
    "  tried: {key: [user], limits: [1/h], mode: shadow}\n";

// A decision about a user under both policies.
struct Answered {
    explicit Answered(Decided result, std::string_view identifier = "user:alice",
                      const std::string& configuration = kConfiguration)
        : rules(ask::load(configuration)) {
        const auto& policies = rules.config->policies;
        decision.charge.items = {{policies[0].get(), identifier}, {policies[1].get(), identifier}};
        decision.charge.result = result;
        decision.charge.verdict.limits = {{97, 3'599'000'001us, false}, {0, 1ms, false}, {}};
    }
    std::string text() const {
        std::string out;
        append_answer(rules, decision, out);
        return out;
    }
    std::string in_list() const {
        std::string out = "[";
        append_each_answer(rules, decision, out);
        return out;
    }

    ask::Ruleset rules;
    ask::Decision decision;
};

const std::string kHour = R"({"policy":"mails","limit":"mails-1h","identifier":"user:alice",)"
                          R"("quota":100,"left":97,"reset_ms":3599001,"denied":false})";
const std::string kSecond = R"({"policy":"mails","limit":"mails-1s","identifier":"user:alice",)"
                            R"("quota":5,"left":0,"reset_ms":1,"denied":false})";

}  // namespace

TEST_CASE("check answer: each limit of a policy that is not in shadow is listed") {
    const Answered admitted(Decided::admitted);
    const std::string told = R"("admitted":true,"limits":[)" + kHour + "," + kSecond + "]";
    CHECK(admitted.text() == told);
    CHECK(admitted.in_list() == "[{" + told + R"(,"status":200})");
    CHECK(status_of(admitted.decision) == 200);
}

TEST_CASE("check answer: a refusal says when to come back, or that the time is unknown") {
    Answered refused(Decided::limited);
    refused.decision.refuse(ask::Fault::limited);
    auto& verdict = refused.decision.charge.verdict;
    verdict.limits[1].denied = true;
    verdict.limits[1].next_unit = limit::kNever;
    verdict.retry_after = 1'500us;
    const std::string limits = R"("admitted":false,"limits":[)" + kHour +
                               R"(,{"policy":"mails","limit":"mails-1s","identifier":"user:alice",)"
                               R"("quota":5,"left":0,"reset_ms":null,"denied":true}])";
    CHECK(refused.text() == limits + R"(,"retry_after_ms":2)");
    CHECK(refused.in_list() == "[{" + limits + R"(,"retry_after_ms":2,"status":429})");
    verdict.retry_after = limit::kNever;
    CHECK(refused.text() == limits + R"(,"retry_after_ms":null)");
    refused.decision.charge.cost = 6;
    CHECK(refused.text() ==
          limits + R"(,"retry_after_ms":null,"detail":"This request would use 6 units of a quota )"
                   R"(of 5 (limit `mails-1s`): it never passes. Ask for less.")");
}

TEST_CASE("check answer: a quota of 0 has no reset_ms, also where something was counted") {
    std::string closed = kConfiguration;
    const std::string second = "5/s";
    closed.replace(closed.find(second), second.size(), "{quota: 0, per: 10s, count: all}");
    Answered refused(Decided::limited, "user:alice", closed);
    refused.decision.refuse(ask::Fault::limited);
    auto& verdict = refused.decision.charge.verdict;
    verdict.limits[1] = {.remaining = 0, .next_unit = 9s, .denied = true};
    verdict.retry_after = limit::kNever;
    const std::string told = refused.text();
    CHECK_MESSAGE(
        told.find(R"("quota":0,"left":0,"reset_ms":null,"denied":true})") != std::string::npos,
        told);
}

TEST_CASE("check answer: what a remembered denial does not know is null") {
    Answered refused(Decided::limited);
    refused.decision.refuse(ask::Fault::limited);
    auto& verdict = refused.decision.charge.verdict;
    verdict.limits[1] = {.remaining = 3, .next_unit = 2s, .denied = true, .is_current = false};
    CHECK(refused.text().find(R"("quota":5,"left":null,"reset_ms":null,"denied":true})") !=
          std::string::npos);
}

TEST_CASE("check answer: another fault has its status and a sentence, and no limits") {
    Answered unanswered(Decided::unavailable);
    unanswered.decision.refuse(ask::Fault::bad_moment, "A \"word\".");
    const std::string told = R"("admitted":false,"limits":[],"status":400,"detail":"A \"word\".")";
    CHECK(unanswered.text() == told);
    CHECK(unanswered.in_list() == "[{" + told + "}");
}

TEST_CASE("check answer: no more units than the quota are shown, and an identifier is escaped") {
    Answered admitted(Decided::admitted, R"(user:"\)");
    admitted.decision.charge.verdict.limits[0].remaining = 101;
    CHECK(admitted.text().find(R"("identifier":"user:\"\\","quota":100,"left":100,)") !=
          std::string::npos);
}

TEST_CASE("check answer: an item that makes no sense") {
    std::string out;
    append_each_fault("there is no policy `x`", out);
    CHECK(out == R"({"admitted":false,"status":400,"detail":"there is no policy `x`"})");
}

TEST_CASE("check answer: a reservation that is settled with another cost") {
    CHECK(settled_problem_text("7", false, "id") ==
          R"({"type":"about:blank","title":"Conflict","status":409,"detail":"The reservation is )"
          R"(settled already, with the cost 7.","request_id":"id","cost":7})");
    CHECK(settled_problem_text("[7,0.5]", true, "id")
              .ends_with(R"(with the costs [7,0.5].","request_id":"id","costs":[7,0.5]})"));
}

namespace {

const std::string kCostly =
    "listen: {address: '127.0.0.1:8181', face: check}\n"
    "policies:\n"
    "  calls: {key: [ip], limits: [100/h]}\n"
    "  tokens: {key: [ip], limits: [1000/h], cost: {reserve: 20, settle: {header: x-cost}}}\n"
    "  budget: {key: [ip], limits: [{quota: 4000, per: 1h, unit: usd}],\n"
    "    cost: {reserve: 0.25, settle: {header: x-usd}, unit: usd}}\n"
    "  estimated: {key: [\"body:/model\"], limits: [100000/h], cost: {}}\n"
    "  tried: {key: [ip], limits: [900/h], cost: {reserve: 30, settle: {header: x-cost}}, enforce: "
    "0.001%, candidate: {limits: [500/h]}}\n"
    "routes:\n"
    "  - {name: chat, match: {path: /chat}, policies: [calls, tokens, budget]}\n"
    "  - {name: tried, match: {path: /tried}, policies: [calls, tried]}\n"
    "  - {name: free, match: {path: /free}, policies: [tokens]}\n"
    "  - {name: none, match: {path: /none}, policies: []}\n";

// Items of one call, listed as the face does.
struct Listing {
    explicit Listing(const std::string& body) {
        auto call = read_check_call(body, true);
        REQUIRE(call.has_value());
        for (const CheckItem& item : call->items) {
            auto& question = *questions.emplace_back(std::make_unique<CheckQuestion>());
            auto& decision = *decisions.emplace_back(std::make_unique<ask::Decision>());
            fault = item.policy.empty() ? list_request(item, question, decision)
                                        : list_policy_item(item, *rules.config, question, decision);
            if (!fault.empty()) return;
            REQUIRE(decision.goes_on());
            fault = add_to_charge(decision.charge, whole);
            if (!fault.empty()) return;
            add_costs(item, *rules.config, decision, reserved);
        }
    }
    std::string list_request(const CheckItem& item, CheckQuestion& question,
                             ask::Decision& decision) const {
        make_request_question(item, *rules.config, question, decision);
        ask::match_route(*rules.config, question.facts, decision);
        if (decision.goes_on()) ask::identify(rules, question.facts, decision);
        REQUIRE(decision.goes_on());
        ask::list_charges(*rules.config, question.facts, decision);
        return finish_request_item(item, decision);
    }
    // What each identifier is charged.
    std::vector<std::int64_t> charged() const {
        std::vector<std::int64_t> units;
        for (const auto& item : whole.items) units.push_back(whole.charge().cost_of(item));
        return units;
    }
    std::vector<std::int64_t> costs() const {
        std::vector<std::int64_t> units;
        for (const auto& one : reserved.costs) units.push_back(one.units);
        return units;
    }

    ask::Ruleset rules{ask::load(kCostly)};
    std::vector<std::unique_ptr<CheckQuestion>> questions;
    std::vector<std::unique_ptr<ask::Decision>> decisions;
    store::LimitDecision whole;
    ReservedCosts reserved;
    std::string fault;
};

using Units = std::vector<std::int64_t>;
using Positions = std::vector<std::uint32_t>;

std::string item_of(const std::string& policy, const std::string& address,
                    const std::string& more = "") {
    return R"({"policy":")" + policy + R"(","identifiers":{"ip":")" + address + R"("})" + more +
           "}";
}

const std::string kChat = R"({"request":{"path":"/chat","from":"192.0.2.1"}})";

}  // namespace

TEST_CASE("check question: items of one charge have costs of their own") {
    const Listing some("{\"all\":[" + item_of("calls", "192.0.2.1", R"(,"cost":3)") + "," +
                       item_of("calls", "192.0.2.2", R"(,"cost":4)") + "," +
                       item_of("calls", "192.0.2.3", R"(,"cost":3)") + "]}");
    CHECK(some.fault.empty());
    CHECK(some.charged() == Units{3, 4, 3});
    CHECK(some.whole.items[0].own_cost == limit::ChargeItem::kOfCharge);
    CHECK(some.whole.items[1].own_cost == 4);
    CHECK(some.costs() == Units{3, 4, 3});
    CHECK(some.reserved.cost_of_item == Positions{0, 1, 2});
    const Listing same("{\"all\":[" + item_of("calls", "192.0.2.1", R"(,"cost":3)") + "," +
                       item_of("calls", "192.0.2.2", R"(,"cost":3)") + "]}");
    CHECK_FALSE(same.whole.charge().has_own_costs());
}

TEST_CASE("check question: an item takes what its policy reserves, in the policy's unit") {
    const Listing stated("{\"all\":[" + item_of("tokens", "192.0.2.1") + "," +
                         item_of("budget", "192.0.2.1") + "," +
                         item_of("budget", "192.0.2.2", R"(,"cost":5000)") + "]}");
    CHECK(stated.fault.empty());
    CHECK(stated.charged() == Units{20, 250'000, 5'000'000'000});
    CHECK(stated.reserved.costs[1].in_money);
    CHECK_FALSE(stated.reserved.costs[0].in_money);
    CHECK(Listing(item_of("tokens", "192.0.2.1", R"(,"cost":0.5)")).fault ==
          "cost: write a whole number from 0 to 4294967295");
    CHECK(Listing(item_of("budget", "192.0.2.1", R"(,"cost":1000000001)")).fault ==
          "cost: write dollars, a number from 0 to 1000000000");
}

TEST_CASE("check question: a policy that estimates by the body is asked with a cost and its keys") {
    const std::string item = R"({"policy":"estimated","identifiers":{"body:/model":"m-1"})";
    CHECK(Listing(item + "}").fault.find("write the `cost`") != std::string::npos);
    const Listing listed(item + R"(,"cost":7})");
    CHECK(listed.fault.empty());
    REQUIRE(listed.whole.items.size() == 1);
    CHECK(listed.whole.items[0].identifier == "body:/model=m-1");
    CHECK(listed.charged() == Units{7});
}

namespace {

const std::string kParts =
    "listen: {address: '127.0.0.1:8181', face: check}\n"
    "policies:\n"
    "  capture: {key: [\"path:id\"], on_missing: skip, limits: [9/h]}\n"
    "  captures: {key: [\"path:b+path:a\", \"path:a\"], limits: [9/h]}\n"
    "  claim: {key: [\"claim:org\"], on_missing: skip, limits: [9/h]}\n"
    "  claims: {key: [\"claim:/app/team+claim:a%2Bb\", \"claim:org\"], on_missing: shared, limits: "
    "[9/h]}\n"
    "  other: {key: [\"claim:other|ip\"], limits: [9/h]}\n"
    "  quota: {key: [\"claim:org\"], limits: [{quota: {claim: org, default: 5, max: 9}, per: "
    "1h}]}\n"
    "  query: {key: [\"query:q\"], on_missing: skip, limits: [9/h]}\n"
    "  form: {key: [\"form:f\"], on_missing: shared, limits: [9/h]}\n"
    "  cookie: {key: [\"cookie:c\"], on_missing: skip, limits: [9/h]}\n"
    "  header: {key: [\"header:x-a\"], on_missing: skip, limits: [9/h]}\n"
    "  body: {key: [\"body:/a\"], on_missing: skip, limits: [9/h]}\n"
    "  lower: {key: [\"body_lower:/b\"], on_missing: skip, limits: [9/h]}\n"
    "  words: {key: [method, host, route], on_missing: skip, limits: [9/h]}\n";

// What a call that names a policy counts, or the sentence that refuses it.
std::string counted(const std::string& policy, const std::string& identifiers) {
    const auto config = ask::load(kParts);
    const CheckCall call =
        read(R"({"policy":")" + policy + R"(","identifiers":{)" + identifiers + "}}");
    CheckQuestion question;
    ask::Decision decision;
    const std::string fault = list_policy_item(call.items[0], *config, question, decision);
    if (!fault.empty()) return fault;
    if (!decision.goes_on()) return "status " + std::to_string(status_of(decision));
    std::string all;
    for (const auto& item : decision.charge.items) {
        all.append(all.empty() ? "" : " ").append(item.identifier);
    }
    return all;
}

}  // namespace

TEST_CASE("check question: a value for each kind of part makes its identifier") {
    const std::vector<std::vector<std::string>> cases{
        {"capture", R"("path:id":"7")", "path:id=7"},
        {"captures", R"("path:a":"1","path:b":"2")", "8:path:b=2+8:path:a=1 path:a=1"},
        {"claim", R"("claim:org":" acme ")", "claim:org=acme"},
        {"claims", R"("claim:org":"acme","claim:a%2Bb":"x","claim:/app/team":"y")",
         "17:claim:/app/team=y+11:claim:a+b=x claim:org=acme"},
        {"other", R"("claim:other":"x")", "claim:other=x"},
        {"other", R"("ip":"192.0.2.1")", "ip:192.0.2.1"},
        {"quota", R"("claim:org":"7")", "claim:org=7"},
        {"query", R"("query:q":"a b")", "query:q=a b"},
        {"form", R"("form:f":"a&f=b")", "form:f=a&f=b"},
        {"header", R"("header:x-a":"1")", "header:x-a=1"},
        {"body", R"("body:/a":"1")", "body:/a=1"},
        {"lower", R"("body_lower:/b":"A")", "body_lower:/b=a"},
        {"words", R"("method":"PUT","host":"A.example","route":"r")",
         "method:PUT host:a.example route:r"},
    };
    for (const auto& one : cases) {
        CAPTURE(one[0]);
        CHECK(counted(one[0], one[1]) == one[2]);
    }
}

TEST_CASE("check question: a value that makes no identifier is refused, whatever on_missing says") {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"capture", "path:id"}, {"claim", "claim:org"},    {"query", "query:q"},
        {"form", "form:f"},     {"cookie", "cookie:c"},    {"header", "header:x-a"},
        {"body", "body:/a"},    {"lower", "body_lower:/b"}};
    for (const auto& [policy, part] : cases) {
        CAPTURE(part);
        CHECK(counted(policy, "").find("write each part with its value") != std::string::npos);
        CHECK(counted(policy, "\"" + part + R"(":" ")").find("write each part with its value") !=
              std::string::npos);
    }
    // What is left of these once they are decoded is blank.
    const std::string nothing = "identifiers: nothing can be counted by `";
    CHECK(counted("query", R"("query:q":"+")") == nothing + "query:q` with these values");
    CHECK(counted("form", R"("form:f":"+")") == nothing + "form:f` with these values");
    CHECK(counted("cookie", R"("cookie:c":"%20")") == nothing + "cookie:c` with these values");
    CHECK(counted("cookie", R"("cookie:c":"\"\"")") == nothing + "cookie:c` with these values");
    CHECK(counted("cookie", R"("cookie:c":"a b")") == "status 400");
    // The cookie ends where the value does.
    CHECK(counted("cookie", R"("cookie:c":"a; d=e")") == "status 400");
    CHECK(counted("cookie", R"("cookie:c":"a;b")") != counted("cookie", R"("cookie:c":"a")"));
}

TEST_CASE("check question: a question that is used again has nothing of the one before") {
    const auto config = ask::load(kParts);
    CheckQuestion question;
    ask::Decision decision;
    const auto ask = [&](const std::string& body) {
        question.reset();
        decision.reset();
        return list_policy_item(read(body).items[0], *config, question, decision);
    };
    CHECK(ask(R"({"policy":"capture","identifiers":{"path:id":"7"}})").empty());
    CHECK(ask(R"({"policy":"captures","identifiers":{"path:a":"1","path:b":"2"}})").empty());
    CHECK(decision.charge.items[1].identifier == "path:a=1");
    CHECK(ask(R"({"policy":"claim","identifiers":{"claim:org":"7"}})").empty());
    CHECK(ask(R"({"policy":"other","identifiers":{"ip":"192.0.2.1"}})").empty());
    REQUIRE(decision.charge.items.size() == 1);
    CHECK(decision.charge.items[0].identifier == "ip:192.0.2.1");
}

TEST_CASE("check question: a request has a cost of its route and one of each policy with its own") {
    const Listing one(kChat);
    CHECK(one.fault.empty());
    CHECK(one.charged() == Units{1, 20, 250'000});
    CHECK(one.costs() == Units{1, 20, 250'000});
    CHECK(one.reserved.cost_of_item == Positions{0, 1, 2});
    CHECK(one.reserved.has_several);
    const Listing after("{\"all\":[" + item_of("calls", "192.0.2.9", R"(,"cost":2)") + "," + kChat +
                        R"(,{"request":{"path":"/free","from":"192.0.2.2"},"cost":9},)" +
                        R"({"request":{"path":"/none","from":"192.0.2.2"}}]})");
    CHECK(after.fault.empty());
    CHECK(after.charged() == Units{2, 1, 20, 250'000, 20});
    CHECK(after.costs() == Units{2, 1, 20, 250'000, 20, 1});
    CHECK(after.reserved.cost_of_item == Positions{0, 1, 2, 3, 4});
}

TEST_CASE("check question: a policy with `enforce` and its candidate have one cost") {
    const Listing one(R"({"request":{"path":"/tried","from":"192.0.2.1"}})");
    CHECK(one.fault.empty());
    REQUIRE(one.whole.items.size() == 3);
    CHECK(one.whole.items[1].policy->twin_of != nullptr);
    CHECK(one.whole.items[2].policy->is_candidate());
    CHECK(one.charged() == Units{1, 30, 30});
    CHECK(one.costs() == Units{1, 30});
    CHECK(one.reserved.cost_of_item == Positions{0, 1, 1});
}

TEST_CASE("check answer: what counts money is shown in dollars") {
    Listing listed(item_of("budget", "192.0.2.1"));
    auto& decision = *listed.decisions[0];
    decision.charge.result = Decided::admitted;
    decision.charge.verdict.limits = {{3'999'750'000, 1s, false}};
    std::string out;
    append_answer(listed.rules, decision, out);
    CHECK(out.find(R"("quota":4000,"left":3999.75,)") != std::string::npos);
    CHECK(out.find(R"(,"unit":"usd","denied":false})") != std::string::npos);
}

namespace {

SealedReservation content() {
    SealedReservation made;
    made.reservation.costs = {{7, false}, {1'000'000'000'000'000, true}};
    made.reservation.has_one_cost = false;
    made.reservation.moment = limit::Micros{1'700'000'030'000'000};
    store::Reservation::Part& part = made.reservation.parts.emplace_back();
    part.in_redis = true;
    part.at = limit::Micros{1'700'000'000'000'000};
    part.items.push_back({"per-user",
                          "pro",
                          "user:alice",
                          4'294'967'295,
                          {{0x12345678, 100}, {0xffffffff, 1'000'000'000'000'000}},
                          1});
    part.items.push_back({"per-ip", "", "ip:192.0.2.1", 0, {}, 0});
    made.process = "aabb";
    made.expires =
        std::chrono::system_clock::time_point(std::chrono::milliseconds{1'700'000'060'123});
    return made;
}

}  // namespace

TEST_CASE("sealed id: a process with the secret opens what another sealed") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    const std::string id = seal.seal(sealed);
    CHECK(sealed.nonce.size() == 32);
    const auto opened = IdSeal("0123456789abcdef").open(id);
    REQUIRE(opened);
    CHECK(opened->reservation.costs == content().reservation.costs);
    CHECK_FALSE(opened->reservation.has_one_cost);
    CHECK(opened->reservation.moment == content().reservation.moment);
    REQUIRE(opened->reservation.parts.size() == 1);
    const store::Reservation::Part& part = opened->reservation.parts[0];
    CHECK(part.in_redis);
    CHECK(part.at == limit::Micros{1'700'000'000'000'000});
    REQUIRE(part.items.size() == 2);
    CHECK(part.items[0].policy == "per-user");
    CHECK(part.items[0].tier == "pro");
    CHECK(part.items[0].identifier == "user:alice");
    CHECK(part.items[0].generation == 4'294'967'295);
    REQUIRE(part.items[0].limits.size() == 2);
    CHECK(part.items[0].limits[0].limit == 0x12345678);
    CHECK(part.items[0].limits[0].quota == 100);
    CHECK(part.items[0].limits[1].limit == 0xffffffff);
    CHECK(part.items[0].limits[1].quota == 1'000'000'000'000'000);
    CHECK(part.items[0].cost == 1);
    CHECK(part.items[1].limits.empty());
    CHECK(part.items[1].cost == 0);
    CHECK(opened->process == "aabb");
    CHECK(opened->nonce == sealed.nonce);
    CHECK(opened->expires == content().expires);
    CHECK_FALSE(IdSeal("fedcba9876543210").open(id));
}

TEST_CASE("sealed id: two ids of the same content differ, and show nothing of it") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation one = content();
    SealedReservation other = content();
    const std::string id = seal.seal(one);
    CHECK(id != seal.seal(other));
    CHECK(one.nonce != other.nonce);
    CHECK(id.find("alice") == std::string::npos);
    CHECK(
        id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
        std::string::npos);
}

TEST_CASE("sealed id: the largest reservation has an id that a call can bring back") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    auto& items = sealed.reservation.parts[0].items;
    items[0].policy = std::string(64, 'p');
    items[0].identifier = std::string(128, 'i');
    items[0].limits.assign(limit::kLimitsMax, {0xffffffff, 1'000'000'000'000'000});
    items.assign(64, items[0]);
    sealed.reservation.costs.assign(kCostsMax, {1'000'000'000'000'000, true});
    const std::string id = seal.seal(sealed);
    // Beside it, a settlement has a number for each cost.
    constexpr std::size_t kNumberBytes = 18;
    CHECK(id.size() + kCostsMax * kNumberBytes < kSettleBytesMax - 100);
    const auto opened = seal.open(id);
    REQUIRE(opened);
    CHECK(opened->reservation.parts[0].items.back().limits.size() == limit::kLimitsMax);
}

TEST_CASE("sealed id: a changed id is refused") {
    const IdSeal seal("0123456789abcdef");
    SealedReservation sealed = content();
    const std::string id = seal.seal(sealed);
    for (std::size_t i = 0; i < id.size(); ++i) {
        std::string changed = id;
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        CHECK_FALSE(seal.open(changed));
        CHECK_FALSE(seal.open(id.substr(0, i)));
    }
    CHECK_FALSE(seal.open(""));
    CHECK_FALSE(seal.open(std::string(100'000, 'A')));
}

}  // namespace tidegate::faces::check_test

// The check API: the reader of its calls, its questions and answers, and the ids of reservations.
#include <chrono>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

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
    CHECK(fault(R"({"policy":"p","cost":4294967296})") ==
          "cost: write a whole number from 0 to 4294967295");
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
    for (const std::string ttl : {"0s", "601s", "11min", "1h", "s", "1", "-1s", "1.5s", "9999s"}) {
        CAPTURE(ttl);
        CHECK(fault(R"({"policy":"p","ttl":")" + ttl + "\"}", true) ==
              "ttl: write a time from `1s` to `10min`");
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

TEST_CASE("check call: a settlement is an id and a cost") {
    const auto call = read_settle_call(R"({"id":"abc","cost":7})");
    REQUIRE(call.has_value());
    CHECK(call->id == "abc");
    CHECK(call->cost == 7);
    CHECK_FALSE(read_settle_call(R"({"id":"abc"})").has_value());
    CHECK_FALSE(read_settle_call(R"({"cost":7})").has_value());
    CHECK_FALSE(read_settle_call(R"({"id":7,"cost":7})").has_value());
    CHECK_FALSE(read_settle_call(R"({"id":"a","cost":7,"more":1})").has_value());
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
    explicit Answered(Decided result, std::string_view identifier = "user:alice") {
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

    ask::Ruleset rules{ask::load(kConfiguration)};
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
    CHECK(settled_problem_text(7, "id") ==
          R"({"type":"about:blank","title":"Conflict","status":409,"detail":"The reservation is )"
          R"(settled already, with the cost 7.","request_id":"id","cost":7})");
}

namespace {

SealedReservation content() {
    SealedReservation made;
    made.reservation.cost = 7;
    made.reservation.moment = limit::Micros{1'700'000'030'000'000};
    store::Reservation::Part& part = made.reservation.parts.emplace_back();
    part.in_redis = true;
    part.at = limit::Micros{1'700'000'000'000'000};
    part.items.push_back({"per-user",
                          "pro",
                          "user:alice",
                          4'294'967'295,
                          {{0x12345678, 100}, {0xffffffff, 4'294'967'295}}});
    part.items.push_back({"per-ip", "", "ip:192.0.2.1", 0, {}});
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
    CHECK(opened->reservation.cost == 7);
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
    CHECK(part.items[0].limits[1].quota == 4'294'967'295);
    CHECK(part.items[1].limits.empty());
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
    items[0].limits.resize(limit::kLimitsMax, {0xffffffff, 0xffffffff});
    items.resize(64, items[0]);
    items[1] = items[0];
    const std::string id = seal.seal(sealed);
    CHECK(id.size() < kCheckBytesMax - 100);
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

#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "faces/check_question.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::faces::check_question_test {

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

}  // namespace tidegate::faces::check_question_test

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/batch.hpp"
#include "store/limit_decision.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::batch_test {
namespace {

using namespace std::chrono_literals;
using test::mixed_reply;
using test::script_reply;

// Adds the decision to the batch as the queue does.
bool add(Batch& batch, LimitDecision& decision, bool may_mix = true) {
    return batch.add(decision.charge(), decision.verdict, hash_of(decision.items), may_mix);
}

void begin(Batch& batch, LimitDecision& decision) {
    batch.begin(decision.charge(), decision.verdict, hash_of(decision.items));
}

std::vector<std::string> command_of(Batch& batch) {
    std::string command;
    batch.append_command("tg:", std::nullopt, command);
    return test::words_of(command);
}

// A reply without its frame.
std::string_view text_of(std::string_view reply) {
    const std::size_t begin = reply.find("\r\n") + 2;
    return reply.substr(begin, reply.size() - begin - 2);
}

}  // namespace

TEST_CASE("batch: decisions about the same items are one question with several requests") {
    const auto some = test::policy("some", {test::window(2, 1h)});
    std::array<LimitDecision, 3> decisions;
    for (LimitDecision& one : decisions) one.items = {{&some, "ip:192.0.2.1"}};
    Batch batch;
    begin(batch, decisions[0]);
    CHECK(add(batch, decisions[1], false));
    CHECK(add(batch, decisions[2], false));
    CHECK_FALSE(batch.is_mixed());
    const auto words = command_of(batch);
    CHECK(words.at(1) == batch.script().sha1);
    CHECK(words.at(2) == "1");
    CHECK(words.at(3) == "tg:4:some:{ip:192.0.2.1}");
    const std::string reply = script_reply(std::vector<bool>{true, true, false}, 5'000, {0});
    const auto answers = batch.read_reply(text_of(reply));
    CHECK(std::vector(answers.begin(), answers.end()) == std::vector(3, Mixed::decided));
    CHECK(decisions[1].verdict.admitted);
    CHECK(decisions[1].verdict.limits.at(0).remaining == 0);
    CHECK_FALSE(decisions[2].verdict.admitted);
    CHECK(decisions[2].verdict.retry_after == 5ms);
}

TEST_CASE("batch: different identifiers share a command only where that may be") {
    const auto some = test::policy("some", {test::window(2, 1h)});
    const auto other = test::policy("other", {test::window(2, 1h)});
    auto log_spec = test::spec_of(limit::Algorithm::sliding_log, 2, 1h);
    const auto log = test::policy("log", {test::made(log_spec)});
    LimitDecision first;
    first.items = {{&some, "ip:192.0.2.1"}};
    LimitDecision second;
    second.items = {{&some, "ip:192.0.2.2"}};
    Batch batch;
    begin(batch, first);
    SUBCASE("under the same policies") {
        CHECK(add(batch, second));
        CHECK(batch.is_mixed());
        CHECK(command_of(batch).at(2) == "2");
        // Once they are mixed, the same identifier is one more.
        LimitDecision third;
        third.items = first.items;
        CHECK(add(batch, third, false));
        CHECK(batch.size() == 3);
    }
    SUBCASE("not while mixing pauses") {
        CHECK_FALSE(add(batch, second, false));
    }
    SUBCASE("not under another policy") {
        second.items = {{&other, "ip:192.0.2.2"}};
        CHECK_FALSE(add(batch, second));
    }
    SUBCASE("not with a cost of 0") {
        second.cost = 0;
        CHECK_FALSE(add(batch, second));
    }
    SUBCASE("not with two that are the same") {
        LimitDecision same;
        same.items = first.items;
        CHECK(add(batch, same));
        CHECK_FALSE(add(batch, second));
    }
    SUBCASE("not of limits that have no short script") {
        first.items = {{&log, "ip:192.0.2.1"}};
        second.items = {{&log, "ip:192.0.2.2"}};
        begin(batch, first);
        CHECK_FALSE(add(batch, second));
    }
}

TEST_CASE("batch: a command takes 64 decisions about the same items, 32 about different ones") {
    const auto some = test::policy("some", {test::window(2, 1h)});
    std::array<LimitDecision, 70> decisions;
    std::array<std::string, 70> names;
    for (const bool mixed : {false, true}) {
        Batch batch;
        std::size_t added = 1;
        for (std::size_t i = 0; i < decisions.size(); ++i) {
            names[i] = "ip:192.0.2." + std::to_string(mixed ? i : 0);
            decisions[i].items = {{&some, names[i]}};
            if (i == 0) {
                begin(batch, decisions[0]);
            } else {
                added += add(batch, decisions[i]) ? 1 : 0;
            }
        }
        CHECK(added == (mixed ? kMixedMax : kBatchMax));
    }
}

TEST_CASE("batch: a reply to a mixed command names those to send alone") {
    const auto some = test::policy("some", {test::window(2, 1h)});
    std::array<LimitDecision, 3> decisions;
    const std::array names{"ip:192.0.2.1", "ip:192.0.2.2", "ip:192.0.2.3"};
    Batch batch;
    for (std::size_t i = 0; i < decisions.size(); ++i) decisions[i].items = {{&some, names[i]}};
    begin(batch, decisions[0]);
    CHECK(add(batch, decisions[1]));
    CHECK(add(batch, decisions[2]));
    CHECK(command_of(batch).at(2) == "3");
    const std::string reply = mixed_reply({true, false, true}, 1'000'000, {0, 2, -1});
    const auto answers = batch.read_reply(text_of(reply));
    CHECK(std::vector(answers.begin(), answers.end()) ==
          std::vector{Mixed::decided, Mixed::decided, Mixed::ask_alone});
    CHECK(decisions[0].verdict.admitted);
    CHECK(decisions[1].verdict.retry_after == 1s);
}

TEST_CASE("batch: a malformed reply is unreadable for all") {
    const auto some = test::policy("some", {test::window(2, 1h)});
    std::array<LimitDecision, 2> decisions;
    decisions[0].items = {{&some, "ip:192.0.2.1"}};
    decisions[1].items = {{&some, "ip:192.0.2.2"}};
    Batch batch;
    begin(batch, decisions[0]);
    CHECK(add(batch, decisions[1]));
    command_of(batch);
    const auto unreadable = std::vector(2, Mixed::unreadable);
    const std::string of_one = mixed_reply({true}, 0, {0});
    for (const std::string_view reply : {std::string_view("yes"), text_of(of_one)}) {
        const auto answers = batch.read_reply(reply);
        CHECK(std::vector(answers.begin(), answers.end()) == unreadable);
    }
    const auto answers = batch.reject_reply();
    CHECK(std::vector(answers.begin(), answers.end()) == unreadable);
}

}  // namespace tidegate::store::batch_test

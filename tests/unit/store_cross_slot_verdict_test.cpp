// Every way in which the slots of one decision may answer, in every order.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/cross_slot_charge.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store::cross_slot_verdict_test {
namespace {

using namespace std::chrono_literals;
using limit::ChargeItem;
using limit::LimitVerdict;
using limit::OnStoreFailure;
using test::policy;
using test::window;
using Answer = CrossSlotVerdict::Answer;
using GiveBack = CrossSlotVerdict::GiveBack;
using Next = CrossSlotVerdict::Next;
using Result = CrossSlotVerdict::Result;

limit::Policy policy_that(std::string name, OnStoreFailure on_failure, bool shadow = false) {
    limit::Policy made = policy(std::move(name), {window(10, 1h)});
    made.on_store_failure = on_failure;
    made.shadow = shadow;
    return made;
}

// `7:...` is in slot 7.
std::uint16_t slot_named(const ChargeItem& item) {
    return static_cast<std::uint16_t>(std::stoi(std::string(item.identifier)));
}

// A server's answer to a part: each limit with so much left, as if it were charged alone.
void answer(CrossSlotVerdict::Part& part, bool admits, bool shadow_admits = true) {
    part.verdict = {};
    part.verdict.admitted = admits;
    part.verdict.shadow_admitted = shadow_admits;
    part.verdict.retry_after = admits ? 0s : limit::Micros(1'000 * (part.slot + 1));
    for (const ChargeItem& item : part.items) {
        for (std::size_t i = 0; i < item.limits().size(); ++i) {
            const bool denies = item.policy->shadow ? !shadow_admits : !admits;
            part.verdict.limits.push_back({part.slot, 5s, denies});
        }
        part.verdict.receipt.generations.push_back(7);
    }
    CrossSlotVerdict::answered(part);
}

// The question to each server in turn, and what then holds.
struct Told {
    Answer answer = Answer::admitted;
    bool shadow_admits = true;
};

void tell(CrossSlotVerdict::Part& part, const Told& told) {
    if (told.answer == Answer::failed) {
        CrossSlotVerdict::failed(part);
    } else {
        answer(part, told.answer == Answer::admitted, told.shadow_admits);
    }
}

struct Ended {
    Result result;
    bool asked_local;
};

// Answers in the order given; nothing may be known before the last.
Ended run(CrossSlotVerdict& split, const std::vector<Told>& told,
          const std::vector<std::size_t>& order, Answer here, bool can_be_local) {
    for (const std::size_t position : order) {
        REQUIRE(split.next(can_be_local) == Next::wait);
        tell(split.parts()[position], told[position]);
    }
    Next next = split.next(can_be_local);
    const bool asked_local = next == Next::ask_local;
    if (asked_local) {
        REQUIRE_FALSE(split.local().items.empty());
        tell(split.local(), {here});
        next = split.next(can_be_local);
    }
    REQUIRE(next == Next::end);
    return {split.result(), asked_local};
}

}  // namespace

TEST_CASE("cross_slot_verdict: items of one slot are one part, in their order") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const auto b = policy_that("b", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "7:ip"}, {&a, "3:user"}, {&b, "7:ip"}, {&b, "3:user"}};
    CrossSlotVerdict split;
    for (int again = 0; again < 2; ++again) {
        split.begin(items, 1, slot_named);
        REQUIRE(split.parts().size() == 2);
        CHECK(split.parts()[0].slot == 7);
        CHECK(split.parts()[0].positions == std::vector<std::size_t>{0, 2});
        CHECK(split.parts()[1].items[1].policy == &b);
        CHECK(split.next(true) == Next::wait);
        answer(split.parts()[0], true);
        answer(split.parts()[1], true);
        CHECK(split.next(true) == Next::end);
        limit::Verdict verdict;
        std::vector<ChargeItem> decided;
        split.merge(verdict, decided);
        CHECK(verdict.admitted);
        REQUIRE(verdict.limits.size() == 4);
        CHECK(verdict.limits[0].remaining == 7);
        CHECK(verdict.limits[1].remaining == 3);
        CHECK(verdict.limits[2].remaining == 7);
        REQUIRE(decided.size() == 4);
        CHECK(decided[2].policy == &b);
    }
}

// Three slots, each of which may admit, deny or fail with each failure policy, in each order: all
// or none is taken, no request is admitted that a slot denied, and nothing is given back that was
// not taken.
TEST_CASE("cross_slot_verdict: in any order of the answers, all units are taken or none") {
    const std::array<limit::Policy, 3> policies{policy_that("allow", OnStoreFailure::allow),
                                                policy_that("local", OnStoreFailure::local),
                                                policy_that("deny", OnStoreFailure::deny)};
    const std::array answers{Answer::admitted, Answer::denied, Answer::failed};
    CrossSlotVerdict split;
    std::map<Result, int> seen;
    for (int which = 0; which < 27 * 27 * 4; ++which) {
        const auto digit = [&](int place) {
            static constexpr int kPowers[] = {1, 3, 9, 27, 81, 243};
            return static_cast<std::size_t>(which / kPowers[place] % 3);
        };
        const bool local_admits = which / 729 % 2 == 0;
        const bool can_be_local = which / 1458 == 0;
        std::vector<ChargeItem> items;
        std::vector<Told> told;
        static constexpr std::string_view kNames[] = {"0:a", "1:b", "2:c"};
        for (std::size_t i = 0; i < 3; ++i) {
            items.push_back({&policies[digit(static_cast<int>(i))], kNames[i]});
            told.push_back({answers[digit(static_cast<int>(i) + 3)]});
        }
        std::vector<std::size_t> order{0, 1, 2};
        do {
            split.begin(items, 1, slot_named);
            const Ended ended = run(split, told, order,
                                    local_admits ? Answer::admitted : Answer::denied, can_be_local);
            // The expected result, as plainly as possible.
            bool denied = false;
            bool failed = false;
            bool closed = false;
            bool local = false;
            for (std::size_t i = 0; i < 3; ++i) {
                const OnStoreFailure policy = items[i].policy->on_store_failure;
                denied = denied || told[i].answer == Answer::denied;
                if (told[i].answer != Answer::failed) continue;
                failed = true;
                local = local || policy == OnStoreFailure::local;
                closed = closed || policy == OnStoreFailure::deny ||
                         (policy == OnStoreFailure::local && !can_be_local);
            }
            const bool asks_local = !closed && !denied && local;
            const Result expected = closed                                    ? Result::unavailable
                                    : denied || (asks_local && !local_admits) ? Result::limited
                                                                              : Result::admitted;
            REQUIRE(ended.result == expected);
            REQUIRE(ended.asked_local == asks_local);
            REQUIRE(split.has_failed() == failed);
            for (std::size_t i = 0; i < 3; ++i) {
                const bool taken = told[i].answer == Answer::admitted;
                const bool back = taken && expected != Result::admitted;
                REQUIRE(split.to_give_back(split.parts()[i]) ==
                        (back ? GiveBack::all : GiveBack::nothing));
            }
            REQUIRE(split.to_give_back(split.local()) == GiveBack::nothing);

            limit::Verdict verdict;
            std::vector<ChargeItem> decided;
            split.merge(verdict, decided);
            REQUIRE(verdict.admitted == (expected == Result::admitted));
            REQUIRE(verdict.limits.size() == decided.size());
            bool any_denied = false;
            for (const LimitVerdict& one : verdict.limits) any_denied = any_denied || one.denied;
            REQUIRE(any_denied == (expected == Result::limited));
            REQUIRE((verdict.retry_after > 0s) == (expected == Result::limited));
            ++seen[expected];
        } while (std::next_permutation(order.begin(), order.end()));
    }
    CHECK(seen.size() == 3);
}

TEST_CASE("cross_slot_verdict: what is the client's alone goes first, and alone if it denies") {
    const auto own = policy_that("own", OnStoreFailure::deny);
    const auto shared = policy_that("shared", OnStoreFailure::deny);
    auto counting = policy("counting", {window(10, 1h)});
    counting.limits[0].count = limit::Count::all;
    // One slot has items of both turns.
    const std::vector<ChargeItem> items{{&shared, "1:all"},
                                        {&own, "2:ip", nullptr, true},
                                        {&shared, "2:path"},
                                        {&counting, "3:all"},
                                        {&own, "4:user", nullptr, true}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    const auto due = [&] {
        std::vector<std::string> names;
        for (const auto& part : split.parts()) {
            if (!split.is_due(part)) continue;
            for (const ChargeItem& item : part.items) names.emplace_back(item.identifier);
        }
        return names;
    };
    using Names = std::vector<std::string>;
    CHECK(due() == Names{"2:ip", "3:all", "4:user"});
    const auto answer_due = [&](std::string_view denies) {
        for (auto& part : split.parts()) {
            if (split.is_due(part)) answer(part, part.items[0].identifier != denies);
        }
    };
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    SUBCASE("one of them denies") {
        answer_due("4:user");
        CHECK(split.next(true) == Next::end);
        CHECK(split.result() == Result::limited);
        CHECK(due().empty());
        split.merge(verdict, decided);
        REQUIRE(decided.size() == 3);
        CHECK(decided[0].identifier == "2:ip");
        CHECK(verdict.limits.size() == 3);
        CHECK(split.to_give_back(split.parts()[0]) == GiveBack::nothing);  // 1:all
    }
    SUBCASE("all admit: the others follow, and may deny") {
        answer_due("");
        CHECK(split.next(true) == Next::ask_slots);
        CHECK(due() == Names{"1:all", "2:path"});
        CHECK(split.next(true) == Next::wait);
        answer_due("2:path");
        CHECK(split.next(true) == Next::end);
        CHECK(split.result() == Result::limited);
        for (const auto& part : split.parts()) {
            const bool taken = part.items[0].identifier != "2:path";
            CHECK(split.to_give_back(part) == (taken ? GiveBack::all : GiveBack::nothing));
        }
        split.merge(verdict, decided);
        CHECK(decided.size() == 5);
    }
    SUBCASE("without items of the client, or with nothing else, there is one turn") {
        const std::vector<ChargeItem> alike{{&shared, "1:all"}, {&shared, "2:path"}};
        split.begin(alike, 1, slot_named);
        CHECK(due() == Names{"1:all", "2:path"});
        const std::vector<ChargeItem> mine{{&own, "1:ip", nullptr, true},
                                           {&own, "2:user", nullptr, true}};
        split.begin(mine, 1, slot_named);
        CHECK(due().size() == 2);
        answer_due("");
        CHECK(split.next(true) == Next::end);
    }
}

TEST_CASE("cross_slot_verdict: each turn has its failures decided in process before the next") {
    const auto own = policy_that("own", OnStoreFailure::local);
    const auto shared = policy_that("shared", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&own, "1:ip", nullptr, true}, {&shared, "2:all"}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    CrossSlotVerdict::failed(split.parts()[0]);
    REQUIRE(split.next(true) == Next::ask_local);
    REQUIRE(split.local().items.size() == 1);
    CHECK(split.local().items[0].identifier == "1:ip");
    SUBCASE("it denies: the shared slot is not asked") {
        answer(split.local(), false);
        CHECK(split.next(true) == Next::end);
        CHECK(split.result() == Result::limited);
        CHECK(split.parts()[1].answer == Answer::none);
        CHECK(split.has_failed());
    }
    SUBCASE("it admits, and the shared slot fails, too") {
        answer(split.local(), true);
        REQUIRE(split.next(true) == Next::ask_slots);
        CrossSlotVerdict::failed(split.parts()[1]);
        REQUIRE(split.next(true) == Next::ask_local);
        CHECK(split.local().items[0].identifier == "2:all");
        answer(split.local(), false);
        CHECK(split.next(true) == Next::end);
        CHECK(split.result() == Result::limited);
        CHECK(split.to_give_back(split.locals()[0]) == GiveBack::all);
        CHECK(split.to_give_back(split.locals()[1]) == GiveBack::nothing);
    }
}

TEST_CASE("cross_slot_verdict: the verdict has units that are given back as not taken") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}, {&a, "2:c"}};
    CrossSlotVerdict split;
    split.begin(items, 3, slot_named);
    CHECK(run(split, {{Answer::admitted}, {Answer::admitted}, {Answer::denied}}, {2, 0, 1},
              Answer::none, true)
              .result == Result::limited);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    split.merge(verdict, decided);
    REQUIRE(verdict.limits.size() == 3);
    CHECK(verdict.limits[0].remaining == 7);
    CHECK(verdict.limits[0].next_unit == 5s);
    CHECK(verdict.limits[1].remaining == 10);  // no more than there is
    CHECK(verdict.limits[1].next_unit == 0s);
    CHECK(verdict.limits[2].remaining == 2);
    CHECK(verdict.limits[2].denied);
    CHECK_FALSE(verdict.limits[0].denied);
}

TEST_CASE("cross_slot_verdict: a limit that counts denied requests, too, keeps what it took") {
    auto all = policy("all", {window(10, 1h)});
    all.limits[0].count = limit::Count::all;
    const auto other = policy_that("other", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&all, "4:a"}, {&other, "8:b"}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    run(split, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    split.merge(verdict, decided);
    CHECK(verdict.limits[0].remaining == 4);
}

TEST_CASE("cross_slot_verdict: retry_after is the longest of all, and never is longer than any") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    CrossSlotVerdict split;
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    split.begin(items, 1, slot_named);
    run(split, {{Answer::denied}, {Answer::denied}}, {1, 0}, Answer::none, true);
    split.merge(verdict, decided);
    CHECK(verdict.retry_after == 9ms);
    split.parts()[0].verdict.retry_after = limit::kNever;
    split.merge(verdict, decided);
    CHECK(verdict.retry_after == limit::kNever);
}

TEST_CASE("cross_slot_verdict: the longest wait holds, and only for an admission") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    for (const Answer second : {Answer::admitted, Answer::denied}) {
        CrossSlotVerdict split;
        split.begin(items, 1, slot_named);
        run(split, {{Answer::admitted}, {second}}, {0, 1}, Answer::none, true);
        split.parts()[0].verdict.wait = 30ms;
        limit::Verdict verdict;
        std::vector<ChargeItem> decided;
        split.merge(verdict, decided);
        CHECK(verdict.wait == (second == Answer::admitted ? 30ms : 0ms));
    }
}

TEST_CASE("cross_slot_verdict: without the earliest moment of one schedule there is none") {
    auto schedule = policy("s", {test::made(test::spec_of(limit::Algorithm::schedule, 1, 1min))});
    const auto other = policy_that("other", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&schedule, "4:a"}, {&schedule, "8:b"}, {&other, "2:c"}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    run(split, {{Answer::denied}, {Answer::denied}, {Answer::denied}}, {0, 1, 2}, Answer::none,
        true);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    split.parts()[0].verdict.earliest = 40s;
    split.merge(verdict, decided);
    CHECK(verdict.earliest == 0s);
    split.parts()[1].verdict.earliest = 30s;
    split.merge(verdict, decided);
    CHECK(verdict.earliest == 40s);
}

namespace {

// Items in two slots: a shared policy, and one of the client with its candidate.
struct WithCandidate {
    WithCandidate() {
        live.has_candidate = true;
        candidate.shadow = true;
        candidate.candidate_of = &live;
        split.begin(items, 1, slot_named);
    }
    // Whether the limits of `shared`, `live` and `candidate` deny.
    void answer(bool shared_denies, bool live_denies, bool candidate_denies) {
        REQUIRE(split.parts().size() == 2);
        for (std::size_t i = 0; i < 2; ++i) {
            CrossSlotVerdict::Part& part = split.parts()[i];
            REQUIRE(split.is_due(part));
            part.verdict = {};
            part.verdict.admitted = i == 0 ? !shared_denies : !live_denies;
            part.verdict.retry_after = part.verdict.admitted ? 0s : 1s;
            part.verdict.limits = {{.denied = i == 0 ? shared_denies : live_denies}};
            part.verdict.receipt.generations = {part.verdict.admitted ? 7U : 0U};
            if (i == 1) {
                part.verdict.limits.push_back({.denied = candidate_denies});
                part.verdict.receipt.generations.push_back(candidate_denies ? 0U : 7U);
            }
            CrossSlotVerdict::answered(part);
        }
        REQUIRE(split.next(true) == Next::end);
    }
    // What is given back: of the shared policy, of the live one, of the candidate.
    std::array<bool, 3> back() const {
        return {split.gives_back(split.parts()[0], 0), split.gives_back(split.parts()[1], 0),
                split.gives_back(split.parts()[1], 1)};
    }

    limit::Policy shared = policy_that("shared", OnStoreFailure::local);
    limit::Policy live = policy_that("live", OnStoreFailure::local);
    limit::Policy candidate = policy_that("live@candidate", OnStoreFailure::local);
    std::vector<ChargeItem> items{
        {&shared, "4:all"}, {&live, "8:a", nullptr, true}, {&candidate, "8:a", nullptr, true}};
    CrossSlotVerdict split;
};

}  // namespace

TEST_CASE("cross_slot_verdict: a candidate keeps what it took while the others but its own admit") {
    using Back = std::array<bool, 3>;
    WithCandidate all;
    SUBCASE("all admit") {
        all.answer(false, false, false);
        CHECK(all.back() == Back{false, false, false});
        CHECK(all.split.result() == Result::admitted);
    }
    SUBCASE("its own policy denies: only the shared one gives back") {
        all.answer(false, true, false);
        CHECK(all.back() == Back{true, false, false});
        CHECK(all.split.result() == Result::limited);
    }
    SUBCASE("another denies in its slot: all that was taken goes back") {
        all.answer(true, false, false);
        CHECK(all.back() == Back{false, true, true});
    }
    SUBCASE("it denies itself, which changes nothing for the others") {
        all.answer(false, false, true);
        CHECK(all.back() == Back{false, false, false});
        CHECK(all.split.result() == Result::admitted);
        limit::Verdict verdict;
        std::vector<ChargeItem> decided;
        all.split.merge(verdict, decided);
        CHECK(verdict.admitted);
        CHECK(verdict.shadow_admitted);
        CHECK(verdict.limits.at(2).denied);
    }
}

TEST_CASE("cross_slot_verdict: policies in shadow are a group of their own and deny nothing") {
    const auto open = policy_that("open", OnStoreFailure::local);
    const auto shadow = policy_that("shadow", OnStoreFailure::deny, true);
    const std::vector<ChargeItem> items{{&open, "4:a"}, {&shadow, "4:a"}, {&shadow, "8:b"}};
    CrossSlotVerdict split;
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    SUBCASE("one of them denies: what the other took is given back, and nothing else") {
        split.begin(items, 1, slot_named);
        CHECK(
            run(split, {{Answer::admitted}, {Answer::admitted, false}}, {0, 1}, Answer::none, true)
                .result == Result::admitted);
        CHECK(split.to_give_back(split.parts()[0]) == GiveBack::shadow);
        CHECK(split.to_give_back(split.parts()[1]) == GiveBack::nothing);
        split.merge(verdict, decided);
        CHECK(verdict.admitted);
        CHECK_FALSE(verdict.shadow_admitted);
        CHECK(verdict.limits[0].remaining == 4);
        CHECK(verdict.limits[1].remaining == 5);
        CHECK(verdict.limits[2].remaining == 8);
        CHECK(verdict.limits[2].denied);
    }
    SUBCASE("a slot of theirs alone fails: nobody is refused, though they say deny") {
        split.begin(items, 1, slot_named);
        CHECK(
            run(split, {{Answer::admitted}, {Answer::failed}}, {1, 0}, Answer::none, true).result ==
            Result::admitted);
        split.merge(verdict, decided);
        CHECK(decided.size() == 2);
    }
    SUBCASE("the request is refused: all is given back, theirs too") {
        const std::vector<ChargeItem> more{{&shadow, "4:a"}, {&open, "8:b"}};
        split.begin(more, 1, slot_named);
        CHECK(
            run(split, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true).result ==
            Result::limited);
        CHECK(split.to_give_back(split.parts()[0]) == GiveBack::all);
    }
}

TEST_CASE("cross_slot_verdict: a cost of 0 takes nothing, so nothing is given back") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    CrossSlotVerdict split;
    split.begin(items, 0, slot_named);
    run(split, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true);
    CHECK(split.to_give_back(split.parts()[0]) == GiveBack::nothing);
}

TEST_CASE(
    "cross_slot_verdict: no room in process is unavailable, and all that was taken is given back") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    CHECK(run(split, {{Answer::admitted}, {Answer::failed}}, {0, 1}, Answer::failed, true).result ==
          Result::unavailable);
    CHECK(split.to_give_back(split.parts()[0]) == GiveBack::all);
}

TEST_CASE("cross_slot_verdict: parts that are known to fail decide before any node is asked") {
    const auto open = policy_that("open", OnStoreFailure::allow);
    const auto shared = policy_that("shared", OnStoreFailure::local);
    const auto closed = policy_that("closed", OnStoreFailure::deny);
    const std::vector<ChargeItem> items{{&open, "1:a"}, {&shared, "2:b"}, {&closed, "3:c"}};
    CrossSlotVerdict split;
    split.begin(items, 1, slot_named);
    CHECK_FALSE(split.must_deny(false));
    CrossSlotVerdict::failed(split.parts()[0]);
    CHECK_FALSE(split.must_deny(false));
    CrossSlotVerdict::failed(split.parts()[1]);
    CHECK_FALSE(split.must_deny(true));
    CHECK(split.must_deny(false));
    CrossSlotVerdict::failed(split.parts()[2]);
    CHECK(split.must_deny(true));
}

}  // namespace tidegate::store::cross_slot_verdict_test

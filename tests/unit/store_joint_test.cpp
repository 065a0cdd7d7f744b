// Every way in which the parts of a spread decision may answer, in every order.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/joint.hpp"
#include "unit/store_asking.hpp"

namespace tidegate::store {
namespace {

using namespace std::chrono_literals;
using limit::ChargeItem;
using limit::LimitVerdict;
using limit::OnStoreFailure;
using test::policy;
using test::window;
using Answer = Joint::Answer;
using Back = Joint::Back;
using Next = Joint::Next;
using Result = Joint::Result;

limit::Policy policy_that(std::string name, OnStoreFailure on_failure, bool shadow = false) {
    limit::Policy made = policy(std::move(name), {window(10, 1h)});
    made.on_store_failure = on_failure;
    made.shadow = shadow;
    return made;
}

// `slot:...` lies there.
std::uint16_t slot_of(const ChargeItem& item) {
    return static_cast<std::uint16_t>(std::stoi(std::string(item.identifier)));
}

// What a server says of a part: each limit with so much left, as if it had been asked alone.
void answer(Joint::Part& part, bool admits, bool shadow_admits = true) {
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
    Joint::answered(part);
}

// What is asked of each server in turn, and what then holds.
struct Told {
    Answer answer = Answer::admitted;
    bool shadow_admits = true;
};

void tell(Joint::Part& part, const Told& told) {
    if (told.answer == Answer::failed) {
        Joint::failed(part);
    } else {
        answer(part, told.answer == Answer::admitted, told.shadow_admits);
    }
}

struct Ended {
    Result result;
    bool asked_local;
};

// Answers in the order given; nothing may be known before the last.
Ended run(Joint& joint, const std::vector<Told>& told, const std::vector<std::size_t>& order,
          Answer here, bool can_be_local) {
    for (const std::size_t position : order) {
        REQUIRE(joint.next(can_be_local) == Next::wait);
        tell(joint.parts()[position], told[position]);
    }
    Next next = joint.next(can_be_local);
    const bool asked_local = next == Next::ask_local;
    if (asked_local) {
        REQUIRE_FALSE(joint.local().items.empty());
        tell(joint.local(), {here});
        next = joint.next(can_be_local);
    }
    REQUIRE(next == Next::end);
    return {joint.result(), asked_local};
}

}  // namespace

TEST_CASE("joint: items of one slot are one part, in their order") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const auto b = policy_that("b", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "7:ip"}, {&a, "3:user"}, {&b, "7:ip"}, {&b, "3:user"}};
    Joint joint;
    for (int again = 0; again < 2; ++again) {
        joint.begin(items, 1, slot_of);
        REQUIRE(joint.parts().size() == 2);
        CHECK(joint.parts()[0].slot == 7);
        CHECK(joint.parts()[0].places == std::vector<std::size_t>{0, 2});
        CHECK(joint.parts()[1].items[1].policy == &b);
        CHECK(joint.next(true) == Next::wait);
        answer(joint.parts()[0], true);
        answer(joint.parts()[1], true);
        CHECK(joint.next(true) == Next::end);
        limit::Verdict verdict;
        std::vector<ChargeItem> decided;
        joint.join(verdict, decided);
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
// or none is taken, nobody is admitted whom somebody denied, and nothing is given back that was not
// taken.
TEST_CASE("joint: whatever the parts answer in whatever order, all or none is taken") {
    const std::array<limit::Policy, 3> policies{policy_that("allow", OnStoreFailure::allow),
                                                policy_that("local", OnStoreFailure::local),
                                                policy_that("deny", OnStoreFailure::deny)};
    const std::array answers{Answer::admitted, Answer::denied, Answer::failed};
    Joint joint;
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
            joint.begin(items, 1, slot_of);
            const Ended ended = run(joint, told, order,
                                    local_admits ? Answer::admitted : Answer::denied, can_be_local);
            // What must be so, said as plainly as can be.
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
            REQUIRE(joint.has_failed() == failed);
            for (std::size_t i = 0; i < 3; ++i) {
                const bool taken = told[i].answer == Answer::admitted;
                const bool back = taken && expected != Result::admitted;
                REQUIRE(joint.back_of(joint.parts()[i]) == (back ? Back::all : Back::nothing));
            }
            REQUIRE(joint.back_of(joint.local()) == Back::nothing);

            limit::Verdict verdict;
            std::vector<ChargeItem> decided;
            joint.join(verdict, decided);
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

TEST_CASE("joint: what is given back is told as if it had not been taken") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}, {&a, "2:c"}};
    Joint joint;
    joint.begin(items, 3, slot_of);
    CHECK(run(joint, {{Answer::admitted}, {Answer::admitted}, {Answer::denied}}, {2, 0, 1},
              Answer::none, true)
              .result == Result::limited);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    joint.join(verdict, decided);
    REQUIRE(verdict.limits.size() == 3);
    CHECK(verdict.limits[0].remaining == 7);
    CHECK(verdict.limits[0].next_unit == 5s);
    CHECK(verdict.limits[1].remaining == 10);  // no more than there is
    CHECK(verdict.limits[1].next_unit == 0s);
    CHECK(verdict.limits[2].remaining == 2);
    CHECK(verdict.limits[2].denied);
    CHECK_FALSE(verdict.limits[0].denied);
}

TEST_CASE("joint: what counts the denied, too, keeps what it took") {
    auto all = policy("all", {window(10, 1h)});
    all.limits[0].count = limit::Count::all;
    const auto other = policy_that("other", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&all, "4:a"}, {&other, "8:b"}};
    Joint joint;
    joint.begin(items, 1, slot_of);
    run(joint, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    joint.join(verdict, decided);
    CHECK(verdict.limits[0].remaining == 4);
}

TEST_CASE("joint: the latest time to come back is told, and never is later than any") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    Joint joint;
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    joint.begin(items, 1, slot_of);
    run(joint, {{Answer::denied}, {Answer::denied}}, {1, 0}, Answer::none, true);
    joint.join(verdict, decided);
    CHECK(verdict.retry_after == 9ms);
    joint.parts()[0].verdict.retry_after = limit::kNever;
    joint.join(verdict, decided);
    CHECK(verdict.retry_after == limit::kNever);
}

TEST_CASE("joint: the longest wait holds, and only for who is admitted") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    for (const Answer second : {Answer::admitted, Answer::denied}) {
        Joint joint;
        joint.begin(items, 1, slot_of);
        run(joint, {{Answer::admitted}, {second}}, {0, 1}, Answer::none, true);
        joint.parts()[0].verdict.wait = 30ms;
        limit::Verdict verdict;
        std::vector<ChargeItem> decided;
        joint.join(verdict, decided);
        CHECK(verdict.wait == (second == Answer::admitted ? 30ms : 0ms));
    }
}

TEST_CASE("joint: where a schedule does not say when, nobody does") {
    auto schedule = policy("s", {test::made(test::spec_of(limit::Algorithm::schedule, 1, 1min))});
    const auto other = policy_that("other", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&schedule, "4:a"}, {&schedule, "8:b"}, {&other, "2:c"}};
    Joint joint;
    joint.begin(items, 1, slot_of);
    run(joint, {{Answer::denied}, {Answer::denied}, {Answer::denied}}, {0, 1, 2}, Answer::none,
        true);
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    joint.parts()[0].verdict.earliest = 40s;
    joint.join(verdict, decided);
    CHECK(verdict.earliest == 0s);
    joint.parts()[1].verdict.earliest = 30s;
    joint.join(verdict, decided);
    CHECK(verdict.earliest == 40s);
}

TEST_CASE("joint: policies in shadow are all or none of their own and refuse nobody") {
    const auto open = policy_that("open", OnStoreFailure::local);
    const auto shadow = policy_that("shadow", OnStoreFailure::deny, true);
    const std::vector<ChargeItem> items{{&open, "4:a"}, {&shadow, "4:a"}, {&shadow, "8:b"}};
    Joint joint;
    limit::Verdict verdict;
    std::vector<ChargeItem> decided;
    SUBCASE("one of them denies: what the other took is given back, and nothing else") {
        joint.begin(items, 1, slot_of);
        CHECK(
            run(joint, {{Answer::admitted}, {Answer::admitted, false}}, {0, 1}, Answer::none, true)
                .result == Result::admitted);
        CHECK(joint.back_of(joint.parts()[0]) == Back::shadow);
        CHECK(joint.back_of(joint.parts()[1]) == Back::nothing);
        joint.join(verdict, decided);
        CHECK(verdict.admitted);
        CHECK_FALSE(verdict.shadow_admitted);
        CHECK(verdict.limits[0].remaining == 4);
        CHECK(verdict.limits[1].remaining == 5);
        CHECK(verdict.limits[2].remaining == 8);
        CHECK(verdict.limits[2].denied);
    }
    SUBCASE("a slot of theirs alone fails: nobody is refused, though they say deny") {
        joint.begin(items, 1, slot_of);
        CHECK(
            run(joint, {{Answer::admitted}, {Answer::failed}}, {1, 0}, Answer::none, true).result ==
            Result::admitted);
        joint.join(verdict, decided);
        CHECK(decided.size() == 2);
    }
    SUBCASE("the request is refused: all is given back, theirs too") {
        const std::vector<ChargeItem> more{{&shadow, "4:a"}, {&open, "8:b"}};
        joint.begin(more, 1, slot_of);
        CHECK(
            run(joint, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true).result ==
            Result::limited);
        CHECK(joint.back_of(joint.parts()[0]) == Back::all);
    }
}

TEST_CASE("joint: who asks only takes nothing, so nothing is given back") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    Joint joint;
    joint.begin(items, 0, slot_of);
    run(joint, {{Answer::admitted}, {Answer::denied}}, {0, 1}, Answer::none, true);
    CHECK(joint.back_of(joint.parts()[0]) == Back::nothing);
}

TEST_CASE("joint: no room in process is unavailable, and all that was taken is given back") {
    const auto a = policy_that("a", OnStoreFailure::local);
    const std::vector<ChargeItem> items{{&a, "4:a"}, {&a, "8:b"}};
    Joint joint;
    joint.begin(items, 1, slot_of);
    CHECK(run(joint, {{Answer::admitted}, {Answer::failed}}, {0, 1}, Answer::failed, true).result ==
          Result::unavailable);
    CHECK(joint.back_of(joint.parts()[0]) == Back::all);
}

TEST_CASE("joint: what is known to fail before anybody is asked") {
    const auto open = policy_that("open", OnStoreFailure::allow);
    const auto shared = policy_that("shared", OnStoreFailure::local);
    const auto closed = policy_that("closed", OnStoreFailure::deny);
    const std::vector<ChargeItem> items{{&open, "1:a"}, {&shared, "2:b"}, {&closed, "3:c"}};
    Joint joint;
    joint.begin(items, 1, slot_of);
    CHECK_FALSE(joint.must_deny(false));
    Joint::failed(joint.parts()[0]);
    CHECK_FALSE(joint.must_deny(false));
    Joint::failed(joint.parts()[1]);
    CHECK_FALSE(joint.must_deny(true));
    CHECK(joint.must_deny(false));
    Joint::failed(joint.parts()[2]);
    CHECK(joint.must_deny(true));
}

}  // namespace tidegate::store

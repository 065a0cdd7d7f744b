#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "store/batch_queue.hpp"
#include "store/charge_script.hpp"
#include "store/limit_decision.hpp"
#include "store/limiter.hpp"
#include "unit/script_reply.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::batch_queue_test {

using namespace std::chrono_literals;
using limit::OnStoreFailure;
using test::mixed_reply;
using test::script_reply;
using test::Words;

namespace {

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

namespace {

using Result = LimitDecision::Result;
using OwnerOfItems = std::shared_ptr<const config::Config>;

constexpr std::chrono::milliseconds kTimeoutOfCharges{60};

limit::Policy shared_policy(std::string name) {
    limit::Policy policy = test::policy(std::move(name), {test::window(1'000, 1h)});
    policy.on_store_failure = OnStoreFailure::allow;
    return policy;
}

// How many requests a command decides: each has a cost.
std::size_t requests_of(const Words& words) {
    return words.at(4 + std::stoul(words.at(2))).size() / sizeof(double);
}

std::string admit_all(const Words& words) {
    const std::size_t requests = requests_of(words);
    const std::vector<bool> admitted(requests, true);
    const bool is_mixed = requests > 1 && words.at(2) != "1";
    return is_mixed ? mixed_reply(admitted, 0, std::vector<std::int64_t>(requests, 0))
                    : script_reply(admitted, 0, {0});
}

// Two limiters, as of two threads, on one loop and one connection.
struct Pair : test::RedisFixture {
    Pair() {
        for (std::optional<Limiter>& one : limiters) {
            one.emplace(
                memory,
                Limiter::RedisParts{
                    .store = {client, "tg:"},
                    .replicas = &replicas,
                    .sharing = BatchQueue::Sharing{&charges, io.get_executor(), kTimeoutOfCharges}},
                metrics);
        }
        server.evalsha = [this](const Words& words) {
            commands.push_back(words);
            return answers ? admit_all(words) : std::string();
        };
        run();
        await_up(true);
        CHECK(wait([&] { return server.count("SCRIPT") > 0; }));
    }
    ~Pair() { stop(); }

    LimitDecision& decide(std::size_t limiter, const limit::Policy& policy) {
        LimitDecision& decision = decisions.emplace_back();
        names.push_back("user:" + std::to_string(decisions.size()));
        decision.items = {{&policy, names.back()}};
        decision.owner = &owner;
        limiters[limiter]->decide(decision, sleeper, asked);
        return decision;
    }
    // Two commands that Redis does not answer.
    void fill_the_way() {
        answers = false;
        decide(0, first);
        decide(1, first);
        CHECK(wait([&] { return commands.size() == 2; }));
    }
    void answer(std::size_t command) { server.say(admit_all(commands.at(command))); }
    bool are_decided() const {
        return std::none_of(decisions.begin(), decisions.end(),
                            [](const LimitDecision& one) { return one.result == Result::pending; });
    }

    Replicas replicas{0};
    MemoryStore memory{MemoryStore::Options{}};
    SharedCharges charges{0};
    std::array<std::optional<Limiter>, 2> limiters;
    Wakeup sleeper{io.get_executor()};
    limit::Policy first = shared_policy("first");
    limit::Policy second = shared_policy("second");
    OwnerOfItems owner = std::make_shared<const config::Config>();
    // No deadline comes while a test runs.
    SteadyTime asked = std::chrono::steady_clock::now() + 1h;
    std::deque<LimitDecision> decisions;
    std::deque<std::string> names;
    std::vector<Words> commands;
    bool answers = true;
};

}  // namespace

TEST_CASE("shared_charges: while two commands are under way, decisions of all threads wait") {
    Pair pair;
    pair.fill_the_way();
    pair.decide(0, pair.second);
    pair.decide(1, pair.second);
    pair.decide(1, pair.first);
    CHECK(pair.charges.is_busy());
    CHECK_FALSE(pair.limiters[0]->is_idle());
    // One answer, and they leave: in as few commands as there are policies.
    pair.answer(0);
    CHECK(pair.wait([&] { return pair.commands.size() == 4; }));
    CHECK(requests_of(pair.commands[2]) == 2);
    CHECK(requests_of(pair.commands[3]) == 1);
    for (const std::size_t command : {1, 2, 3}) pair.answer(command);
    CHECK(pair.wait([&] { return pair.are_decided(); }));
    for (const LimitDecision& one : pair.decisions) {
        CHECK(one.result == Result::admitted);
        CHECK_FALSE(one.store_failed);
        CHECK(one.verdict.limits.at(0).remaining == 999);
    }
    CHECK(pair.wait([&] { return pair.limiters[0]->is_idle() && pair.limiters[1]->is_idle(); }));
    CHECK_FALSE(pair.charges.is_busy());
}

TEST_CASE("shared_charges: as many decisions as a command takes wait for no answer") {
    Pair pair;
    pair.fill_the_way();
    for (std::size_t i = 0; i + 1 < kMixedMax; ++i) pair.decide(i % 2, pair.second);
    CHECK_FALSE(pair.limiters[1]->is_idle());
    pair.decide(0, pair.second);
    CHECK(pair.wait([&] { return pair.commands.size() == 3; }));
    CHECK(requests_of(pair.commands[2]) == kMixedMax);
    for (const std::size_t command : {0, 1, 2}) pair.answer(command);
    CHECK(pair.wait([&] { return pair.are_decided(); }));
}

TEST_CASE("shared_charges: a decision that only its thread may send does not wait") {
    Pair pair;
    pair.fill_the_way();
    LimitDecision decision;
    decision.items = {{&pair.second, "user:0"}};
    pair.limiters[0]->decide(decision, pair.sleeper, pair.asked);
    CHECK(pair.wait([&] { return pair.commands.size() == 3; }));
    pair.server.hang_up();
    CHECK(pair.wait([&] { return decision.result != Result::pending; }));
}

TEST_CASE(
    "shared_charges: after a lost command, waiting decisions are sent by their own threads, once") {
    Pair pair;
    pair.fill_the_way();
    LimitDecision& waiting = pair.decide(0, pair.second);
    LimitDecision& another = pair.decide(1, pair.second);
    pair.answers = true;
    pair.server.hang_up();
    CHECK(pair.wait([&] { return pair.are_decided(); }));
    CHECK(pair.commands.size() == 4);
    for (const LimitDecision* one : {&waiting, &another}) {
        CHECK(one->result == Result::admitted);
        CHECK_FALSE(one->store_failed);
    }
    // Those that were under way may have counted: they are not sent again.
    CHECK(pair.decisions[0].store_failed);
    CHECK(pair.decisions[1].store_failed);
}

TEST_CASE("shared_charges: a thread takes back decisions that wait for too long") {
    Pair pair;
    pair.fill_the_way();
    pair.decide(0, pair.second);
    pair.decide(1, pair.second);
    pair.limiters[0]->tend_lent(pair.asked + 5ms);
    CHECK(pair.commands.size() == 2);
    pair.limiters[0]->tend_lent(pair.asked + 50ms);
    CHECK(pair.wait([&] { return pair.commands.size() == 3; }));
    CHECK(pair.commands[2].at(3) == "tg:4:second:{user:3}");
    pair.answers = true;
    pair.server.hang_up();
    CHECK(pair.wait([&] { return pair.are_decided(); }));
}

TEST_CASE("shared_charges: a thread gives up decisions that another does not answer in time") {
    Pair pair;
    pair.fill_the_way();
    LimitDecision& waiting = pair.decide(0, pair.second);
    pair.decide(1, pair.second);
    pair.answer(0);
    // Now they are on the way of the limiter that had the answer, unanswered.
    CHECK(pair.wait([&] { return pair.commands.size() == 3; }));
    CHECK(requests_of(pair.commands[2]) == 2);
    CHECK(waiting.result == Result::pending);
    CHECK(pair.owner.use_count() == 1);
    pair.limiters[0]->tend_lent(pair.asked + kTimeoutOfCharges);
    CHECK(waiting.result == Result::admitted);
    CHECK(waiting.store_failed);
    CHECK(pair.metrics_have("tidegate_store_failures_total{reason=\"timeout\"} 1"));
    // The other thread may still read the policy.
    CHECK(pair.owner.use_count() == 2);
    CHECK_FALSE(pair.limiters[0]->is_idle());
    pair.answer(1);
    pair.answer(2);
    CHECK(pair.wait([&] { return pair.are_decided() && pair.limiters[0]->is_idle(); }));
    CHECK(pair.owner.use_count() == 1);
}

namespace {

// One thread with its loop, its server and its limiter.
struct AskingThread : test::RedisFixture {
    AskingThread(SharedCharges& charges, const limit::Policy& policy, const OwnerOfItems& owner)
        : RedisFixture(all_scripts(), 100, kNoTimeout) {
        limiter.emplace(
            memory,
            Limiter::RedisParts{
                .store = {client, "tg:"},
                .replicas = &replicas,
                .sharing = BatchQueue::Sharing{&charges, io.get_executor(), kNoTimeout}},
            metrics);
        server.evalsha = [this](const Words& words) {
            ++commands;
            requests += requests_of(words);
            return admit_all(words);
        };
        for (std::size_t i = 0; i < asks.size(); ++i) {
            names[i] = "user:" + std::to_string(i);
            asks[i].items = {{&policy, names[i]}};
            asks[i].owner = &owner;
        }
        run();
        await_up(true);
    }
    ~AskingThread() { stop(); }

    // Decides, several at a time, until it has enough; then goes on for the others, which `asking`
    // counts.
    void ask(std::atomic<int>& asking, std::size_t enough) {
        std::array<bool, kAtOnce> is_asked{};
        std::size_t begun = 0;
        for (bool has_enough = false; asking.load() != 0;) {
            for (std::size_t i = 0; i < kAtOnce; ++i) {
                if (is_asked[i] && asks[i].result == Result::pending) continue;
                if (std::exchange(is_asked[i], false)) {
                    ++decided;
                    failed += asks[i].store_failed ? 1 : 0;
                }
                if (begun == enough) continue;
                ++begun;
                is_asked[i] = true;
                limiter->decide(asks[i], sleeper);
            }
            if (decided == enough && !std::exchange(has_enough, true)) --asking;
            io.restart();
            io.run_one_for(1ms);
        }
    }

    static constexpr std::chrono::milliseconds kNoTimeout{3'600'000};
    static constexpr std::size_t kAtOnce = 6;

    Replicas replicas{0};
    MemoryStore memory{MemoryStore::Options{}};
    std::optional<Limiter> limiter;
    Wakeup sleeper{io.get_executor()};
    std::array<LimitDecision, kAtOnce> asks;
    std::array<std::string, kAtOnce> names;
    std::size_t decided = 0;
    std::size_t failed = 0;
    std::size_t commands = 0;
    std::size_t requests = 0;
};

}  // namespace

TEST_CASE("shared_charges: threads decide each question once, and share commands") {
    constexpr std::size_t kEnough = 2'000;
    const limit::Policy policy = shared_policy("shared");
    const OwnerOfItems owner = std::make_shared<const config::Config>();
    SharedCharges charges{0};
    std::deque<AskingThread> asking;
    for (int i = 0; i < 4; ++i) asking.emplace_back(charges, policy, owner);
    std::atomic<int> left{4};
    std::vector<std::thread> threads;
    for (AskingThread& one : asking) threads.emplace_back([&] { one.ask(left, kEnough); });
    for (std::thread& one : threads) one.join();
    std::size_t commands = 0;
    std::size_t requests = 0;
    for (const AskingThread& one : asking) {
        CHECK(one.decided == kEnough);
        CHECK(one.failed == 0);
        CHECK(one.limiter->is_idle());
        commands += one.commands;
        requests += one.requests;
    }
    CHECK(requests == 4 * kEnough);
    CHECK(commands < requests);
    CHECK(owner.use_count() == 1);
}

}  // namespace tidegate::store::batch_queue_test

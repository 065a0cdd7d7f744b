// The charge script has a fast path for plain windows, with a branch for each small number of
// limits and a loop for more, and decides several requests in one command. Each way of deciding a
// request must give the same verdict and the same state. TIDEGATE_SEED says which sequences,
// TIDEGATE_TRACES how many.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/charge_script.hpp"
#include "store/redis_asking.hpp"
#include "store/redis_store.hpp"
#include "store/scripts.hpp"

namespace tidegate::test::redis_ways_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Verdict;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr std::int64_t kNeverReached = 1'000'000;

// The script without the fast path.
const redis::Script& general() {
    return store::charge_script({});
}

// Random requests on few identifiers, at times where something happens.
class Sequence {
  public:
    enum class Limits : std::uint8_t { plain_windows, all_that_share };

    Sequence(std::uint64_t seed, Limits limits) : random_(seed) {
        const std::int64_t policies = one_in(2) ? 1 : between(2, 3);
        for (std::int64_t i = 0; i < policies; ++i) {
            policies_.push_back(
                policy("p" + std::to_string(seed) + "-" + std::to_string(i), list_of(limits)));
        }
    }
    Sequence(const Sequence&) = delete;
    Sequence& operator=(const Sequence&) = delete;

    // Names under one policy, in turn under all, or all names under all.
    limit::Charge next_charge() {
        items_.clear();
        const std::int64_t first = between(0, 2);
        const std::int64_t count = one_in(3) ? between(2, 3) : 1;
        for (const limit::Policy& one : policies_) {
            if (policies_.size() > 1 && one_in(4)) continue;
            for (std::int64_t i = 0; i < count; ++i) {
                items_.push_back({&one, kNames[(first + i) % 3]});
            }
        }
        if (items_.empty()) items_.push_back({&policies_[0], kNames[first]});
        set_own_costs(choose_own(), 0, items_);
        return {items_, next_cost()};
    }

    // Two and more under the same policies, that can_mix(); some names in several of them.
    std::vector<limit::Charge> next_mixed() {
        constexpr std::size_t kItemsMax = 4;
        std::vector<const limit::Policy*> shape;
        const std::int64_t count = between(1, 2);
        for (const limit::Policy& one : policies_) {
            if (shape.size() + count > kItemsMax || (!shape.empty() && one_in(3))) continue;
            shape.insert(shape.end(), count, &one);
        }
        mixed_items_.assign(between(2, store::kMixedMax), {});
        const OwnCosts own = choose_own();
        std::vector<limit::Charge> charges;
        for (std::vector<limit::ChargeItem>& items : mixed_items_) {
            for (std::size_t i = 0; i < shape.size(); ++i) {
                // Neighbours under one policy differ.
                const std::size_t name = index_below(kNames.size() / 2) * 2 + i % 2;
                items.push_back({shape[i], kNames[name]});
            }
            set_own_costs(own, 1, items);
            charges.push_back({items, std::max<std::int64_t>(1, next_cost())});
        }
        return charges;
    }

    // The policies whose items have costs of their own.
    using OwnCosts = std::vector<const limit::Policy*>;

    OwnCosts choose_own() {
        OwnCosts own;
        for (const limit::Policy& one : policies_) {
            if (one_in(4)) own.push_back(&one);
        }
        return own;
    }

    // Items of one policy have one cost.
    void set_own_costs(const OwnCosts& own, std::int64_t least,
                       std::vector<limit::ChargeItem>& items) {
        for (const limit::Policy* policy : own) {
            const std::int64_t cost = std::max(least, next_cost());
            for (limit::ChargeItem& item : items) {
                if (item.policy == policy) item.own_cost = cost;
            }
        }
    }

    std::int64_t next_cost() {
        if (one_in(12)) return 0;
        if (!one_in(4)) return 1;
        return between(1, std::min<std::int64_t>(some_limit().quota + 2, 1'000));
    }

    // After that answer.
    Micros next_time(const Verdict& verdict) {
        const Limit& limit = some_limit();
        const Micros width = limit.precision.count() > 0 ? limit.precision : limit.duration;
        switch (between(0, 9)) {
            case 0:
                now_ += Micros{between(0, 3)};
                break;
            case 1:
                now_ += width - Micros{now_ % width};
                break;  // where a sub-bucket begins
            case 2:
                now_ += width - Micros{now_ % width} - 1us;
                break;
            case 3:
                now_ += limit.duration * between(1, 3);
                break;
            case 4:
                now_ -= std::min(Micros{between(0, 2 * limit.duration.count())}, Micros{now_} / 2);
                break;
            case 5:
            case 6:
                if (verdict.retry_after < limit::kNever / 4) now_ += verdict.retry_after;
                break;
            case 7:
                if (!verdict.limits.empty()) now_ += verdict.limits[0].next_unit;
                break;
            default:
                now_ += Micros{between(0, limit.duration.count() / 7)};
                break;
        }
        return now_;
    }

    Micros now() const { return now_; }
    bool one_in(std::int64_t n) { return between(1, n) == 1; }
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    const std::vector<limit::Policy>& policies() const { return policies_; }

    static constexpr std::array<std::string_view, 8> kNames{
        "ip:192.0.2.1", "user:a", "user:b", "user:c", "user:d", "user:e", "user:f", "user:g"};

  private:
    const Limit& some_limit() {
        const limit::Policy& some = policies_[index_below(policies_.size())];
        return some.limits[index_below(some.limits.size())];
    }

    std::size_t index_below(std::size_t size) {
        return static_cast<std::size_t>(between(0, static_cast<std::int64_t>(size) - 1));
    }

    std::vector<Limit> list_of(Limits limits) {
        const std::int64_t count = one_in(4) ? between(5, 20) : between(1, 4);
        std::vector<Limit> list;
        while (static_cast<std::int64_t>(list.size()) < count) {
            const Limit limit =
                made(limits == Limits::plain_windows || one_in(3) ? plain() : other());
            bool is_new = true;
            for (const Limit& one : list) is_new = is_new && one.id != limit.id;
            if (is_new) list.push_back(limit);
        }
        return list;
    }

    Micros duration() {
        constexpr std::array<Micros, 8> kCommon{1ms, 10ms, 100ms, 1s, 10s, 1min, 1h, 24h};
        return kCommon[between(0, kCommon.size() - 1)];
    }

    LimitSpec plain() {
        LimitSpec spec;
        spec.duration = duration();
        spec.quota = one_in(10) ? between(0, 1) * limit::kQuotaMax : between(1, 12);
        if (one_in(4)) {
            spec.algorithm = Algorithm::fixed_window;
            return spec;
        }
        spec.strict = one_in(4);
        if (one_in(2)) spec.precision = spec.duration / between(1, 20);
        if (one_in(4)) spec.precision = spec.duration * 10 / between(11, 77);
        return spec;
    }

    LimitSpec other() {
        LimitSpec spec;
        spec.duration = duration();
        spec.quota = between(1, 12);
        switch (between(0, 3)) {
            case 0:
                spec.algorithm = Algorithm::gcra;
                break;
            case 3:
                spec.in_money = true;
                break;
            case 1:
                spec.algorithm = Algorithm::sliding_log;
                break;
            default:
                spec.algorithm = Algorithm::fixed_window;
                spec.anchor = limit::Anchor::first_request;
        }
        return spec;
    }

    std::mt19937_64 random_;
    std::vector<limit::Policy> policies_;
    std::vector<limit::ChargeItem> items_;
    std::vector<std::vector<limit::ChargeItem>> mixed_items_;
    Micros now_ = kStart;
};

std::string key_of(std::string_view prefix, const limit::Policy& policy, std::string_view name) {
    return std::string(prefix) + "4:" + policy.name + ":{" + std::string(name) + "}";
}

// "" if every reader finds the same states under both prefixes. How long the keys were to live
// depends on when they were written, unless both were written `in_step`.
std::string difference(RedisSubject& redis, const limit::Policy& policy, std::string_view name,
                       bool in_step) {
    const std::string one = redis.text({"GET", key_of("t:", policy, name)});
    const std::string other = redis.text({"GET", key_of("l:", policy, name)});
    if (one.empty() && other.empty()) return {};
    // Keys of earlier sequences expire meanwhile: of two, the one that was written first.
    if (one.empty() || other.empty()) {
        const std::string key = key_of(one.empty() ? "l:" : "t:", policy, name);
        const bool is_at_its_end = std::stoll(redis.text({"PTTL", key})) < 1'000;
        return is_at_its_end ? std::string() : "only " + key + " has a state";
    }
    State first = taken_apart(one);
    const State second = taken_apart(other);
    if (!in_step) first.expiry = second.expiry;
    return first == second ? std::string() : written(first) + "\nbut\n" + written(second);
}

std::string difference(RedisSubject& redis, const Sequence& sequence, bool in_step) {
    for (const limit::Policy& policy : sequence.policies()) {
        for (std::string_view name : Sequence::kNames) {
            const std::string fault = difference(redis, policy, name, in_step);
            if (!fault.empty()) return fault;
        }
    }
    return {};
}

// A script of ours in which `word` is another, wherever it stands.
class Altered {
  public:
    Altered(RedisSubject& redis, const redis::Script& script, std::string_view word,
            const std::string& other)
        : text_(script.text) {
        for (std::size_t at = text_.find(word); at != std::string::npos;
             at = text_.find(word, at + other.size())) {
            text_.replace(at, word.size(), other);
        }
        sha1_ = redis.text({"SCRIPT", "LOAD", text_});
        script_ = {"charge", sha1_, text_};
    }
    Altered(const Altered&) = delete;
    Altered& operator=(const Altered&) = delete;

    const redis::Script* script() const { return &script_; }

  private:
    std::string text_;
    std::string sha1_;
    redis::Script script_{};
};

// The script of each charge, which also counts how often its fast path is asked and how often it
// leaves a charge to the general way.
class CountedFastPath {
  public:
    explicit CountedFastPath(RedisSubject& redis) : redis_(redis) {}

    const redis::Script* script_of(const limit::Charge& charge) {
        const redis::Script& script = store::charge_script(charge);
        if (&script == &general()) return &script;
        Part& part = has_many_limits(charge) ? loop_ : branches_;
        ++part.asked;
        if (!part.script) {
            part.script = std::make_unique<Altered>(
                redis_, script, store::lua_file("state"),
                "redis.call('INCR', '" + part.key + "')\n" + std::string(store::lua_file("state")));
        }
        return part.script->script();
    }

    // Before all keys are deleted.
    void gather() {
        for (Part* part : {&branches_, &loop_}) {
            const std::string text = redis_.text({"GET", part->key});
            if (!text.empty()) part->left_alone += std::stoull(text);
        }
    }

    // Branches and loop have been used, and have decided most charges themselves.
    bool is_worth_it() const { return decides_most(branches_) && decides_most(loop_); }

  private:
    struct Part {
        std::string key;
        std::unique_ptr<Altered> script{};
        std::uint64_t asked = 0;
        std::uint64_t left_alone = 0;
    };
    static bool has_many_limits(const limit::Charge& charge) {
        return std::any_of(charge.items.begin(), charge.items.end(),
                           [](const limit::ChargeItem& item) { return item.limits().size() > 4; });
    }
    static bool decides_most(const Part& part) {
        return part.asked > 0 && part.left_alone * 2 < part.asked;
    }

    RedisSubject& redis_;
    Part branches_{"branches"};
    Part loop_{"loop"};
};

// The same requests with the fast path and without it; some of what is admitted is given back. With
// `mixed`, the first prefix is asked by the one or the other. "" if no difference was seen.
std::string difference_of_ways(RedisSubject& redis, CountedFastPath& fast_path, std::uint64_t seed,
                               bool mixed) {
    Sequence sequence(seed, Sequence::Limits::plain_windows);
    Verdict verdict;
    Micros now = sequence.now();
    for (int step = 0; step < 60; ++step) {
        const limit::Charge charge = sequence.next_charge();
        const bool without = mixed && sequence.one_in(2);
        verdict =
            charge_as(redis, charge, "t:", now, without ? &general() : fast_path.script_of(charge));
        const Verdict expected = charge_as(redis, charge, "l:", now, &general());
        std::string fault;
        if (written(verdict) != written(expected)) {
            fault = written(verdict) + "\nbut\n" + written(expected);
        }
        if (fault.empty() && verdict.admitted && sequence.one_in(5)) {
            const Micros later = now + Micros{sequence.between(0, 2'000)};
            give_back_as(redis, {charge, &verdict.receipt, limit::Refund::Of::all, 0}, "t:", later);
            give_back_as(redis, {charge, &expected.receipt, limit::Refund::Of::all, 0},
                         "l:", later);
        }
        if (fault.empty()) fault = difference(redis, sequence, true);
        if (!fault.empty()) return "at step " + std::to_string(step) + ":\n" + fault;
        now = sequence.next_time(verdict);
    }
    return {};
}

void check_ways(bool mixed) {
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    const std::uint64_t sequences = setting("TIDEGATE_TRACES", 10'000) / 25 + 1;
    RedisSubject redis;
    CountedFastPath fast_path(redis);
    for (std::uint64_t i = 0; i < sequences; ++i) {
        const std::string fault = difference_of_ways(redis, fast_path, seed + i, mixed);
        if (!fault.empty()) FAIL("TIDEGATE_SEED=" << seed + i << " TIDEGATE_TRACES=1 " << fault);
        if (i % 100 != 0 && i + 1 < sequences) continue;
        fast_path.gather();
        redis.text({"FLUSHALL"});
    }
    // A few sequences may all be of one kind.
    if (sequences > 20) CHECK(fast_path.is_worth_it());
}

// The first and the last limit keep dozens of marks: those of the first are appended to a state,
// those of the last inserted.
limit::Policy long_windows(std::size_t others) {
    std::vector<Limit> limits{sliding(kNeverReached, 1s)};
    for (std::size_t i = 0; i < others; ++i) limits.push_back(sliding(kNeverReached, (i + 2) * 1h));
    limits.push_back(sliding(kNeverReached, 10s, {.precision = 200ms}));
    return policy("p", limits);
}

}  // namespace

TEST_CASE("redis: the fast path and the general way decide the same") {
    check_ways(false);
}

TEST_CASE("redis: the fast path and the general way write the same states of many marks") {
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    constexpr std::array<Micros, 8> kSteps{1ms, 19ms, 20ms, 21ms, 25ms, 40ms, 150ms, 210ms};
    RedisSubject redis;
    for (const std::size_t others : {0, 1, 4}) {
        CAPTURE(others);
        redis.text({"FLUSHALL"});
        const limit::Policy windows = long_windows(others);
        const Ask ask(windows, {"ip:192.0.2.1", "user:a"});
        const limit::Charge charge = ask;
        Micros now = kStart;
        std::int64_t longest = 0;
        for (int step = 0; step < 400; ++step) {
            CAPTURE(step);
            const Verdict verdict =
                charge_as(redis, charge, "t:", now, &store::charge_script(charge));
            REQUIRE(written(verdict) == written(charge_as(redis, charge, "l:", now, &general())));
            REQUIRE(difference(redis, windows, "user:a", true) == "");
            REQUIRE(difference(redis, windows, "ip:192.0.2.1", true) == "");
            longest = std::max<std::int64_t>(
                longest, std::stoll(redis.text({"STRLEN", key_of("t:", windows, "user:a")})));
            now += step % 97 == 96 ? Micros{3s} : kSteps[random() % kSteps.size()];
        }
        // Head and names of two limits have 82 bytes, each further one 33: the rest are marks.
        CHECK(longest > 300 + 33 * static_cast<std::int64_t>(others));
    }
}

TEST_CASE("redis: the mark of a wide sub-bucket is written behind a new mark of a narrow one") {
    RedisSubject redis;
    for (const std::size_t others : {0, 4}) {
        CAPTURE(others);
        redis.text({"FLUSHALL"});
        // A state has the marks of the last limit first.
        std::vector<Limit> limits{sliding(kNeverReached, 1h)};
        for (std::size_t i = 0; i < others; ++i)
            limits.push_back(sliding(kNeverReached, (i + 2) * 1h));
        limits.push_back(sliding(kNeverReached, 1s));
        const limit::Policy windows = policy("p", limits);
        const Ask ask(windows, {"user:a"});
        const limit::Charge charge = ask;
        // Dozens of marks of 20 ms, then the first one of a minute.
        const Micros minute = kStart - kStart % Micros{1min} + Micros{1min};
        for (Micros now = minute - 900ms; now < minute + 300ms; now += 21ms) {
            CAPTURE(now.count());
            const Verdict verdict =
                charge_as(redis, charge, "t:", now, &store::charge_script(charge));
            REQUIRE(written(verdict) == written(charge_as(redis, charge, "l:", now, &general())));
            REQUIRE(difference(redis, windows, "user:a", true) == "");
        }
    }
}

// SETRANGE may double the memory of a value that it lengthens.
TEST_CASE(
    "redis: a long state grows in place only where its sub-buckets are shorter than a second") {
    RedisSubject redis;
    const auto grown_in_place = [&](const Limit& limit) {
        redis.text({"FLUSHALL"});
        redis.text({"CONFIG", "RESETSTAT"});
        const limit::Policy some = policy("p", {limit});
        const Ask ask(some, {"user:a"});
        const limit::Charge charge = ask;
        // Each charge opens a sub-bucket, so each adds a mark.
        for (int i = 0; i < 45; ++i) {
            charge_as(redis, charge, "t:", kStart + i * limit.precision);
        }
        return redis.text({"INFO", "commandstats"}).find("cmdstat_setrange:") != std::string::npos;
    };
    CHECK(grown_in_place(sliding(kNeverReached, 1s)));
    CHECK_FALSE(grown_in_place(sliding(kNeverReached, 1min)));
}

TEST_CASE("redis: the fast path and the general way understand what the other has written") {
    check_ways(true);
}

TEST_CASE("redis: charges in one command get what they get one by one at the same time") {
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    const std::uint64_t sequences = setting("TIDEGATE_TRACES", 10'000) / 25 + 1;
    RedisSubject redis;
    for (std::uint64_t i = 0; i < sequences; ++i) {
        CAPTURE(seed + i);
        Sequence sequence(seed + i, Sequence::Limits::all_that_share);
        Micros now = sequence.now();
        for (int step = 0; step < 12; ++step) {
            const limit::Charge first = sequence.next_charge();
            std::vector<limit::Charge> charges(sequence.between(1, sequence.one_in(9) ? 64 : 6),
                                               first);
            for (limit::Charge& charge : charges) charge.cost = sequence.next_cost();
            const auto verdicts = charge_together(redis, charges, "t:", now, &general());
            for (std::size_t k = 0; k < charges.size(); ++k) {
                REQUIRE(written(verdicts[k]) ==
                        written(charge_as(redis, charges[k], "l:", now, &general())));
            }
            REQUIRE(difference(redis, sequence, false) == "");
            now = sequence.next_time(verdicts.back());
        }
        if (i % 100 == 0) redis.text({"FLUSHALL"});
    }
}

TEST_CASE("redis: charges of different items in one command get what they get one by one") {
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    const std::uint64_t sequences = setting("TIDEGATE_TRACES", 10'000) / 25 + 1;
    RedisSubject redis;
    std::uint64_t asked = 0;
    std::uint64_t alone = 0;
    for (std::uint64_t i = 0; i < sequences; ++i) {
        CAPTURE(seed + i);
        Sequence sequence(seed + i, Sequence::Limits::plain_windows);
        Micros now = sequence.now();
        for (int step = 0; step < 20; ++step) {
            CAPTURE(step);
            const std::vector<limit::Charge> charges = sequence.next_mixed();
            const auto verdicts = charge_mixed(redis, charges, "t:", now);
            for (std::size_t k = 0; k < charges.size(); ++k) {
                if (!verdicts[k]) continue;
                REQUIRE(written(*verdicts[k]) ==
                        written(charge_as(redis, charges[k], "l:", now, &general())));
            }
            for (std::size_t k = 0; k < charges.size(); ++k) {
                ++asked;
                if (verdicts[k]) continue;
                ++alone;
                REQUIRE(written(charge_as(redis, charges[k], "t:", now)) ==
                        written(charge_as(redis, charges[k], "l:", now, &general())));
            }
            REQUIRE(difference(redis, sequence, false) == "");
            now = sequence.next_time(verdicts.back() ? *verdicts.back() : Verdict{});
        }
        if (i % 100 == 0) redis.text({"FLUSHALL"});
    }
    CAPTURE(asked);
    CAPTURE(alone);
    // Both ways were taken. How often each is chance: about a third go alone.
    CHECK(alone > 0);
    CHECK(alone < asked);
}

TEST_CASE("redis: the rights asked for are enough for several requests of the same names") {
    for (const std::size_t count : {std::size_t{2}, std::size_t{9}}) {
        RedisSubject redis;
        std::vector<Limit> windows;
        for (std::size_t i = 1; i <= count; ++i) windows.push_back(sliding(20, i * 1min));
        const auto some = policy("p", windows);
        const std::array<limit::ChargeItem, 3> items{
            {{&some, "user:a"}, {&some, "user:b"}, {&some, "user:a"}}};
        const std::vector<limit::Charge> charges{
            {{&items[0], 1}, 1}, {{&items[1], 1}, 1}, {{&items[2], 1}, 1}};
        std::vector<std::string> user{"ACL", "SETUSER", "proxy", "on", ">pw"};
        std::istringstream rights(store::access_rights("t:"));
        for (std::string right; rights >> right;) user.push_back(right);
        REQUIRE(redis.text(user) == "OK");
        REQUIRE(redis.text({"AUTH", "proxy", "pw"}) == "OK");
        const auto verdicts = charge_mixed(redis, charges, "t:", kStart);
        for (const auto& verdict : verdicts) REQUIRE(verdict);
        CHECK(verdicts[0]->limits[0].remaining == 19);
        CHECK(verdicts[1]->limits[0].remaining == 19);
        CHECK(verdicts[2]->limits[0].remaining == 18);
    }
}

TEST_CASE("redis: a value of another kind among several is sent alone, the others are decided") {
    RedisSubject redis;
    const auto some = policy("p", {sliding(20, 1min), sliding(30, 1h)});
    const auto before = policy("p", {sliding(20, 1min), sliding(30, 1h), sliding(9, 10min)});
    const std::array<std::string_view, 5> names{"user:a", "user:b", "user:c", "user:d", "user:e"};
    std::vector<limit::ChargeItem> items;
    for (std::string_view name : names) items.push_back({&some, name});
    std::vector<limit::Charge> charges;
    for (const limit::ChargeItem& item : items) charges.push_back({{&item, 1}, 1});
    // A state of more limits; a malformed string; a key of another type.
    const limit::ChargeItem earlier{&before, names[1]};
    charge_as(redis, {{&earlier, 1}, 1}, "t:", kStart);
    redis.text({"SET", key_of("t:", some, names[2]), "of somebody else"});
    redis.text({"SADD", key_of("t:", some, names[3]), "x"});
    const auto verdicts = charge_mixed(redis, charges, "t:", kStart + 1s);
    REQUIRE(verdicts[0]);
    CHECK(verdicts[0]->limits[0].remaining == 19);
    CHECK_FALSE(verdicts[1]);
    CHECK_FALSE(verdicts[2]);
    CHECK_FALSE(verdicts[3]);
    REQUIRE(verdicts[4]);
    CHECK(redis.text({"GET", key_of("t:", some, names[2])}) == "of somebody else");
    CHECK(redis.text({"TYPE", key_of("t:", some, names[3])}) == "set");
    CHECK(charge_as(redis, charges[1], "t:", kStart + 1s).limits[0].remaining == 18);
    CHECK(charge_as(redis, charges[4], "t:", kStart + 1s).limits[0].remaining == 18);
}

TEST_CASE("redis: a value of another kind may be the first of several, however many the limits") {
    RedisSubject redis;
    for (const std::size_t count : {std::size_t{2}, std::size_t{5}}) {
        CAPTURE(count);
        std::vector<Limit> windows;
        for (std::size_t i = 1; i <= count; ++i) windows.push_back(sliding(20, i * 1min));
        const auto some = policy("p" + std::to_string(count), windows);
        const limit::ChargeItem bad{&some, "user:a"};
        const limit::ChargeItem good{&some, "user:b"};
        const std::array<limit::Charge, 2> charges{limit::Charge{{&bad, 1}, 1},
                                                   limit::Charge{{&good, 1}, 1}};
        for (const char* kind : {"short", "set"}) {
            CAPTURE(kind);
            redis.text({"DEL", key_of("t:", some, "user:a")});
            redis.text({"DEL", key_of("t:", some, "user:b")});
            redis.text({kind == std::string_view("set") ? "SADD" : "SET",
                        key_of("t:", some, "user:a"), "of somebody else"});
            const auto verdicts = charge_mixed(redis, charges, "t:", kStart);
            CHECK_FALSE(verdicts[0]);
            REQUIRE(verdicts[1]);
            CHECK(verdicts[1]->limits.back().remaining == 19);
        }
    }
}

TEST_CASE("redis: numbers of sub-buckets wrap around, with the fast path and without") {
    RedisSubject redis;
    for (const std::size_t count : {std::size_t{3}, std::size_t{10}}) {
        std::vector<Limit> windows;
        for (std::size_t i = 1; i <= count; ++i) {
            windows.push_back(sliding(20, 30s + i * 7s, {.precision = 1s}));
        }
        const auto some = policy("p" + std::to_string(count), windows);
        const Ask ask(some, {"user:a"});
        MemorySubject memory;
        const Micros wraps = kStart - kStart % (65'536 * 1s) + 65'536 * 1s;
        for (Micros now = wraps - 90s; now < wraps + 200s; now += 1'700ms) {
            const std::string expected = written(memory.charge(ask, now));
            REQUIRE(written(charge_as(redis, ask, "t:", now)) == expected);
            REQUIRE(written(charge_as(redis, ask, "l:", now, &general())) == expected);
        }
    }
}

TEST_CASE("redis: a Redis without KEEPTTL counts the same, and shortens no expiry") {
    RedisSubject redis;
    const auto windows = [](std::size_t limits) {
        std::vector<Limit> list{sliding(50, 1s), fixed(50, 240h)};
        while (list.size() < limits) list.push_back(fixed(1'000, 1h * list.size()));
        return policy("p" + std::to_string(limits), list);
    };
    const auto two = windows(2);
    const auto three = windows(3);
    const auto nine = windows(9);
    // A branch of the fast path; its loop; policies of several numbers of limits; the general way.
    const Ask few(two, {"user:a", "user:b"});
    const Ask many(nine, {"user:a", "user:b"});
    const Ask several({{&two, "user:c"}, {&three, "user:c"}}, 1);
    const Ask others(nine, {"user:d"});
    for (const Ask* const asked : {&few, &many, &several, &others}) {
        const redis::Script& script = asked == &others ? general() : store::charge_script(*asked);
        const Altered old(redis, script, "KEEPTTL", "UNHEARD");
        const limit::ChargeItem& item = limit::Charge(*asked).items[0];
        const std::string key = key_of("t:", *item.policy, item.identifier);
        const std::int64_t needed = (240h - kStart % 240h) / 1ms;
        for (int i = 0; i < 60; ++i) {
            const Micros now = kStart + i * 30ms;
            const Verdict verdict = charge_as(redis, *asked, "t:", now, old.script());
            REQUIRE(written(verdict) == written(charge_as(redis, *asked, "n:", now, &script)));
            CHECK(ttl_ms(redis, key) > needed - 10'000);
            CHECK(ttl_ms(redis, key) < needed + 5'000);
        }
        CHECK(redis.text({"GET", key}) == redis.text({"GET", "n" + key.substr(1)}));
    }
}

}  // namespace tidegate::test::redis_ways_test

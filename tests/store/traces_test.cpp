// Random traces: the store in this process and the script in a real Redis must agree with the model
// on every verdict, and no window of any limit may ever hold more than its quota.
// TIDEGATE_TRACES is how many go through Redis, TIDEGATE_MEMORY_TRACES how many do not,
// TIDEGATE_SEED which.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "store/model.hpp"
#include "store/safety.hpp"
#include "store/scripts.hpp"
#include "store/stores.hpp"
#include "store/trace.hpp"

namespace tidegate::test::traces_test {
namespace {

using namespace std::chrono_literals;
using limit::Verdict;

class ModelSubject : public Subject {
  public:
    explicit ModelSubject(bool slots_expire) : model_(slots_expire) {}

    Verdict charge(const limit::Charge& charge, Micros now) override {
        return model_.charge(charge, now);
    }
    void give_back(const limit::Refund& refund, Micros now) override {
        model_.give_back(refund, now);
    }
    void release(const limit::Charge& charge, Micros) override { model_.release(charge); }

  private:
    Model model_;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string written(const Verdict& verdict) {
    std::ostringstream out;
    out << (verdict.admitted ? "admitted" : "denied")
        << (verdict.shadow_admitted ? "" : ", not by shadow") << ", retry "
        << verdict.retry_after.count() << ", wait " << verdict.wait.count() << ", earliest "
        << verdict.earliest.count();
    for (const limit::LimitVerdict& one : verdict.limits) {
        out << " [" << one.remaining << " next " << one.next_unit.count()
            << (one.denied ? " denied]" : "]");
    }
    return out.str();
}

bool equal(const Verdict& a, const Verdict& b) {
    const auto same = [](const limit::LimitVerdict& one, const limit::LimitVerdict& other) {
        return one.remaining == other.remaining && one.next_unit == other.next_unit &&
               one.denied == other.denied;
    };
    return a.admitted == b.admitted && a.shadow_admitted == b.shadow_admitted &&
           a.retry_after == b.retry_after && a.wait == b.wait && a.earliest == b.earliest &&
           std::equal(a.limits.begin(), a.limits.end(), b.limits.begin(), b.limits.end(), same);
}

// How often each answer was given: the traces are worth something only if both are common.
struct Answers {
    std::uint64_t admitted = 0;
    std::uint64_t denied = 0;
    // The charges that each part of the scripts decides.
    std::uint64_t general = 0;
    std::map<std::size_t, std::uint64_t> fast{};  // by the most limits of a policy

    void count(const Trace& trace, const std::vector<Verdict>& verdicts) {
        for (std::size_t i = 0; i < verdicts.size(); ++i) {
            if (trace.steps()[i].kind != Step::Kind::charge) continue;
            ++(verdicts[i].admitted ? admitted : denied);
            count_part(trace.steps()[i].charge());
        }
    }
    bool are_both_common() const {
        return admitted * 10 > admitted + denied && denied * 10 > admitted + denied;
    }
    // How many of a thousand charges.
    std::uint64_t per_mille(std::uint64_t charges) const {
        return charges * 1'000 / (admitted + denied);
    }

  private:
    void count_part(const limit::Charge& charge) {
        if (&store::charge_script(charge) == &store::charge_script({})) {
            ++general;
            return;
        }
        std::size_t limits = 0;
        for (const limit::ChargeItem& item : charge.items) {
            limits = std::max(limits, item.limits().size());
        }
        ++fast[limits];
    }
};

// The charge of a step, to find out why the answers differ.
std::string written(const Step& step) {
    std::ostringstream out;
    out << "at " << step.now.count() << ", cost " << step.cost << ", moment "
        << step.moment.count();
    for (const limit::ChargeItem& item : step.items) {
        out << "\n  " << item.policy->name << (item.policy->shadow ? " (shadow) " : " ")
            << item.identifier << ":";
        for (const limit::Limit& limit : item.limits()) {
            out << " " << limit.quota << "/" << limit.name << " burst " << limit.burst << " count "
                << static_cast<int>(limit.count);
        }
    }
    return out.str();
}

// Plays one trace to the model and to `subject`. "" if they agree and nothing is unsafe.
std::string fault_in(const Trace& trace, Subject& subject, bool slots_expire, Answers& answers) {
    ModelSubject model(slots_expire);
    const auto expected = play(trace, model);
    const auto got = play(trace, subject);
    answers.count(trace, got);
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (equal(expected[i], got[i])) continue;
        return "step " + std::to_string(i) + " " + written(trace.steps()[i]) + "\n  model " +
               written(expected[i]) + "\n  store " + written(got[i]);
    }
    return unsafe(trace, got, slots_expire);
}

}  // namespace

TEST_CASE("in process: random traces get the verdicts of the model") {
    const std::uint64_t traces = setting("TIDEGATE_MEMORY_TRACES", 100'000);
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    MESSAGE("TIDEGATE_SEED=" << seed << " TIDEGATE_MEMORY_TRACES=" << traces);
    Answers answers;
    for (std::uint64_t i = 0; i < traces; ++i) {
        MemorySubject memory;
        const std::string fault = fault_in(Trace(seed + i), memory, false, answers);
        if (fault.empty()) continue;
        FAIL("TIDEGATE_SEED=" << seed + i << " TIDEGATE_MEMORY_TRACES=1, " << fault);
    }
    CHECK(answers.are_both_common());
}

TEST_CASE("in Redis: random traces get the verdicts of the model") {
    const std::uint64_t traces = setting("TIDEGATE_TRACES", 10'000);
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    MESSAGE("TIDEGATE_SEED=" << seed << " TIDEGATE_TRACES=" << traces);
    RedisSubject redis;
    Answers answers;
    for (std::uint64_t i = 0; i < traces; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        const std::string fault = fault_in(Trace(seed + i), redis, true, answers);
        if (!fault.empty() && !may_have_lost_keys(begin)) {
            FAIL("TIDEGATE_SEED=" << seed + i << " TIDEGATE_TRACES=1, " << fault);
        }
        if (i % 500 == 0) redis.text({"FLUSHALL"});
    }
    CHECK(answers.are_both_common());
    CHECK(answers.per_mille(answers.general) > 300);
    // Of the fast path: the loop, which is for five limits and more, and each branch.
    std::uint64_t looped = 0;
    for (const auto& [limits, charges] : answers.fast) looped += limits > 4 ? charges : 0;
    CHECK(looped > 0);
    for (std::size_t limits = 1; limits <= 4; ++limits) CHECK(answers.fast[limits] > 0);
}

}  // namespace tidegate::test::traces_test

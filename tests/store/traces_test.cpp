// Random traces: the model, the store in this process and the script in a real Redis must agree on
// every verdict. TIDEGATE_TRACES is how many, TIDEGATE_SEED which.
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "store/model.hpp"
#include "store/stores.hpp"

namespace tidegate::test {
namespace {

using limit::Limit;
using limit::Policy;
using limit::Verdict;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Trace {
  public:
    explicit Trace(std::uint64_t seed) : random_(seed), tag_(std::to_string(seed)) {
        const auto policies = between(1, 3);
        for (std::int64_t i = 0; i < policies; ++i) add_policy(i);
        for (int i = 0; i < 3; ++i)
            identifiers_.push_back("user:" + tag_ + "-" + std::to_string(i));
        now_ = kStart + Micros{between(0, 10'000'000'000)};
        const auto steps = between(10, 60);
        for (std::int64_t i = 0; i < steps; ++i) add_step();
    }

    std::vector<RedisSubject::Asked> asked() const {
        std::vector<RedisSubject::Asked> asked;
        for (const Step& step : steps_) asked.push_back({{step.items, step.cost}, step.now});
        return asked;
    }

  private:
    struct Step {
        std::vector<limit::ChargeItem> items;
        std::int64_t cost;
        Micros now;
    };

    std::int64_t between(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>{low, high}(random_);
    }

    bool one_in(std::int64_t n) { return between(1, n) == 1; }

    Micros duration() {
        switch (between(0, 4)) {
            case 0:
                return Micros{between(1'000, 20'000)};
            case 1:
                return Micros{between(20'000, 1'000'000)};
            case 2:
                return std::chrono::seconds{between(1, 10)};
            case 3:
                return std::chrono::minutes{between(1, 60)};
            default:
                return std::chrono::hours{between(1, 24 * 30)};
        }
    }

    std::int64_t quota() {
        if (one_in(12)) return 0;
        if (one_in(8)) return between(1, std::int64_t{1} << 31);
        return between(1, one_in(3) ? 100 : 8);
    }

    Limit limit() {
        const Micros length = duration();
        if (one_in(5)) return fixed(quota(), length);
        if (one_in(4)) return fixed(quota(), length, limit::Anchor::first_request);
        WindowOptions options{.precision = std::nullopt, .strict = one_in(3)};
        if (!one_in(3)) {
            const std::int64_t blocks = one_in(10) ? between(1, 900) : between(1, 7);
            // Seldom divides: the last sub-bucket reaches over the edge.
            options.precision =
                std::max(Micros{1}, (length - Micros{1}) / blocks + Micros{between(1, 3)});
            options.precision = std::min(*options.precision, length);
        }
        return sliding(quota(), length, options);
    }

    void add_policy(std::int64_t index) {
        std::vector<Limit> limits;
        const auto count = between(1, 4);
        for (std::int64_t i = 0; i < count; ++i) {
            limits.push_back(limit());
            for (std::size_t j = 0; j + 1 < limits.size(); ++j) {
                if (limits[j].id == limits.back().id) {
                    limits.pop_back();
                    break;
                }
            }
        }
        policies_.push_back(
            std::make_unique<Policy>(policy("p" + std::to_string(index), std::move(limits))));
    }

    // Mostly near the scale of some limit, so that windows fill, slide and empty.
    void pass_time() {
        const Policy& some = *policies_[static_cast<std::size_t>(
            between(0, static_cast<std::int64_t>(policies_.size()) - 1))];
        const Limit& near = some.limits[static_cast<std::size_t>(
            between(0, static_cast<std::int64_t>(some.limits.size()) - 1))];
        switch (between(0, 9)) {
            case 0:
                break;
            case 1:
                now_ += near.duration * between(1, 3);
                break;
            case 2:
                now_ += Micros{between(0, 2)};
                break;
            case 3:
                now_ = now_ - now_ % near.precision + near.precision;
                break;
            case 4:
                now_ -= Micros{between(0, near.precision.count())};
                break;
            case 5:
                if (one_in(3)) now_ -= Micros{between(0, 3 * near.duration.count())};
                break;
            default:
                now_ += Micros{between(0, 2 * near.precision.count())};
                break;
        }
        now_ = std::max(now_, Micros{1'000'000});
    }

    void add_step() {
        pass_time();
        Step step{.items = {}, .cost = 1, .now = now_};
        while (step.items.empty()) {
            for (const auto& one : policies_) {
                for (const std::string& identifier : identifiers_) {
                    if (one_in(3)) step.items.push_back({one.get(), identifier});
                }
            }
        }
        if (one_in(8)) step.cost = 0;
        if (one_in(5)) step.cost = between(1, one_in(4) ? 5'000'000'000 : 10);
        steps_.push_back(std::move(step));
    }

    std::mt19937_64 random_;
    std::string tag_;
    std::vector<std::unique_ptr<Policy>> policies_;
    std::vector<std::string> identifiers_;
    std::vector<Step> steps_;
    Micros now_{0};
};

std::string written(const Verdict& verdict) {
    std::ostringstream out;
    out << (verdict.admitted ? "admitted" : "denied") << ", retry " << verdict.retry_after.count();
    for (const limit::LimitVerdict& one : verdict.limits) {
        out << " [" << one.remaining << " next " << one.next_unit.count()
            << (one.denied ? " denied]" : "]");
    }
    return out.str();
}

}  // namespace

TEST_CASE("every store: random traces get the verdicts of the model") {
    const std::uint64_t traces = setting("TIDEGATE_TRACES", 10'000);
    const std::uint64_t seed = setting("TIDEGATE_SEED", std::random_device{}());
    MESSAGE("TIDEGATE_SEED=" << seed << " TIDEGATE_TRACES=" << traces);
    RedisSubject redis;
    std::uint64_t admitted = 0;
    std::uint64_t decided = 0;
    for (std::uint64_t i = 0; i < traces; ++i) {
        const Trace trace(seed + i);
        const auto asked = trace.asked();
        const std::vector<Verdict> from_redis = redis.pipeline(asked);
        Model model;
        MemorySubject memory;
        for (std::size_t step = 0; step < asked.size(); ++step) {
            const std::string expected = written(model.charge(asked[step].charge, asked[step].now));
            const std::string in_memory =
                written(memory.charge(asked[step].charge, asked[step].now));
            const std::string in_redis = written(from_redis[step]);
            ++decided;
            admitted += from_redis[step].admitted ? 1 : 0;
            if (expected == in_memory && expected == in_redis) continue;
            FAIL("TIDEGATE_SEED=" << seed + i << " TIDEGATE_TRACES=1, step " << step
                                  << "\n  model  " << expected << "\n  memory " << in_memory
                                  << "\n  redis  " << in_redis);
        }
        if (i % 500 == 0) redis.text({"FLUSHALL"});
    }
    // The traces are worth something only if both answers are common.
    CHECK(admitted * 10 > decided);
    CHECK((decided - admitted) * 10 > decided);
}

}  // namespace tidegate::test

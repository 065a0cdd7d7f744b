// A random trace: policies of every kind, and charges in some order at some times.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "store/stores.hpp"

namespace tidegate::test {

struct Step {
    enum class Kind : std::uint8_t { charge, refund, release };
    Kind kind = Kind::charge;
    Micros now{0};
    // A charge.
    std::vector<limit::ChargeItem> items{};
    std::int64_t cost = 1;
    limit::SlotHold slot_hold{};
    Micros moment{0};
    // A refund or a release: of which step. Of a refund: what each item gets back, at most what it
    // cost; none: all.
    std::size_t of_step = 0;
    std::vector<std::int64_t> costs{};
    limit::Refund::Of of = limit::Refund::Of::all;
    int status = 0;

    limit::Charge charge() const { return {items, cost, slot_hold, moment}; }
    // What a refund gives back to that item of the step that it is of.
    std::int64_t given_to(const Step& of, std::size_t item) const {
        return costs.empty() ? of.charge().cost_of(of.items[item]) : costs[item];
    }
};

enum class Clock : std::uint8_t { steady, stepping };
enum class Limits : std::uint8_t { all, windows };
// Whether some charges come under the hold of a slot that another one may hold.
enum class Holds : std::uint8_t { some_shared, own };

class Trace {
  public:
    // The same for the same seed. The clock steps back in every second one. Of all limits, every
    // third one has plain windows alone, and some policies many of them.
    explicit Trace(std::uint64_t seed, Limits limits = Limits::all,
                   Holds holds = Holds::some_shared);

    const std::vector<Step>& steps() const { return steps_; }
    Clock clock() const { return clock_; }

  private:
    std::int64_t between(std::int64_t low, std::int64_t high);
    bool one_in(std::int64_t n) { return between(1, n) == 1; }
    Micros duration();
    std::int64_t quota();
    limit::Limit limit();
    limit::LimitSpec window();
    limit::Anchor period();
    limit::LimitSpec other(std::size_t position);
    limit::LimitSpec spec(std::int64_t choice);
    limit::LimitSpec bucket();
    limit::LimitSpec schedule();
    std::vector<limit::Limit> list_of_limits();
    void add_policy(std::int64_t index);
    void add_tier(limit::Policy& policy);
    void add_twin(limit::Policy& policy);
    void add_candidate(limit::Policy& policy);
    void add_items(Step& step, const limit::Policy& policy);
    void pass_time();
    Micros next_time(const limit::Limit& near);
    void add_charge();
    void set_own_costs(Step& step);
    void add_refund_or_release();
    const limit::Limit& some_limit();

    std::mt19937_64 random_;
    std::string tag_;
    Limits limits_;
    Holds holds_;
    bool plain_;
    Clock clock_;
    std::uint32_t lists_ = 0;  // of limits, so far
    std::vector<std::unique_ptr<limit::Policy>> policies_;
    // By policy: the twin that counts some identifiers in shadow, and the candidate.
    std::map<const limit::Policy*, std::unique_ptr<limit::Policy>> twins_;
    std::map<const limit::Policy*, std::unique_ptr<limit::Policy>> candidates_;
    std::vector<std::string> identifiers_;
    std::vector<Step> steps_;
    std::vector<std::size_t> charges_;  // steps that may still be refunded
    Micros now_{0};
};

// Plays all steps. A verdict for each; those of refunds and releases are empty.
std::vector<limit::Verdict> play(const Trace& trace, Subject& subject);

// Keys of Redis expire by the clock of the machine, a second after what they hold has ended by the
// clock of the trace. A trace that began at `since` and took longer proves nothing: it asked for
// keys that were gone.
bool may_have_lost_keys(std::chrono::steady_clock::time_point since);

}  // namespace tidegate::test

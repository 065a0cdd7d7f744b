// Remembered denials change no answer: random traces with and without them.
#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "store/deny_cache.hpp"
#include "store/trace.hpp"

namespace tidegate::test::deny_cache_traces_test {
namespace {

// A store with remembered denials in front of it; the trace's clock is both clocks.
class RememberingSubject : public Subject {
  public:
    limit::Verdict charge(const limit::Charge& charge, Micros now) override {
        const SteadyTime at{now};
        limit::Verdict verdict;
        if (denials_.recall(charge, at, verdict)) {
            ++remembered_;
            return verdict;
        }
        verdict = store_.charge(charge, now);
        if (!verdict.admitted) denials_.remember(charge, verdict, at);
        return verdict;
    }
    void give_back(const limit::Refund& refund, Micros now) override {
        // A denial that spans several servers is not remembered, and nothing else gives back all.
        if (refund.of != limit::Refund::Of::all) store_.give_back(refund, now);
    }
    void release(const limit::Charge& charge, Micros now) override { store_.release(charge, now); }

    std::uint64_t remembered() const { return remembered_; }

  private:
    MemorySubject store_;
    store::DenyCache denials_{{.max_ttl = std::chrono::hours{100'000}, .entries = 100}};
    std::uint64_t remembered_ = 0;
};

class ForgettingSubject : public MemorySubject {
  public:
    void give_back(const limit::Refund& refund, Micros now) override {
        if (refund.of != limit::Refund::Of::all) MemorySubject::give_back(refund, now);
    }
};

}  // namespace

TEST_CASE("deny_cache: random traces get the same answers with remembered denials and without") {
    std::uint64_t remembered = 0;
    for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
        const Trace trace(seed, seed % 3 == 0 ? Limits::all : Limits::windows);
        if (trace.clock() != Clock::steady) continue;  // the clock that it lives by never steps
        ForgettingSubject plain;
        RememberingSubject remembering;
        const auto expected = play(trace, plain);
        const auto got = play(trace, remembering);
        for (std::size_t i = 0; i < got.size(); ++i) {
            CAPTURE(seed);
            CAPTURE(i);
            REQUIRE(got[i].admitted == expected[i].admitted);
            // For a higher cost than was remembered it may take longer still.
            REQUIRE(got[i].retry_after <= expected[i].retry_after);
            REQUIRE(got[i].limits.size() == expected[i].limits.size());
        }
        remembered += remembering.remembered();
    }
    CHECK(remembered > 1'000);
}

}  // namespace tidegate::test::deny_cache_traces_test

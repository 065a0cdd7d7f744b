// When something that is kept fresh is fetched: every so often, sooner after a failure, at once
// when it is wanted, but not too often. Pure: the caller supplies the time.
#pragma once

#include <chrono>

#include "net/deadline.hpp"

namespace tidegate::app {

struct FetchTiming {
    // From one success to the next fetch; up to a tenth of it less, so that proxies which started
    // together do not go on asking together.
    std::chrono::milliseconds every{300'000};
    // After a failure, then twice as long after each further one; at random from half of it on.
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds retry_max{60'000};
    // Between the beginnings of fetches on demand.
    std::chrono::milliseconds wanted_every{30'000};
};

class FetchSchedule {
  public:
    // The first fetch is due at once.
    explicit FetchSchedule(const FetchTiming& timing) : timing_(timing) {}

    bool is_due(SteadyTime now, bool wanted) const;
    // Whether a caller that misses a key may count on a fetch that begins later than now: one
    // may be wanted again, or the last one failed and is repeated anyway.
    bool may_be_wanted(SteadyTime now) const;

    // A fetch begins, and then ends in one of two ways. `luck` is a random number from 0 to 1.
    void begin(SteadyTime now);
    void succeeded(SteadyTime now, double luck);
    void failed(SteadyTime now, double luck);

  private:
    FetchTiming timing_;
    SteadyTime due_ = SteadyTime::min();
    SteadyTime wanted_from_ = SteadyTime::min();
    std::chrono::milliseconds retry_{0};  // 0: the last one did not fail
};

}  // namespace tidegate::app

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
    // Once a fetch has succeeded, also not before `wanted_every`.
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds retry_max{60'000};
    // From the beginning of a fetch to that of one on demand.
    std::chrono::milliseconds wanted_every{5'000};
};

class FetchSchedule {
  public:
    // The first fetch is due at once.
    explicit FetchSchedule(const FetchTiming& timing) : timing_(timing) {}

    // When the next fetch begins, if it is `wanted` or if not. Meant between fetches.
    SteadyTime due(bool wanted) const;

    // A fetch begins, and then ends in one of two ways. `luck` is a random number from 0 to 1.
    void begin(SteadyTime now);
    void succeeded(SteadyTime now, double luck);
    void failed(SteadyTime now, double luck);

  private:
    FetchTiming timing_;
    SteadyTime due_ = SteadyTime::min();
    SteadyTime wanted_from_ = SteadyTime::min();
    std::chrono::milliseconds retry_{0};  // 0: the last one did not fail
    bool has_succeeded_ = false;
};

}  // namespace tidegate::app

// Keeps slots of concurrency in Redis while requests hold them: each slot is a lease that ends by
// itself unless it is renewed. One a worker, on its thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "limit/charge.hpp"
#include "store/limit_decision.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

class LeaseRenewal {
  public:
    explicit LeaseRenewal(const RedisStore& redis) : redis_(redis) {}

    // Redis has admitted the decision: renews its leases, if it holds slots, until settle() unlinks
    // it or it is destroyed.
    void add(LimitDecision& decision);

    // Redis may have taken slots for this charge, but the answer came too late or not at all: gives
    // them up with the next renew(), when the charge has been carried out or never will be.
    void release_later(const LimitDecision& decision, const limit::Charge& charge);

    // Sends what is due. Call about once a second.
    void renew(SteadyTime now);

  private:
    using Holders =
        boost::intrusive::list<LimitDecision, boost::intrusive::constant_time_size<false>>;
    struct Release {
        std::string command;
        std::uint16_t slot;
    };

    const RedisStore& redis_;
    Holders holders_;
    std::vector<Release> releases_;
};

}  // namespace tidegate::store

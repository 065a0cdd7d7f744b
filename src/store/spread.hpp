// What a decision keeps that asks several slots of a cluster: the questions, and what comes of
// them. Owned by the decision, which lives until every question has been answered.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "limit/charge.hpp"
#include "redis/client.hpp"
#include "store/joint.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::store {

class Limiter;
struct Decision;

// How a failure of Redis is counted.
telemetry::StoreFailure failure_of(redis::Failure failure);

// Whether no two items are in different slots.
bool lie_in_one_slot(std::span<const limit::ChargeItem> items);

class Spread {
  public:
    class Question;

    Spread(Limiter& limiter, Decision& decision);
    ~Spread();

    // Begins anew, with the items of the decision.
    void begin();
    // The question to part `position`.
    redis::Request& question(std::size_t position);
    void fail(Joint::Part& part, telemetry::StoreFailure failure);

    Joint joint;
    telemetry::StoreFailure failure{};  // of the part that failed first
    bool is_asking = false;             // not all have been asked; the end has to wait

  private:
    Limiter& limiter_;
    Decision& decision_;
    std::vector<std::unique_ptr<Question>> questions_;
};

}  // namespace tidegate::store

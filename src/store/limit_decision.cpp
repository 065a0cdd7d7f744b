#include "store/limit_decision.hpp"

#include "store/cross_slot_charge.hpp"

namespace tidegate::store {

LimitDecision::LimitDecision() = default;
LimitDecision::~LimitDecision() = default;

}  // namespace tidegate::store

#include "store/decision.hpp"

#include "store/cross_slot_charge.hpp"

namespace tidegate::store {

Decision::Decision() = default;
Decision::~Decision() = default;

}  // namespace tidegate::store

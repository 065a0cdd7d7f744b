#include "client/body_budget.hpp"

namespace tidegate::client {

namespace {

// Clients may use the room that they have been given before they learn that there is no more.
constexpr std::size_t kHardBound = 2;

}  // namespace

bool BodyBudget::hold(std::size_t bytes) {
    if (held_ + bytes > kHardBound * bound_) return false;
    held_ += bytes;
    return true;
}

void BodyBudget::drop(std::size_t bytes) {
    held_ -= bytes;
    while (has_room() && !debtors_.empty()) {
        Debtor& first = debtors_.front();
        debtors_.pop_front();
        first.grant();
    }
}

void BodyBudget::wait(Debtor& debtor) {
    if (!debtor.is_linked()) debtors_.push_back(debtor);
}

}  // namespace tidegate::client

#include "client/http2_body_budget.hpp"

#include <algorithm>
#include <utility>

namespace tidegate::client {

namespace {

// Clients may use the room that they have been given before they learn that there is no more.
constexpr std::size_t kHardBound = 2;
// A share is at most one part of so many: an address that comes later finds room.
constexpr std::size_t kSharesMin = 4;

}  // namespace

BodyBudget::AccountPtr BodyBudget::account_of(const std::optional<IpAddress>& address) {
    const auto found = accounts_.find(address);
    if (found != accounts_.end()) return found->second;
    AccountPtr made(new Account(*this, address));
    accounts_.emplace(address, made.get());
    return made;
}

void BodyBudget::use(Holder& holder, AccountPtr account) {
    if (holder.account_ == account) return;
    const std::size_t held = holder.held_;
    if (holder.account_) {
        subtract(*holder.account_, held);
        holder.among_all_.unlink();
    }
    const bool waits = holder.is_waiting();
    if (waits) holder.among_waiting_.unlink();
    holder.account_ = std::move(account);
    holder.account_->all_.push_back(holder);
    add(*holder.account_, held);
    if (waits) wait(holder);
}

void BodyBudget::leave(Holder& holder) {
    if (!holder.account_) return;
    if (holder.is_waiting()) holder.among_waiting_.unlink();
    if (holder.held_ > 0) drop(holder, holder.held_);
    holder.among_all_.unlink();
    holder.account_ = nullptr;
}

std::size_t BodyBudget::share() const {
    return bound_ / std::max(holding_, kSharesMin);
}

void BodyBudget::add(Account& account, std::size_t bytes) {
    if (account.held_ == 0 && bytes > 0) ++holding_;
    account.held_ += bytes;
    held_ += bytes;
}

void BodyBudget::subtract(Account& account, std::size_t bytes) {
    account.held_ -= bytes;
    held_ -= bytes;
    if (account.held_ == 0 && bytes > 0) --holding_;
}

bool BodyBudget::hold(Holder& holder, std::size_t bytes) {
    if (held_ + bytes > kHardBound * bound_ && !make_room(*holder.account_, bytes)) return false;
    holder.held_ += bytes;
    add(*holder.account_, bytes);
    return true;
}

// Beyond the hard bound, which is rare: looks at all accounts.
bool BodyBudget::make_room(const Account& account, std::size_t bytes) {
    if (account.held_ + bytes > share()) return false;
    const auto largest = std::max_element(
        accounts_.begin(), accounts_.end(),
        [](const auto& one, const auto& other) { return one.second->held_ < other.second->held_; });
    Account& most = *largest->second;
    if (most.held_ <= share()) return false;
    const auto its = std::max_element(
        most.all_.begin(), most.all_.end(),
        [](const Holder& one, const Holder& other) { return one.held_ < other.held_; });
    its->give_way();
    return true;
}

void BodyBudget::drop(Holder& holder, std::size_t bytes) {
    const AccountPtr account = holder.account_;
    holder.held_ -= bytes;
    subtract(*account, bytes);
    if (held_ > bound_) {
        if (account->held_ < share()) grant_all(*account);
        return;
    }
    while (!waiting_.empty()) grant_all(static_cast<Account&>(waiting_.front()));
}

void BodyBudget::grant_all(Account& account) {
    if (account.is_linked()) account.unlink();
    while (!account.waiting_.empty()) {
        Holder& first = account.waiting_.front();
        account.waiting_.pop_front();
        first.grant();
    }
}

bool BodyBudget::has_room(const Holder& holder) const {
    return held_ <= bound_ || holder.account_->held_ < share();
}

void BodyBudget::wait(Holder& holder) {
    if (holder.is_waiting()) return;
    Account& account = *holder.account_;
    account.waiting_.push_back(holder);
    if (!account.is_linked()) waiting_.push_back(account);
}

}  // namespace tidegate::client

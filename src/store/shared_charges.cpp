#include "store/shared_charges.hpp"

#include <algorithm>

#include <boost/asio/post.hpp>

#include "store/charge_script.hpp"

namespace tidegate::store {

void LentCharge::fill(LimitDecision& asking, std::size_t hash_of_items) {
    decision = &asking;
    items = asking.items;
    identifiers.clear();
    for (const limit::ChargeItem& item : items) identifiers += item.identifier;
    std::string_view rest = identifiers;
    for (limit::ChargeItem& item : items) {
        const std::size_t size = item.identifier.size();
        item.identifier = rest.substr(0, size);
        rest.remove_prefix(size);
    }
    cost = asking.cost;
    hash = hash_of_items;
    asked = asking.store_state.asked;
}

void ChargeInbox::give(LentCharge& lent) {
    bool is_first = false;
    {
        const std::scoped_lock lock(mutex_);
        is_first = mail_.empty();
        mail_.push_back(&lent);
    }
    if (is_first) asio::post(executor_, [this] { on_mail_(); });
}

void ChargeInbox::take(std::vector<LentCharge*>& out) {
    const std::scoped_lock lock(mutex_);
    out.insert(out.end(), mail_.begin(), mail_.end());
    mail_.clear();
}

SharedCharges::Era SharedCharges::begin_command(SteadyTime now) {
    const std::scoped_lock lock(mutex_);
    under_way_.fetch_add(1, std::memory_order_relaxed);
    charges_.fetch_add(1, std::memory_order_relaxed);
    note_progress(now);
    return era_;
}

void SharedCharges::grow_command(Era begun, int charges) {
    const std::scoped_lock lock(mutex_);
    if (begun == era_) charges_.fetch_add(charges, std::memory_order_relaxed);
}

// Counted down under the lock: a charge that is added meanwhile either sees it or is seen here.
void SharedCharges::end_command(Era begun, int charges, SteadyTime now, List& due) {
    const std::scoped_lock lock(mutex_);
    note_progress(now);
    if (begun == era_) {
        under_way_.fetch_sub(1, std::memory_order_relaxed);
        charges_.fetch_sub(charges, std::memory_order_relaxed);
    }
    const bool is_late = !waiting_.empty() && now - waiting_.front()->asked >= kStall;
    if (is_late || !is_busy()) take_all(due);
}

void SharedCharges::add(LentCharge& lent, SteadyTime now, List& due) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(&lent);
    if (is_busy() && now >= stalls_at_) {
        ++era_;
        under_way_.store(0, std::memory_order_relaxed);
        charges_.store(0, std::memory_order_relaxed);
    }
    if (waiting_.size() >= kMixedMax || !is_busy()) take_all(due);
}

void SharedCharges::take_back(const ChargeInbox& inbox, SteadyTime time, List& out) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](LentCharge* lent) {
        const bool is_due = lent->inbox == &inbox && lent->asked < time;
        if (is_due) out.push_back(lent);
        return is_due;
    });
}

// Charges that have waited are older than the progress before them.
void SharedCharges::note_progress(SteadyTime now) {
    stalls_at_ = std::max(stalls_at_, now + kStall);
}

void SharedCharges::take_all(List& due) {
    due.insert(due.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
}

}  // namespace tidegate::store

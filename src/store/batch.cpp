#include "store/batch.hpp"

#include <algorithm>
#include <functional>

#include <boost/container_hash/hash.hpp>

#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;

bool is_same_policy(const ChargeItem& left, const ChargeItem& right) {
    return left.policy == right.policy && left.tier == right.tier;
}

bool is_same(const ChargeItem& left, const ChargeItem& right) {
    return is_same_policy(left, right) && left.identifier == right.identifier;
}

template <class Equal>
bool are_equal(const limit::Charge& a, const limit::Charge& b, Equal equal) {
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

}  // namespace

std::size_t hash_of(std::span<const ChargeItem> items) {
    std::size_t hash = items.size();
    for (const ChargeItem& item : items) {
        boost::hash_combine(hash, std::hash<std::string_view>{}(item.identifier));
    }
    return hash;
}

void Batch::begin(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash) {
    is_mixed_ = false;
    hash_ = hash;
    charges_.assign(1, charge);
    verdicts_.assign(1, &verdict);
}

bool Batch::add(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash,
                bool may_mix) {
    if (!is_mixed_ && hash == hash_ && are_equal(charges_[0], charge, is_same)) {
        if (charges_.size() == kBatchMax) return false;
    } else if (can_be_mixed_with(charge, may_mix)) {
        is_mixed_ = true;
    } else {
        return false;
    }
    charges_.push_back(charge);
    verdicts_.push_back(&verdict);
    return true;
}

bool Batch::can_be_mixed_with(const limit::Charge& charge, bool may_mix) const {
    const bool can_begin = may_mix && charges_.size() == 1;
    if (!is_mixed_ && !(can_begin && can_mix(charges_[0]))) return false;
    return charges_.size() < kMixedMax && charge.cost > 0 &&
           are_equal(charges_[0], charge, is_same_policy);
}

void Batch::append_command(std::string_view prefix, std::optional<limit::Micros> clock,
                           std::string& out) const {
    const auto append = is_mixed_ ? append_mixed_command : append_charge_command;
    append(charges_, prefix, clock, out);
}

const redis::Script& Batch::script() const {
    return is_mixed_ || charges_.size() == 1 ? charge_script(charges_[0]) : charge_script({});
}

std::span<const Mixed> Batch::read_reply(std::string_view reply) {
    answers_.assign(charges_.size(), Mixed::decided);
    const bool is_reply = is_mixed_ ? read_mixed_reply(reply, charges_, verdicts_, answers_)
                                    : read_charge_reply(reply, charges_, verdicts_);
    return is_reply ? answers_ : reject_reply();
}

std::span<const Mixed> Batch::reject_reply() {
    answers_.assign(charges_.size(), Mixed::unreadable);
    return answers_;
}

}  // namespace tidegate::store

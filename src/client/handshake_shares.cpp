#include "client/handshake_shares.hpp"

namespace tidegate::client {

HandshakeShares::Place::Place(HandshakeShares& shares, const std::optional<IpAddress>& address)
    : shares_(shares) {
    if (!address) return;
    const auto [found, is_new] = shares.shares_.try_emplace(*address, *address);
    share_ = &found->second;
    if (is_new) shares.by_count_.insert(*share_);
    share_->places.push_back(*this);
    shares.recount(*share_, 1);
}

void HandshakeShares::Place::leave() {
    if (share_ == nullptr) return;
    Share& share = *share_;
    share_ = nullptr;
    share.places.erase(share.places.iterator_to(*this));
    shares_.recount(share, -1);
    if (share.count > 0) return;
    shares_.by_count_.erase(shares_.by_count_.iterator_to(share));
    shares_.shares_.erase(shares_.shares_.find(share.address));
}

HandshakeShares::Place* HandshakeShares::find_for(const std::optional<IpAddress>& address) {
    if (by_count_.empty()) return nullptr;
    std::size_t own = 0;
    if (address) {
        if (const auto found = shares_.find(*address); found != shares_.end()) {
            own = found->second.count;
        }
    }
    Share& most = *by_count_.rbegin();
    return most.count > own + 1 ? &most.places.front() : nullptr;
}

void HandshakeShares::recount(Share& share, int by) {
    by_count_.erase(by_count_.iterator_to(share));
    share.count += static_cast<std::size_t>(by);
    by_count_.insert(share);
}

}  // namespace tidegate::client

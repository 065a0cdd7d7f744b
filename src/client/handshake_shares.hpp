// Which addresses have how many unfinished TLS handshakes: when there is no room for another one,
// the address that has most gives up its oldest in favour of an address that has fewer.
//
// So one address cannot keep all others out by handshakes that it only begins. Costs a look into a
// table for a handshake that begins or ends. Owned by a worker, one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include "base/ip.hpp"
#include "client/connection_limit.hpp"

namespace tidegate::client {

class HandshakeShares {
    class Share;
    using PlaceHook = boost::intrusive::list_base_hook<boost::intrusive::tag<Share>>;

  public:
    // Of one handshake, for as long as it lives.
    class Place : public PlaceHook {
      public:
        // `address` is that of counted_address(); nothing: the handshake is never given up.
        // `shares` outlives this.
        Place(HandshakeShares& shares, const std::optional<IpAddress>& address);
        ~Place() { leave(); }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        // It counts no more.
        void leave();

      private:
        friend class HandshakeShares;
        HandshakeShares& shares_;
        Share* share_ = nullptr;  // null: it does not count
    };

    HandshakeShares() : shares_(0, AddressHash::with_secret()) {}

    // The oldest handshake of the address that has most, for a client of `address` (nothing: of
    // none that counts). Null: that address has no more than one above the client's, with which
    // the two would give way to each other by turns.
    Place* find_for(const std::optional<IpAddress>& address);

    // Addresses that have a handshake.
    std::size_t addresses() const { return shares_.size(); }

  private:
    // Of one address: at least one handshake, the oldest first.
    class Share : public boost::intrusive::set_base_hook<> {
      public:
        explicit Share(const IpAddress& its) : address(its) {}
        bool operator<(const Share& other) const { return count < other.count; }

        const IpAddress address;
        std::size_t count = 0;
        boost::intrusive::list<Place, boost::intrusive::base_hook<PlaceHook>,
                               boost::intrusive::constant_time_size<false>>
            places;
    };
    using ByCount = boost::intrusive::multiset<Share, boost::intrusive::constant_time_size<false>>;

    // Adds `by` to its count.
    void recount(Share& share, int by);

    std::unordered_map<IpAddress, Share, AddressHash> shares_;
    ByCount by_count_;  // of shares_
};

}  // namespace tidegate::client

// The requests that hold the connections of an upstream: so that no client address has more than
// its share of connections while requests of other addresses find none.
//
// A share is a quarter of all connections, and at least one. It counts only in a shortage: an
// address may have all connections for as long as no other address needs one. A request that finds
// none free takes the place of another whose *client* the upstream waits for; requests that the
// upstream works on stay. Part of a pool, one thread. Does no I/O; the caller supplies the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <boost/intrusive/list.hpp>

#include "base/crowds.hpp"
#include "base/deadline.hpp"
#include "base/ip.hpp"
#include "identity/client_ip.hpp"
#include "proxy/pace.hpp"

namespace tidegate::proxy {

// A request's place in the list. Part of the request: with the request the place goes.
class UpstreamSeat : public boost::intrusive::list_base_hook<
                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    using OnEvicted = void (*)(void* owner);

    // `client` and `settings` outlive the seat. `on_evicted` withdraws the connection before it
    // returns; a pool calls it once at most, and only for a seat that is in its list.
    UpstreamSeat(const std::optional<IpAddress>& client, const identity::ClientIpSettings& settings,
                 OnEvicted on_evicted, void* owner)
        : client_(client), settings_(settings), on_evicted_(on_evicted), owner_(owner) {}
    UpstreamSeat(const UpstreamSeat&) = delete;
    UpstreamSeat& operator=(const UpstreamSeat&) = delete;

    // Whose share it counts to: the client's address, of IPv6 the widest prefix that counts as one
    // client. None for a client without an address: such a client has a share of its own.
    std::optional<IpAddress> holder() const;
    void evict() {
        unlink();
        on_evicted_(owner_);
    }

    Pace body;    // the client's turn: the upstream waits for the rest of the body
    Pace answer;  // the client's turn: it does not take the answer

  private:
    const std::optional<IpAddress>& client_;
    const identity::ClientIpSettings& settings_;
    OnEvicted on_evicted_;
    void* owner_;
};

class UpstreamSeats {
  public:
    // How long connections are kept for other addresses since one of them found none.
    static constexpr std::chrono::seconds kShortage{2};
    // An upload that is kSlowLag behind kSlowRate bytes a second makes room for any request.
    static constexpr std::uint64_t kSlowRate = 1'024;
    static constexpr std::chrono::seconds kSlowLag{5};

    // `max` connections there may be, at least one.
    explicit UpstreamSeats(std::size_t max) : max_(max), share_(max / 4 > 1 ? max / 4 : 1) {}

    // Lately a request of an address with less than its share found no connection free.
    bool is_short() const { return reserved_ > 0; }
    // Whether a request that is not in the list yet may take one of `free` connections: not if
    // these are kept for other addresses and its own has its share.
    bool may_join(const UpstreamSeat& asking, std::size_t free, SteadyTime now);
    void join(UpstreamSeat& seat) { seats_.push_back(seat); }

    // `asking` found no connection free. The request that makes room for it, or null. First the
    // upload that is furthest behind, of other addresses with more than their share; then an upload
    // of any address that is slow (kSlowRate, kSlowLag); then the answer that its client is slowest
    // to take, of other addresses with more than their share.
    UpstreamSeat* find_room(const UpstreamSeat& asking, SteadyTime now);

    // Counts them one by one.
    std::size_t held_by(const std::optional<IpAddress>& holder) const;

  private:
    Crowds find_crowds(const UpstreamSeat& asking) const;
    UpstreamSeat* choose(const Crowds& crowds, const UpstreamSeat& asking, SteadyTime now);
    void note_shortage(const std::optional<IpAddress>& holder, SteadyTime now);

    const std::size_t max_;
    const std::size_t share_;
    boost::intrusive::list<UpstreamSeat, boost::intrusive::constant_time_size<false>> seats_;
    std::size_t reserved_ = 0;  // connections kept for addresses with less than their share
    std::optional<IpAddress> short_of_;  // the address whose request found none last
    SteadyTime short_until_{};
    SteadyTime next_search_{};
    std::optional<IpAddress> in_vain_for_;  // only its next search has to wait; none: all have
};

}  // namespace tidegate::proxy

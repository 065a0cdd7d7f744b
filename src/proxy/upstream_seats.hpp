// The requests that hold the connections of an upstream: so that no client address has more than
// its share of connections while requests of other addresses find none.
//
// A share is a quarter of all connections, and at least one. It counts only in a shortage: an
// address may have all connections for as long as no other address needs one. A request that finds
// none free takes the place of another whose *client* the upstream waits for; requests that the
// upstream works on stay. For an address that found none, connections are kept as they come free:
// so many that it has what it needs, its share at most. Part of a pool, one thread. Does no I/O;
// the caller supplies the time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <boost/intrusive/list.hpp>

#include "base/heavy_hitters.hpp"
#include "base/ip.hpp"
#include "identity/client_ip.hpp"
#include "net/deadline.hpp"
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
    // How long connections are kept for an address since it found none. Finding none again makes
    // this longer only for an address that got no connection meanwhile.
    static constexpr std::chrono::seconds kShortage{2};
    // For so many addresses at a time connections are kept; for all of them together, for no more
    // than leave one share.
    static constexpr std::size_t kShortages = 4;
    // An upload that is kSlowLag behind kSlowRate bytes a second makes room for any request.
    static constexpr std::uint64_t kSlowRate = 1'024;
    static constexpr std::chrono::seconds kSlowLag{5};

    // `max` connections there may be, at least one.
    explicit UpstreamSeats(std::size_t max) : max_(max), share_(max / 4 > 1 ? max / 4 : 1) {}

    // Lately a request of an address with less than its share found no connection free.
    bool is_short() const { return reserved_max_ > 0; }
    // Whether a request that is not in the list yet may take one of `free` connections: not if
    // these are kept for other addresses and its own has its share. For an address, as many are
    // kept as it needs less those that it holds: none while it holds its share.
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
    // Of an address with less than its share: its requests found no connection free.
    struct Shortage {
        std::optional<IpAddress> holder;
        std::size_t needed = 0;  // connections, with those that it holds; 0: no shortage
        SteadyTime until{};
        bool served = false;  // it got a connection since
    };

    HeavyHitters find_crowds(const UpstreamSeat& asking) const;
    UpstreamSeat* choose(const HeavyHitters& crowds, const UpstreamSeat& asking, SteadyTime now);
    Shortage* find_shortage(const std::optional<IpAddress>& holder);
    void note_shortage(const std::optional<IpAddress>& holder, std::size_t held, bool served,
                       SteadyTime now);
    void update_shortages(SteadyTime now);
    std::size_t count_reserved() const;

    const std::size_t max_;
    const std::size_t share_;
    boost::intrusive::list<UpstreamSeat, boost::intrusive::constant_time_size<false>> seats_;
    std::array<Shortage, kShortages> shortages_;
    std::size_t reserved_max_ = 0;             // kept if the short addresses hold nothing
    SteadyTime next_end_ = SteadyTime::max();  // of a shortage
    SteadyTime next_search_{};
    std::optional<IpAddress> in_vain_for_;  // only its next search has to wait; none: all have
};

}  // namespace tidegate::proxy

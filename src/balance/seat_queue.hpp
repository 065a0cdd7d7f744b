// The queue of requests that wait for a seat: in the order in which they came, and in a line for
// each client address, so that one address keeps neither all places of the queue nor the seats that
// come free from others.
//
// An address with more than a quarter of the places is a crowd; at most three can be. Part of
// Seats, under its mutex. What a call costs hardly depends on how many requests wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include <boost/container/static_vector.hpp>
#include <boost/intrusive/list.hpp>

#include "base/ip.hpp"

namespace tidegate::balance {

class SeatQueue {
    struct Line;
    using Hook = boost::intrusive::list_member_hook<>;

  public:
    // What a request that may wait is for the queue. Must not be destroyed while it is in it.
    struct Place {
        explicit Place(const std::optional<IpAddress>& of) : address(of) {}

        // None: a client without an address. Such clients are never a crowd.
        const std::optional<IpAddress> address;
        Hook in_queue;
        Hook in_line;
        Line* line = nullptr;  // null: it does not wait
    };

    // At most `max` requests wait.
    explicit SeatQueue(std::uint32_t max);

    bool is_empty() const { return queue_.empty(); }
    // May throw std::bad_alloc, and then changes nothing.
    void push(Place& place);
    // Requires that it waits.
    void erase(Place& place);

    // Null: the queue is empty.
    Place* first() { return is_empty() ? nullptr : &queue_.front(); }
    // The first of the address whose turn it is, of all addresses but those of `crowds`; null:
    // there is none. An address has its turn when it has waited longest or, after pass_turn(), when
    // all others have had one.
    Place* first_besides(std::span<const IpAddress> crowds);
    // Requires that it waits.
    void pass_turn(const Place& place);

    bool has_crowds() const { return !crowds_.empty(); }
    // The last request of the crowd with the most requests, of all crowds but `address`; null:
    // there is none.
    Place* last_of_crowds_besides(const std::optional<IpAddress>& address);

  private:
    using Queue =
        boost::intrusive::list<Place, boost::intrusive::member_hook<Place, Hook, &Place::in_queue>,
                               boost::intrusive::constant_time_size<false>>;
    struct Line : boost::intrusive::list_base_hook<> {
        boost::intrusive::list<Place, boost::intrusive::member_hook<Place, Hook, &Place::in_line>>
            places;
    };
    struct IsBefore {
        bool operator()(const std::optional<IpAddress>& one,
                        const std::optional<IpAddress>& other) const;
    };

    const std::size_t share_;
    Queue queue_;
    std::map<std::optional<IpAddress>, Line, IsBefore> lines_;  // none is empty
    boost::intrusive::list<Line, boost::intrusive::constant_time_size<false>> turns_;
    boost::container::static_vector<Line*, 3> crowds_;
};

}  // namespace tidegate::balance

// FairShare and SeatWait divide the seats of an upstream, its `max_connections`, among the requests
// of one worker: which request holds a seat, which one loses it in favour of others, and how a
// request waits for one. TransferRate measures slow clients.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/container/static_vector.hpp>
#include <boost/intrusive/list.hpp>

#include "balance/max_connections.hpp"
#include "base/ip.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "net/wakeup.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

// How fast a client sends or takes a message: the time for which the message waited for the client,
// and the bytes that the client had moved by then. Pure: the caller supplies the time.
//
// Time in which the message waits for the upstream or the store does not count. While the client is
// held back, because the proxy gives it no room to send, the message still waits for it: that time
// counts for `total` and for lag(), by which requests make room for others, but not as the client's
// silence, nor against its pace.
struct TransferBounds {
    std::chrono::milliseconds idle{0};   // for each wait; a slow begin may take this long in all
    std::uint64_t rate_min = 0;          // bytes a second; 0: no bound
    std::chrono::milliseconds total{0};  // of all waits, held back or not; 0: no bound
};

class TransferRate {
  public:
    // The message waits for the client, which has moved `bytes` of it so far. Requires that no wait
    // has begun.
    void begin_wait(SteadyTime now, std::uint64_t bytes) {
        since_ = now;
        bytes_ = bytes;
        is_waiting_ = true;
        had_room_ = now;
        held_back_before_ = held_back_;
    }
    void end_wait(SteadyTime now) {
        let_go(now);
        waited_ = waited(now);
        is_waiting_ = false;
    }
    bool is_waiting() const { return is_waiting_; }
    // Notes that the client is held back. It counts as held back since the wait began, or since
    // let_go(), as the moment at which it lost its room is not known. Requires a wait.
    void hold_back() { is_held_back_ = true; }
    void let_go(SteadyTime now) {
        held_back_ = held_back(now);
        had_room_ = now;
        is_held_back_ = false;
    }
    bool is_held_back() const { return is_held_back_; }
    // The client has moved `bytes` so far: a wait for many need not end before that counts.
    void note(std::uint64_t bytes) { bytes_ = bytes; }

    // The time of all waits so far.
    std::chrono::nanoseconds waited(SteadyTime now) const {
        return is_waiting_ ? waited_ + (now - since_) : waited_;
    }
    // The part of that time in which the client was held back.
    std::chrono::nanoseconds held_back(SteadyTime now) const {
        return is_held_back_ ? held_back_ + (now - had_room_) : held_back_;
    }

    // How long the wait may still last, if the client is not held back again: what is left of
    // `idle`, of `idle` + bytes / `rate_min`, or of `total`. Not positive: the client is too slow.
    std::chrono::milliseconds time_left(const TransferBounds& bounds, SteadyTime now) const;

    // How far the client is behind `rate` bytes a second in all its waits, held back or not;
    // negative: ahead. Requires rate > 0.
    std::chrono::nanoseconds lag(std::uint64_t rate, SteadyTime now) const;

  private:
    SteadyTime since_{};  // of this wait
    std::chrono::nanoseconds waited_{0};
    std::uint64_t bytes_ = 0;
    SteadyTime had_room_{};  // in this wait, as far as known
    std::chrono::nanoseconds held_back_{0};
    std::chrono::nanoseconds held_back_before_{0};  // this wait
    bool is_waiting_ = false;
    bool is_held_back_ = false;
};

// The requests that hold the connections of an upstream. No client address keeps more than its
// share of connections while requests of other addresses find none.
//
// A share is a quarter of all connections, and at least one. It counts only in a shortage: an
// address may have all connections as long as no other address needs one. A request that finds no
// connection free takes the place of a request whose *client* the upstream waits for; a request
// that the upstream works on stays. For an address that found none, the pool reserves connections
// as they come free: as many as the address needs, its share at most. Part of a pool, one thread.
// Does no I/O; the caller supplies the time.

// A request that holds a connection, or asks for one. The destructor takes it out of the list. It
// is not in the list while it waits in the queue, which may be longer than any search should be.
class ActiveRequest : public boost::intrusive::list_base_hook<
                          boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    using OnEvicted = void (*)(void* owner);
    // How many bytes of the answer the client has taken by now.
    using AnswerBytes = std::uint64_t (*)(const void* owner);

    // `client` and `prefixes` outlive this. `on_evicted` gives up the connection before it returns;
    // a pool calls it once at most, and only for a request in its list. `answer_bytes` null: what
    // the owner noted in `answer` counts.
    ActiveRequest(const std::optional<IpAddress>& client, const IpPrefixes& prefixes,
                  OnEvicted on_evicted, void* owner, AnswerBytes answer_bytes = nullptr)
        : client_(client),
          prefixes_(prefixes),
          on_evicted_(on_evicted),
          answer_bytes_(answer_bytes),
          owner_(owner) {}
    // Takes the place of `former`, which is in no list then. Waits for nothing yet; what outlives
    // `former` outlives this.
    ActiveRequest(ActiveRequest& former, OnEvicted on_evicted, void* owner)
        : ActiveRequest(former.client_, former.prefixes_, on_evicted, owner) {
        swap_nodes(former);
    }
    ActiveRequest(const ActiveRequest&) = delete;
    ActiveRequest& operator=(const ActiveRequest&) = delete;

    // The address whose share the request counts to, by the widest prefix that counts as one
    // client. None for a client without an address: such a client has a share of its own.
    std::optional<IpAddress> key() const;
    void evict() {
        unlink();
        on_evicted_(owner_);
    }

    bool waits_for_client() const { return body.is_waiting() || answer.is_waiting(); }
    // How far the transfer that waits for the client is behind `rate` bytes a second: that of the
    // body, or of the answer. Requires that one of them waits.
    std::chrono::nanoseconds lag(std::uint64_t rate, SteadyTime now) {
        if (body.is_waiting()) return body.lag(rate, now);
        if (answer_bytes_ != nullptr) answer.note(answer_bytes_(owner_));
        return answer.lag(rate, now);
    }

    TransferRate body;            // waits while the upstream waits for the rest of the body
    TransferRate answer;          // waits while the client does not take the answer
    bool waits_for_seat = false;  // in the queue

  private:
    const std::optional<IpAddress>& client_;
    const IpPrefixes& prefixes_;
    OnEvicted on_evicted_;
    AnswerBytes answer_bytes_;
    void* owner_;
};

class FairShare {
  public:
    // How long connections stay reserved for an address since it found none. When the address finds
    // none again, this begins anew only if the address got no connection meanwhile.
    static constexpr std::chrono::seconds kShortage{2};
    // Connections are reserved for so many addresses at a time; for all of them together, for no
    // more than leaves one share.
    static constexpr std::size_t kShortages = 4;
    // An upload, or an answer, that is kSlowLag behind kSlowRate bytes a second makes room for any
    // request.
    static constexpr std::uint64_t kSlowRate = 1'024;
    static constexpr std::chrono::seconds kSlowLag{5};

    // `max` is the bound on connections, at least 1.
    explicit FairShare(std::size_t max) : max_(max), share_(max / 4 > 1 ? max / 4 : 1) {}

    // Whether lately a request of an address with less than its share found no connection free.
    bool is_short() const { return reserved_max_ > 0; }
    // Whether a request that is not in the list yet may take one of `free` connections: not if
    // these are reserved for other addresses and its own address has its share. For an address, as
    // many are reserved as it needs less those that it holds: none while it holds its share.
    bool admits(const ActiveRequest& request, std::size_t free, SteadyTime now);
    void add(ActiveRequest& request) { requests_.push_back(request); }

    // `asking` found no connection free. Returns the request to evict, or null. First the upload
    // that is furthest behind, of other addresses with more than their share; then an upload of any
    // address that is slow (kSlowRate, kSlowLag); then the answer that its client is slowest to
    // take, of other addresses with more than their share; then a slow answer of any address.
    ActiveRequest* find_evictable(const ActiveRequest& asking, SteadyTime now);
    // The addresses that have more than their share here, three at most.
    std::vector<IpAddress> crowds() const;
    // As find_evictable(), for a request of another thread whose address is none of crowds().
    ActiveRequest* find_evictable_for_others(SteadyTime now);
    // The upload or answer that is furthest behind of those that are slow (kSlowRate, kSlowLag), or
    // null: it makes room for a request of another thread. An upload first.
    ActiveRequest* find_slow(SteadyTime now);

    // Counts the list one by one.
    std::size_t held_by(const std::optional<IpAddress>& key) const;

  private:
    // An address with less than its share whose requests found no connection free.
    struct Shortage {
        std::optional<IpAddress> key;
        std::size_t needed = 0;  // connections, with those that it holds; 0: no shortage
        SteadyTime until{};
        bool served = false;  // it got a connection since
    };

    HeavyHitters find_crowds(const ActiveRequest* asking) const;
    bool is_in_vain(const std::optional<IpAddress>& key, SteadyTime now) const;
    void note_in_vain(const std::optional<IpAddress>& key, bool has_share, SteadyTime now);
    ActiveRequest* choose(const HeavyHitters& crowds, const ActiveRequest* asking, SteadyTime now);
    Shortage* find_shortage(const std::optional<IpAddress>& key);
    void note_shortage(const std::optional<IpAddress>& key, std::size_t held, bool served,
                       SteadyTime now);
    void update_shortages(SteadyTime now);
    std::size_t count_reserved() const;

    const std::size_t max_;
    const std::size_t share_;
    boost::intrusive::list<ActiveRequest, boost::intrusive::constant_time_size<false>> requests_;
    std::array<Shortage, kShortages> shortages_;
    std::size_t reserved_max_ = 0;             // reserved if the short addresses hold nothing
    SteadyTime next_end_ = SteadyTime::max();  // of a shortage
    // When the next search may begin after one in vain, for these addresses or for any.
    SteadyTime next_search_{};
    boost::container::static_vector<IpAddress, 8> searched_in_vain_;
    bool any_is_in_vain_ = false;
};

// A request's wait for a seat, one of the upstream's `max_connections`. It is the request's place
// in the queue of the process.
//
// Belongs to the thread of its pool. Any thread may grant the seat, or push the request out, and
// then wakes this thread. If this thread itself grants the seat, the connection that had the seat
// may come with it.
class ActiveRequest;

// Holds one of the upstream's `max_connections`, and gives it back unless a connection takes it
// over.
class Seat {
  public:
    Seat() = default;
    explicit Seat(balance::Seats& seats) : seats_(&seats) {}
    Seat(Seat&& other) noexcept : seats_(std::exchange(other.seats_, nullptr)) {}
    Seat& operator=(Seat&& other) noexcept {
        give_back();
        seats_ = std::exchange(other.seats_, nullptr);
        return *this;
    }
    ~Seat() { give_back(); }

    explicit operator bool() const { return seats_ != nullptr; }
    // From now on the caller has the seat, and must give it back.
    void release() { seats_ = nullptr; }

  private:
    void give_back() {
        if (seats_ != nullptr) std::exchange(seats_, nullptr)->give_back();
    }

    balance::Seats* seats_ = nullptr;
};

// A connection that has just served a request, and the server that it leads to.
struct Spare {
    ServerPtr server;
    ConnectionPtr connection;
};

// The list of its pool has it while it waits.
class SeatWait : public boost::intrusive::list_base_hook<
                     boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    // All outlive this. It wakes `wakeup` when accept() or is_pushed_out() may have changed.
    SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
             ActiveRequest& request);
    ~SeatWait();

    using Answer = balance::SeatWaiter::Answer;
    // Requires that this does not wait. `waiting` or `taken`: accept() says when the request has a
    // seat.
    Answer take() {
        const Answer answer = waiter_.take();
        has_seat_ = answer == Answer::taken;
        return answer;
    }
    // True if the caller has the seat now.
    bool accept() { return has_seat_ || waiter_.accept(); }
    // Takes over the caller's seat, and leaves the queue.
    void take_over_seat();
    // Whether the wait has ended in favour of a request of another address.
    bool is_pushed_out() const { return waiter_.is_pushed_out(); }

    // Whether no seat was granted yet, and the request was not pushed out.
    bool is_waiting() const { return waiter_.is_waiting(); }

    ActiveRequest& request() { return request_; }
    // The connection that came with the seat, once. It has no other seat. May be null.
    Spare take_spare() { return std::move(spare_); }
    // Ends the wait. A seat that was granted and not accepted goes to the next waiter. Returns the
    // connection that came with it.
    Spare leave() {
        waiter_.leave();
        return take_spare();
    }

    // Gives a seat back, and offers the connection that had it. Returns the connection unless a
    // request of this thread got the seat, and the connection with it.
    static Spare give_back(balance::Seats& seats, Spare spare);

  private:
    // Outlives the wait while a notification is on its way.
    struct Sleeping {
        Executor executor;
        Wakeup* wakeup;  // null: the wait is over
    };

    static void on_changed(void* self) noexcept;

    const std::shared_ptr<Sleeping> sleeping_;
    ActiveRequest& request_;
    Spare spare_;
    balance::SeatWaiter waiter_;  // destroyed before the members that a grant writes
    bool has_seat_ = false;
};

}  // namespace tidegate::upstream

// How much of the bodies of HTTP/2 requests a worker holds: what clients have sent and upstreams
// have not taken. One thread.
#pragma once

#include <cstddef>

#include <boost/intrusive/list.hpp>

namespace tidegate::client {

// Beyond a bound no client gets room to send more until some of it is gone; beyond twice the bound
// nothing is kept.
class BodyBudget {
  public:
    // A stream that has dropped bytes, and has not given its client the room for as many more.
    class Debtor : public boost::intrusive::list_base_hook<
                       boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
      public:
        // There is room again.
        virtual void grant() = 0;

      protected:
        ~Debtor() = default;
    };

    void set_bound(std::size_t bytes) { bound_ = bytes; }

    // False: there is no room for them.
    bool hold(std::size_t bytes);
    void drop(std::size_t bytes);
    bool has_room() const { return held_ <= bound_; }
    // `debtor` is granted once there is room.
    void wait(Debtor& debtor);
    std::size_t held() const { return held_; }

  private:
    using Debtors = boost::intrusive::list<Debtor, boost::intrusive::constant_time_size<false>>;

    std::size_t bound_ = 0;
    std::size_t held_ = 0;
    Debtors debtors_;
};

}  // namespace tidegate::client

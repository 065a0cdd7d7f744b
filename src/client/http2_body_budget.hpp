// BodyBudget bounds how much of the bodies of HTTP/2 requests a worker holds (`http2.buffered`):
// what clients have sent and upstreams have not taken. Addresses of clients share it fairly. One
// thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "base/ip.hpp"

namespace tidegate::client {

// Beyond a bound, only clients of an address that holds less than its share get room to send more.
// A share is the bound divided by the number of addresses that hold anything, and a quarter at
// most. Beyond twice the bound the budget keeps nothing more; for an address with less than its
// share it makes room, and ends the largest request of the address that holds most.
class BodyBudget {
  public:
    class Account;
    struct AccountHook : boost::intrusive::list_base_hook<
                             boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {};
    // Keeps what is counted for an address. The budget outlives it.
    using AccountPtr = boost::intrusive_ptr<Account>;

    // A request whose bytes count. In no account at first.
    class Holder {
      public:
        Holder() = default;
        Holder(const Holder&) = delete;
        Holder& operator=(const Holder&) = delete;

        bool has_account() const { return account_ != nullptr; }
        // It waits for room, which its client lacks.
        bool is_waiting() const { return among_waiting_.is_linked(); }

        // There is room again.
        virtual void grant() = 0;
        // Another address needs the room: ends the request, and drops what it can at once.
        virtual void give_way() = 0;

      protected:
        virtual ~Holder() = default;

      private:
        friend BodyBudget;
        friend Account;
        using Hook = boost::intrusive::list_member_hook<
            boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

        AccountPtr account_;
        std::size_t held_ = 0;
        Hook among_all_;
        Hook among_waiting_;
    };

    void set_bound(std::size_t bytes) { bound_ = bytes; }

    // Clients without an address share one account.
    AccountPtr account_of(const std::optional<IpAddress>& address);
    // From now on the bytes of `holder`, also those that it has already, count in `account`.
    void use(Holder& holder, AccountPtr account);
    // Takes the bytes of `holder` out of its account; the holder has no account then.
    void leave(Holder& holder);

    // The next three require an account.

    // False: there is no room for them.
    bool hold(Holder& holder, std::size_t bytes);
    // May grant others.
    void drop(Holder& holder, std::size_t bytes);
    // Whether its client may send as much again as was dropped.
    bool has_room(const Holder& holder) const;
    // `holder` is granted once there is room.
    void wait(Holder& holder);

    std::size_t held() const { return held_; }

  private:
    std::size_t share() const;
    void add(Account& account, std::size_t bytes);
    void subtract(Account& account, std::size_t bytes);
    bool make_room(const Account& account, std::size_t bytes);
    static void grant_all(Account& account);

    std::size_t bound_ = 0;
    std::size_t held_ = 0;
    std::size_t holding_ = 0;  // accounts that hold anything
    std::map<std::optional<IpAddress>, Account*> accounts_;
    // Accounts with holders that wait for room, or that did when they left.
    boost::intrusive::list<AccountHook, boost::intrusive::constant_time_size<false>> waiting_;
};

class BodyBudget::Account
    : public boost::intrusive_ref_counter<Account, boost::thread_unsafe_counter>,
      public AccountHook {
  public:
    Account(BodyBudget& budget, const std::optional<IpAddress>& address)
        : budget_(budget), address_(address) {}
    ~Account() { budget_.accounts_.erase(address_); }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

  private:
    friend BodyBudget;
    template <Holder::Hook Holder::*kHook>
    using List =
        boost::intrusive::list<Holder, boost::intrusive::member_hook<Holder, Holder::Hook, kHook>,
                               boost::intrusive::constant_time_size<false>>;

    BodyBudget& budget_;
    std::optional<IpAddress> address_;
    std::size_t held_ = 0;
    List<&Holder::among_all_> all_;
    List<&Holder::among_waiting_> waiting_;
};

}  // namespace tidegate::client

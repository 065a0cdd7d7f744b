// Password hashes take tens of milliseconds and more: a few threads compute them, so that no event
// loop has to.
//
// One for the process, used by all workers. What can pile up has a bound, in all and for each
// address; addresses take turns; and what several ask at once is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "identity/htpasswd.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::ask {

class PasswordPool {
    struct Ask;
    struct Job;
    struct Shared;

  public:
    struct Options {
        std::size_t threads = 1;
        std::size_t waiting = 64;           // checks not begun yet
        std::size_t under_way_for_one = 8;  // checks of one address, begun or not
        std::size_t askers_of_one_check = 1'024;
    };
    // Htpasswd::verify(), but for tests.
    using Verify = std::function<bool(const identity::Htpasswd& users, std::string_view user,
                                      std::string_view password)>;
    enum class Submitted : std::uint8_t {
        yes,
        pool_is_full,     // too much waits, of this address no less than of others
        address_is_full,  // too much of this address is under way
    };

    // A question that a coroutine asks, and its answer. Belongs to the coroutine and to the thread
    // of `executor`; must go before that event loop does. If it goes before the answer comes,
    // nobody is told, and what nobody waits for and has not begun is not computed.
    class Check {
      public:
        enum class State : std::uint8_t {
            not_asked,
            waiting,
            right,
            wrong,
            dropped,  // not computed: the pool went, or others had a better right to the place
        };

        // Wakes `wakeup` when the state changes, which must outlive this.
        Check(Executor executor, Wakeup& wakeup);
        ~Check();
        Check(const Check&) = delete;
        Check& operator=(const Check&) = delete;

        State state() const;

      private:
        friend class PasswordPool;

        std::shared_ptr<Ask> ask_;
        std::shared_ptr<Job> job_;  // null until asked
        std::shared_ptr<Shared> shared_;
    };

    explicit PasswordPool(const Options& options);
    PasswordPool(const Options& options, Verify verify);
    // Whoever waits gets `dropped`. Returns when the hashes that are being computed are done, which
    // is within the bounds of Htpasswd.
    ~PasswordPool();
    PasswordPool(const PasswordPool&) = delete;
    PasswordPool& operator=(const PasswordPool&) = delete;

    // Asks whether `password` is the user's. Copies both, and wipes the password once it is
    // checked. `address` stands for the client: its fair share is counted by it. Any thread, of
    // which each brings its own Check. Requires one that is not_asked.
    Submitted submit(Check& check, std::shared_ptr<const identity::Htpasswd> users,
                     std::string_view user, std::string_view password, std::uint64_t address);

    // Checks not begun yet.
    std::size_t waiting() const;

  private:
    std::shared_ptr<Shared> shared_;
    std::vector<std::jthread> threads_;
};

}  // namespace tidegate::ask

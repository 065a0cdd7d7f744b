// Checks passwords on threads of its own (one, unless Options say more): a hash takes tens of
// milliseconds and more, which no event loop may spend.
//
// One for the process, used by all workers. The checks that wait have a bound, in all and for each
// address. Addresses take turns. The same check, asked for several times at once, is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "identity/basic.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::ask {

class PasswordPool {
    struct Waiter;
    struct Job;
    struct Shared;

  public:
    struct Options {
        std::size_t threads = 1;
        std::size_t waiting = 64;     // checks not begun yet
        std::size_t per_address = 8;  // checks of one address, begun or not
        std::size_t waiters_per_check = 1'024;
    };
    // Htpasswd::verify(); tests supply another.
    using Verify = std::function<bool(const identity::Htpasswd& users, std::string_view user,
                                      std::string_view password)>;
    enum class Submitted : std::uint8_t {
        yes,
        pool_is_full,     // too many checks wait, and no other address has more of them
        address_is_full,  // too many checks of this address are under way
    };

    // A check that a coroutine waits for. Belongs to the coroutine and to the thread of `executor`;
    // must be destroyed before that event loop. If it is destroyed before the answer comes, the
    // coroutine is not woken, and a check that no coroutine waits for and that has not begun is not
    // computed.
    class Check {
      public:
        enum class State : std::uint8_t {
            not_asked,
            waiting,
            right,
            wrong,
            dropped,  // not computed: the pool ended, or its place went to another address
        };

        // Wakes `wakeup` when the state changes, which must outlive this.
        Check(Executor executor, Wakeup& wakeup);
        ~Check();
        Check(const Check&) = delete;
        Check& operator=(const Check&) = delete;

        State state() const;

      private:
        friend class PasswordPool;

        std::shared_ptr<Waiter> waiter_;
        std::shared_ptr<Job> job_;  // null until asked
        std::shared_ptr<Shared> shared_;
    };

    explicit PasswordPool(const Options& options);
    PasswordPool(const Options& options, Verify verify);
    // Checks that wait get `dropped`. Returns when the hashes that are being computed are done,
    // within the bounds of Htpasswd.
    ~PasswordPool();
    PasswordPool(const PasswordPool&) = delete;
    PasswordPool& operator=(const PasswordPool&) = delete;

    // Asks whether `password` is the user's. Copies both, and wipes the password once it is
    // checked. `address` stands for the client, whose share is counted by it. Any thread, with a
    // Check of its own. Requires a Check that is not_asked.
    Submitted submit(Check& check, std::shared_ptr<const identity::Htpasswd> users,
                     std::string_view user, std::string_view password, std::uint64_t address);

    // Checks not begun yet.
    std::size_t waiting() const;

  private:
    std::shared_ptr<Shared> shared_;
    std::vector<std::jthread> threads_;
};

}  // namespace tidegate::ask

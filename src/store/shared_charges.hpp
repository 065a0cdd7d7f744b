// Charges that wait for the next command to Redis, of all threads of a process.
//
// While few commands are under way a thread sends its charges at once. Else it lends them: they
// wait here until one of the commands is answered, or until a command is full of them, and the
// thread that sees that sends them all. So commands are as full with many threads as with one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "limit/charge.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"

namespace tidegate::store {

class ChargeInbox;

// A charge on its way between threads: a copy of the question, and room for the answer. The thread
// that lends it owns it. In between, whichever thread has it may touch it, but for `decision` and
// `keeps`, which only its owner touches.
struct LentCharge {
    enum class Outcome : std::uint8_t {
        decided,
        ask_alone,  // the command left it alone, or was not sent: nothing was taken for it
        failed,
    };

    // Takes the question of `asking`, which must not need its own lease or moment.
    void fill(LimitDecision& asking, std::size_t hash_of_items);
    limit::Charge charge() const { return {items, cost}; }

    LimitDecision* decision = nullptr;              // null: given up
    std::shared_ptr<const config::Config> keeps{};  // once given up, what the items point to
    ChargeInbox* inbox = nullptr;                   // of the owner

    std::vector<limit::ChargeItem> items{};
    std::string identifiers{};  // of the items
    std::int64_t cost = 1;
    std::size_t hash = 0;
    SteadyTime asked{};

    Outcome outcome = Outcome::failed;
    limit::Verdict verdict{};
    StoreFailure failure{};
};

// Where a thread gets back what it has lent. Outlives all threads that may give.
class ChargeInbox {
  public:
    // Posts `on_mail` to `executor` when something arrives and nothing was there.
    ChargeInbox(Executor executor, std::function<void()> on_mail)
        : executor_(std::move(executor)), on_mail_(std::move(on_mail)) {}

    // Any thread; the caller does not touch `lent` any more.
    void give(LentCharge& lent);
    // The owner's thread: appends what has arrived to `out`.
    void take(std::vector<LentCharge*>& out);

  private:
    Executor executor_;
    std::function<void()> on_mail_;
    std::mutex mutex_;
    std::vector<LentCharge*> mail_;
};

// One a process; any thread.
class SharedCharges {
  public:
    using List = std::vector<LentCharge*>;

    // Whether a charge should be lent. Only a hint: the answer may be another by now.
    bool is_busy(SteadyTime now) const {
        return under_way_.load(std::memory_order_relaxed) >= kUnderWay &&
               now.time_since_epoch().count() < stalls_at_.load(std::memory_order_relaxed);
    }
    // A command leaves.
    void begin_command(SteadyTime now);
    // It was answered, or failed: appends to `due` what the caller sends now.
    void end_command(SteadyTime now, List& due);
    // Lends a charge: appends to `due` what the caller sends now, perhaps this charge as well.
    void add(LentCharge& lent, SteadyTime now, List& due);
    // Appends to `out` the charges of `inbox` that were asked before `time` and still wait.
    void take_back(const ChargeInbox& inbox, SteadyTime time, List& out);

  private:
    // Commands under way that keep further charges waiting: one that Redis works on, and one on its
    // way to Redis or back.
    static constexpr int kUnderWay = 2;
    // Without an end of a command for so long, charges do not wait for one: the threads or the
    // connections of these commands may be stuck.
    static constexpr std::chrono::milliseconds kStall{10};

    void note_progress(SteadyTime now);
    void take_all(List& due);

    std::atomic<int> under_way_{0};
    std::atomic<SteadyTime::rep> stalls_at_{0};
    std::mutex mutex_;
    List waiting_;  // oldest first
};

}  // namespace tidegate::store

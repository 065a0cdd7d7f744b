// Charges that wait for the next command to Redis, of all threads of a process.
//
// While few charges are under way a thread sends its own at once. Else it lends them: they wait
// here until enough others are answered, or until a command is full of them, and the thread that
// sees that sends them all. So many threads fill their commands, too (docs/redis.md has figures).
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

    // Commands under way are counted anew after each stall.
    using Era = std::uint32_t;

    // `free`: with fewer charges under way none wait. With half as many Redis takes 6 % less at 32
    // threads, and charges wait for part of a round trip at half the load.
    explicit SharedCharges(int free = 16) : free_(free) {}

    // Whether a charge should be lent. Only a hint: the answer may be another by now.
    bool is_busy() const {
        return under_way_.load(std::memory_order_relaxed) >= kUnderWay &&
               charges_.load(std::memory_order_relaxed) >= free_;
    }
    // A command leaves that others may join.
    Era begin_command(SteadyTime now);
    // It has so many charges more.
    void grow_command(Era begun, int charges);
    // It, of `charges` in all, was answered or failed: appends to `due` what the caller sends now.
    void end_command(Era begun, int charges, SteadyTime now, List& due);
    // Lends a charge: appends to `due` what the caller sends now, perhaps this charge as well.
    void add(LentCharge& lent, SteadyTime now, List& due);
    // Appends to `out` the charges of `inbox` that were asked before `time` and still wait.
    void take_back(const ChargeInbox& inbox, SteadyTime time, List& out);

  private:
    // Commands under way that keep further charges waiting: one that Redis works on, and one on its
    // way to Redis or back.
    static constexpr int kUnderWay = 2;
    // When no command begins or ends for so long, no charge waits for those under way any more:
    // their threads or connections may be stuck. Nor does a charge wait longer when a command ends.
    static constexpr std::chrono::milliseconds kStall{10};

    void note_progress(SteadyTime now);
    void take_all(List& due);

    std::mutex mutex_;
    const int free_;
    std::atomic<int> under_way_{0};  // commands; written under the lock
    std::atomic<int> charges_{0};    // of these commands; likewise
    Era era_ = 0;
    SteadyTime stalls_at_{};
    List waiting_;  // oldest first
};

}  // namespace tidegate::store

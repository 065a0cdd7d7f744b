// Charges that one command to Redis decides: of the same items, or of different identifiers under
// the same policies. Pure: knows the command and its reply, not the connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "net/wakeup.hpp"
#include "redis/resp.hpp"
#include "store/charge_script.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// Tells lists of items apart at a glance; add() compares those with equal hashes.
std::size_t hash_of(std::span<const limit::ChargeItem> items);

// Reused for command after command; allocates only to grow.
class Batch {
  public:
    // Begins anew. `hash` is that of the items; they and the verdict stay where they are until the
    // reply was read.
    void begin(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash);

    // Adds the charge if the same command can decide it: of the same items up to kBatchMax of
    // them, with `may_mix` also of different identifiers up to kMixedMax. Requires that all can
    // share a command (can_share_command()).
    bool add(const limit::Charge& charge, limit::Verdict& verdict, std::size_t hash, bool may_mix);

    // Whether the charges are of different identifiers.
    bool is_mixed() const { return is_mixed_; }
    std::size_t size() const { return charges_.size(); }

    void append_command(std::string_view prefix, std::optional<limit::Micros> clock,
                        std::string& out) const;
    const redis::Script& script() const;

    // Reads the reply to the command that was appended last into the verdicts. Says of each whether
    // that worked.
    std::span<const Mixed> read_reply(std::string_view reply);
    // The reply is of another kind: of no decision.
    std::span<const Mixed> reject_reply();

  private:
    bool can_be_mixed_with(const limit::Charge& charge, bool may_mix) const;

    bool is_mixed_ = false;
    std::size_t hash_ = 0;
    std::vector<limit::Charge> charges_;
    std::vector<limit::Verdict*> verdicts_;  // of the charges
    std::vector<Mixed> answers_;
};

// Charges that wait for the next command to Redis, of all threads of a process.
//
// While few charges are under way a thread sends its own at once. Else it lends them: they wait
// here until enough others are answered, or until a command is full of them, and the thread that
// sees that sends them all. So many threads fill their commands, too (docs/redis.md has figures).

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

    // Takes the question of `asking`, which must not need its own slot or moment.
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
    void withdraw(const ChargeInbox& inbox, SteadyTime time, List& out);

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

// Sends decisions to Redis in as few commands as possible, and turns the replies into results. One
// a worker, on its thread.
//
// Decisions of one turn of the loop share commands. While the threads of the process together have
// several commands under way, they share those that follow, too (SharedCharges).
class BatchQueue {
  public:
    // How the threads of a process share commands.
    struct Sharing {
        SharedCharges* charges;             // of the process
        Executor executor;                  // of this thread's loop
        std::chrono::milliseconds timeout;  // of a decision
    };

    // Without `sharing` each command is of this thread's decisions alone.
    BatchQueue(const RedisStore& redis, DenyCache& denials, SlotRenewal& slot_renewal,
               const FailurePolicy& failure_policy, const std::optional<Sharing>& sharing);
    ~BatchQueue();

    // Decides what lies in one slot of the store. The result is there when this returns (Redis took
    // no command), or later: then the sleeper of the decision is woken.
    void charge(LimitDecision& decision);
    // The same from inside a reply: the command leaves at the end of the turn, in any case.
    void charge_later(LimitDecision& decision);

    // Sends what has waited too long for a command of another thread, and fails what another thread
    // has not answered in time. Call about every 50 ms.
    void tend(SteadyTime now);

    // Whether no command of this thread is under way, and no other thread has a charge of it.
    bool is_idle() const;

  private:
    class Command;
    struct Entry;

    bool may_lend(const LimitDecision& decision) const;
    void lend(LimitDecision& decision, std::size_t hash);
    void watch_lent();
    void send_due();
    void return_due();
    void read_inbox();
    void finish(LentCharge& lent);

    bool join_open_command(const Entry& entry);
    std::optional<redis::Failure> send(const Entry& entry, bool stays_open);
    void send_alone(LimitDecision& decision);
    void admit_or_limit(LimitDecision& decision);
    void fail(LimitDecision& decision, StoreFailure failure);

    const RedisStore& redis_;
    DenyCache& denials_;
    SlotRenewal& slot_renewal_;
    const FailurePolicy& failure_policy_;
    SteadyTime mixes_from_{};                         // earlier no different identifiers share one
    std::size_t waiting_ = 0;                         // different questions of this turn
    std::vector<Command*> open_;                      // have not left yet, oldest first
    std::vector<std::unique_ptr<Command>> commands_;  // all
    std::vector<Command*> idle_;                      // of them

    // With sharing.
    SharedCharges* shared_ = nullptr;
    Turn* turn_ = nullptr;
    std::chrono::milliseconds timeout_{0};
    std::unique_ptr<ChargeInbox> inbox_;
    std::optional<Timer> lent_timer_;
    bool is_watching_ = false;                       // the timer runs
    std::vector<std::unique_ptr<LentCharge>> lent_;  // all
    std::vector<LentCharge*> idle_lent_;             // of them
    std::vector<LentCharge*> due_;                   // of any thread, to be sent or returned now
    std::vector<LentCharge*> returned_;
};

}  // namespace tidegate::store

// The engine decides about requests: facts in, a decision out. It knows neither how a client is
// spoken to nor what becomes of a request that is admitted.
//
// One a worker, one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>

#include "ask/decision.hpp"
#include "ask/metrics.hpp"
#include "ask/password_pool.hpp"
#include "ask/ruleset.hpp"
#include "identity/authenticator.hpp"
#include "net/asio.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"
#include "store/limiter.hpp"

namespace tidegate::ask {

// One request for the engine, and the coroutine that asks. All outlives the answer.
struct Question {
    const Ruleset& rules;
    const Facts& facts;
    Decision& decision;  // reset; only .client may be set
    Wakeup& wakeup;      // of the coroutine that asks
    // Whether the client has left, so that no answer is needed. Else the callback sees to it that
    // `wakeup` is woken when the client leaves. Called only while the engine waits.
    bool (*has_left)(void* client);
    void* client;
    // When the caller needs the decision: then the store is not waited for any longer, and
    // `on_store_failure` decides.
    SteadyTime needed_by = SteadyTime::max();
    // begin() and finish() list what is to be charged, and charge() is left to the caller.
    bool only_lists = false;
    // The caller can read the body. Without it, costs are the largest that a body can ask for.
    bool can_read_body = false;
};

// Requests of one worker with the same new credential wait for each other: the first one has the
// credential checked, the others use the result. So a client that opens fifty connections after a
// restart does not make fifty guesses. One thread.
class CredentialQueue {
  public:
    using Key = identity::CredentialCache::Key;

    // A request's place in the queue of its credential. Its end wakes the next one.
    class Place {
      public:
        // `queue` and `sleeper` outlive it.
        Place(CredentialQueue& queue, const Key& key, Wakeup& sleeper)
            : queues_(queue.queues_), key_(key), sleeper_(sleeper) {
            queues_[key_].push_back(this);
        }
        ~Place() {
            const auto queue = queues_.find(key_);
            auto& places = queue->second;
            const bool was_first = places.front() == this;
            places.erase(std::find(places.begin(), places.end(), this));
            if (places.empty()) {
                queues_.erase(queue);
            } else if (was_first) {
                places.front()->sleeper_.wake_later();
            }
        }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        bool is_first() const { return queues_.at(key_).front() == this; }

      private:
        std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash>& queues_;
        Key key_;
        Wakeup& sleeper_;
    };

  private:
    std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash> queues_;
};

class Engine {
  public:
    Engine(Executor executor, store::Limiter& limiter, PasswordPool& passwords, Metrics& metrics)
        : executor_(std::move(executor)),
          limiter_(limiter),
          passwords_(passwords),
          metrics_(metrics) {}

    // Takes a request from its route to the verdict, as far as that needs no waiting. False: the
    // caller awaits finish(). Requires facts that check_framing() has accepted.
    //
    // After both, decision.awaits_body may say that the body comes first: then go_on() is next.
    bool begin(const Question& question);
    // Waits for password checks, for keys of tokens and for the store. Requires that begin()
    // returned false.
    Task<> finish(const Question& question);

    // Whether limits of the client's address alone would deny the request, before its body is read:
    // then the decision refuses it. Takes nothing.
    Task<> look_at_address(const Question& question);
    // Goes on to the verdict with Facts::body, which the caller has set. False: the caller awaits
    // finish_charge().
    bool go_on(const Question& question);
    // What each item of decision.charge has cost in place of what it reserved, in their order; -1:
    // that stays. Once, before settle(). Does not wait.
    void correct(Decision& decision, std::span<const std::int64_t> used) {
        limiter_.correct(decision.charge, used);
    }

    // See Metrics.
    void count_cost(std::size_t slot, std::int64_t units, std::int64_t reserved) {
        metrics_.count_cost(slot, units, reserved);
    }
    void count_money(std::size_t slot, std::size_t model_slot, std::int64_t millionths) {
        metrics_.count_money(slot, model_slot, millionths);
    }

    // Asks the store about decision.charge, which the caller has listed. False: the caller awaits
    // finish_charge().
    bool charge(const Question& question) { return begin_charge(question); }
    Task<> finish_charge(const Question& question) { return await_charge(question); }

    // The request has ended with an answer of `status`: the store gets back what does not count
    // with that status, and the slots of concurrency after `hold`. Does not wait.
    void settle(Decision& decision, limit::AnswerStatus status,
                std::chrono::milliseconds hold = {});
    // The request was answered with `status`, and goes on for long: the store gets back what does
    // not count with that status, before settle().
    void note_status(Decision& decision, limit::AnswerStatus status) {
        if (decision.charge.needs_settling) limiter_.note_status(decision.charge, status);
    }

    store::Limiter& limiter() { return limiter_; }

  private:
    // These return true when nothing is left to wait for.
    bool list_and_charge(const Question& question);
    bool begin_charge(const Question& question);
    bool conclude_charge(const Question& question);

    Task<> await_charge(const Question& question);
    Task<> await_turn(const Question& question);
    Task<> prove_and_charge(const Question& question);
    // Check a credential that is not known to be valid.
    Task<> check_credential(const Question& question);
    Task<> look_at_guesses(const Question& question);
    Task<> look_at_listed(const Question& question);
    Task<> check_in_turn(const Question& question);
    Task<> wait_for_key(const Question& question);
    Task<> check_guess(const Question& question);
    Task<> check_password(const Question& question);
    void report_chain_fault(const Question& question);

    Executor executor_;
    store::Limiter& limiter_;
    PasswordPool& passwords_;
    Metrics& metrics_;
    CredentialQueue checks_;
};

}  // namespace tidegate::ask

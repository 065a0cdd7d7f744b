// The verdict on a request whose items are in several slots of Redis Cluster, which no single
// script may touch. Each slot decides its items. This joins their answers, says what the failure
// policy has to decide in process, and what has to be given back, so that all is taken or nothing,
// if not at one moment. Pure: knows no connection and no store.
//
// There are up to two turns. The items of the client alone come first: if one of them denies, the
// slots of what it shares with others are not asked, and nothing is taken there, not even for
// a moment. Items with a limit that counts denied requests, too, come first as well: they take
// whatever the others answer.
//
// Too much is never admitted: a unit is given back only after the slot that took it has answered,
// and a request of which a part has failed is denied unless the failure policy admits that part.
// Two requests may deny each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "limit/charge.hpp"
#include "redis/client.hpp"
#include "store/deny_cache.hpp"
#include "store/failure_policy.hpp"
#include "store/limit_decision.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"
#include "store/refund.hpp"

namespace tidegate::store {

// Reused from request to request; allocates only to grow.
class CrossSlotVerdict {
  public:
    using Result = LimitDecision::Result;
    enum class Answer : std::uint8_t {
        none,  // not yet, or it was not asked
        admitted,
        denied,
        failed,  // not known; the slot may have taken it
    };
    // The items that one slot decides in one turn.
    struct Part {
        std::uint16_t slot = 0;
        std::size_t turn = 0;
        bool in_process = false;               // the failure policy decides it, not the slot
        std::vector<limit::ChargeItem> items;  // in their order in the request
        std::vector<std::size_t> positions;    // there
        limit::Verdict verdict;                // once it has admitted or denied
        Answer answer = Answer::none;
    };
    enum class Next : std::uint8_t {
        wait,       // for answers
        ask_local,  // the failure policy says: decide local() in process
        ask_slots,  // the next turn has begun
        end,
    };
    // Says what has to be given back of an admitted part.
    // Candidates left out, of each of which gives_back() tells.
    enum class GiveBack : std::uint8_t {
        nothing,
        shadow,  // what policies in shadow took: another of them denied
        all,
    };

    using SlotOf = std::function<std::uint16_t(const limit::ChargeItem&)>;

    // Begins anew: a part for each slot and turn, in the order of the items. It is the first turn.
    void begin(std::span<const limit::ChargeItem> items, std::int64_t cost, const SlotOf& slot_of);

    std::span<Part> parts() { return {parts_.data(), used_}; }
    std::span<const Part> parts() const { return {parts_.data(), used_}; }
    // Whether the part is one to ask now.
    bool is_due(const Part& part) const {
        return part.turn == turn_ && part.answer == Answer::none;
    }
    // The items of this turn that the failure policy decides in process.
    Part& local() { return locals_[turn_]; }
    // Returns the parts of all turns.
    std::span<Part> locals() { return locals_; }
    std::span<const Part> locals() const { return locals_; }

    // Whether the parts that have failed so far make the request unavailable, whatever the others
    // answer. `can_be_local`: the share of this process is known.
    bool must_deny(bool can_be_local) const;

    // The part has its verdict.
    static void answered(Part& part) {
        part.answer = part.verdict.admitted ? Answer::admitted : Answer::denied;
    }
    static void failed(Part& part) { part.answer = Answer::failed; }

    // Returns the next step. After ask_local: call again when local() has answered or failed. After
    // ask_slots: when the parts that are due were asked.
    Next next(bool can_be_local);
    // Requires Next::end; so do all below.
    Result result() const { return result_; }
    GiveBack to_give_back(const Part& part) const;
    // Whether what the item at that position of the part took is given back.
    bool gives_back(const Part& part, std::size_t item) const;
    // Makes one verdict of all. `decided` are its items: all but those that failed and were not
    // decided in process.
    void merge(limit::Verdict& verdict, std::vector<limit::ChargeItem>& decided) const;
    // A part has failed.
    bool has_failed() const { return has_failed_; }

  private:
    Part& part_of(std::uint16_t slot, std::size_t turn);
    bool begin_local(bool can_be_local);
    Next end(Result result);
    // Whether the candidate admits, and so do all policies that would be enforced beside it, as far
    // as they were decided.
    bool admits_as_live(const limit::Policy& candidate) const;
    template <class Visit>
    void for_each_part(Visit visit) const;
    void append_limits(const Part& part, std::size_t item, std::size_t first,
                       limit::Verdict& verdict) const;

    std::vector<Part> parts_;
    std::size_t used_ = 0;
    std::size_t turn_ = 0;
    std::size_t turns_ = 1;
    std::array<Part, 2> locals_;  // one a turn
    std::vector<limit::ChargeItem> items_;
    std::int64_t cost_ = 1;
    Result result_ = Result::admitted;
    bool shadow_admitted_ = true;
    bool has_failed_ = false;
};

// A decision about items in several slots of Redis Cluster: sends a command for each slot, joins
// the answers, gives back what some slots took where others denied, and has the denials remembered
// of what is the client's alone.

// Owned by its decision, which lives until every slot has answered.
class CrossSlotCharge {
  public:
    // The charge works with these services, which outlive it.
    struct Services {
        const RedisStore& redis;
        const FailurePolicy& failure_policy;
        const Refunds& refunds;
        SlotRenewal& slot_renewal;
        DenyCache& denials;
        Metrics& metrics;
    };

    CrossSlotCharge(const Services& services, LimitDecision& decision);
    ~CrossSlotCharge();

    // Decides anew. Wakes the sleeper of the decision when the result is there.
    void begin();

    // Whether items of the client alone were denied, and that still holds: then the decision has
    // the denial, which is about these items.
    bool recall();

    // Once there is a result.
    const CrossSlotVerdict& verdict() const { return verdict_; }

  private:
    class Command;
    using Part = CrossSlotVerdict::Part;

    limit::Charge charge_of(const Part& part) const { return decision_.charge_of(part.items); }
    static bool is_of_client(const Part& part);
    Command& command_for(std::size_t part);
    void send();
    void fail(Part& part, StoreFailure failure);
    void go_on();
    void charge_in_process(Part& part) const;
    void end();
    bool counts_denied() const;
    void remember_denials() const;
    void give_back_parts();
    bool give_back(Part& part);

    const Services& services_;
    LimitDecision& decision_;
    CrossSlotVerdict verdict_;
    StoreFailure failure_{};   // of the part that failed first
    bool is_sending_ = false;  // not all commands were sent: the end has to wait
    std::vector<std::unique_ptr<Command>> commands_;
};

// What the store was asked of a decision of which batches have admitted the other items: what they
// gave stays. Null: nothing.
const LimitDecision* rest_of(const LimitDecision& decision);

// Calls `visit(Admission)` for each place where an admitted decision took something.
template <class Visit>
void for_each_admission(const LimitDecision& decision, Visit visit) {
    if (decision.store_state.is_leased) {
        const LimitDecision* const rest = rest_of(decision);
        if (rest != nullptr) for_each_admission(*rest, visit);
        return;
    }
    if (!decision.store_state.crosses_slots) {
        visit(Admission{decision.charge(), decision.verdict.receipt,
                        decision.decided_by == StoreKind::redis});
        return;
    }
    const auto visit_part = [&](const CrossSlotVerdict::Part& part, bool in_redis) {
        if (part.answer != CrossSlotVerdict::Answer::admitted) return;
        visit(Admission{decision.charge_of(part.items), part.verdict.receipt, in_redis});
    };
    const CrossSlotVerdict& verdict = decision.store_state.cross_slot->verdict();
    for (const auto& part : verdict.parts()) visit_part(part, true);
    for (const auto& local : verdict.locals()) visit_part(local, false);
}

}  // namespace tidegate::store

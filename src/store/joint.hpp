// One decision of several servers: a request's items lie in slots of Redis Cluster that no single
// script may touch. Each slot is asked for its items; this joins what they answer, says what the
// failure policy still has to decide, and what is to be given back: all or none is taken, if not at
// one moment. Pure: knows neither Redis nor the store in process.
//
// Too much is never admitted, as a unit is given back only after the slot that took it has said so,
// and whatever is not known to be taken by all ends in a denial. Two requests may deny each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "limit/charge.hpp"

namespace tidegate::store {

// Reused from request to request; allocates only to grow.
class Joint {
  public:
    enum class Answer : std::uint8_t {
        none,  // not yet
        admitted,
        denied,
        failed,  // nobody knows; it may have been taken
    };
    // The items that one server decides.
    struct Part {
        std::uint16_t slot = 0;
        std::vector<limit::ChargeItem> items;  // in their order in the request
        std::vector<std::size_t> places;       // where there
        limit::Verdict verdict;                // once it has admitted or denied
        Answer answer = Answer::none;
    };
    enum class Next : std::uint8_t {
        wait,       // for answers
        ask_local,  // local() is to be decided in process: a failure policy says so
        end,
    };
    enum class Result : std::uint8_t { admitted, limited, unavailable };
    // What of an admitted part is to be given back.
    enum class Back : std::uint8_t {
        nothing,
        shadow,  // what policies in shadow took: another of them denied
        all,
    };

    using SlotOf = std::function<std::uint16_t(const limit::ChargeItem&)>;

    // Begins anew: a part for each slot, in the order in which the items name them.
    void begin(std::span<const limit::ChargeItem> items, std::int64_t cost, const SlotOf& slot_of);

    std::span<Part> parts() { return {parts_.data(), used_}; }
    std::span<const Part> parts() const { return {parts_.data(), used_}; }
    // What the failure policy leaves to this process; no items if that is nothing.
    Part& local() { return local_; }
    const Part& local() const { return local_; }

    // Whether the failure of these parts alone, known beforehand, ends the request as unavailable:
    // then none need be asked. `can_be_local`: the share of this process is known.
    bool must_deny(bool can_be_local) const;

    // The part, not answered yet, has: its verdict is filled in.
    static void answered(Part& part) {
        part.answer = part.verdict.admitted ? Answer::admitted : Answer::denied;
    }
    static void failed(Part& part) { part.answer = Answer::failed; }

    // What comes next. Once it is ask_local: call again when local() has answered or failed.
    Next next(bool can_be_local);
    // Requires that the end has come; likewise all below.
    Result result() const { return result_; }
    Back back_of(const Part& part) const;
    // Joins the verdicts. `decided` are the items that it speaks of: all, but those that failed and
    // were not decided here.
    void join(limit::Verdict& verdict, std::vector<limit::ChargeItem>& decided) const;
    // A part has failed.
    bool has_failed() const { return has_failed_; }

  private:
    Part& part_of(std::uint16_t slot);
    bool begin_local(bool can_be_local);
    Next end(Result result);
    template <class Visit>
    void for_each_part(Visit visit) const;
    void tell_limits(const Part& part, std::size_t item, std::size_t first,
                     limit::Verdict& verdict) const;

    std::vector<Part> parts_;
    std::size_t used_ = 0;
    Part local_;
    std::vector<limit::ChargeItem> items_;
    std::int64_t cost_ = 1;
    Result result_ = Result::admitted;
    bool shadow_admitted_ = true;
    bool has_failed_ = false;
};

}  // namespace tidegate::store

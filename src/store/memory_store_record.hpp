// What the in-process store keeps of one limit for one identifier: one kind for each way of
// counting, all of the same shape. What they decide is said in limit/.
//
// Not thread-safe: the caller holds the mutex of the shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <boost/unordered/unordered_flat_set.hpp>

#include "limit/charge.hpp"
#include "limit/concurrency.hpp"
#include "limit/gcra.hpp"
#include "limit/period.hpp"
#include "limit/window.hpp"
#include "store/counts.hpp"

namespace tidegate::store {

class CountsReader;
class CountsWriter;

// A charge, when it was made, among how many processes the quotas are divided, and for whom.
struct Asked {
    const limit::Charge& charge;
    limit::Now now;
    std::int64_t divisor = 1;
    bool stands_in = false;  // for a store whose data is not known here

    std::int64_t share(const limit::Limit& limit) const {
        return divisor == 1 ? limit.quota : limit.quota / divisor;
    }
};

// How a schedule stands around the moment of a request.
struct MomentStanding {
    bool concerned = true;  // false: the moment is past, and past moments are not counted
    limit::Micros at{0};
    std::int64_t busiest = 0;
};

// How a record stands for a request, before anything is taken.
using Standing = std::variant<limit::Standing, limit::ExactTime, MomentStanding, limit::Slots>;

// Each kind has these members; `standing` is always one of this very record.
//   look       how the limit stands for what is asked; touches nothing
//   passes     whether it admits
//   retry      for how long it does not, exactly; kNever. Requires that it does not
//   verdict_of what a client sees, once `taken` units are taken
//   reserve    allocates whatever take() needs
//   take       takes the cost; counts that would not fit saturate
//   give_back  returns what the charge took at `at`, if that can be told from what came later
//   count      how it stands, for people, as a request of cost 1 meets it
//   ends_us    nothing is held from then on, by the steady clock; for counts that follow the wall
//              clock, as the clocks differ at `now`
//   save       writes what it counts, load reads that into one that counts nothing
//   weight     how much is held: the share of the quota, at most all of it, times the duration; in
//              microseconds
template <class Label>
class WindowCount {
  public:
    using Look = limit::Standing;

    Look look(const limit::Limit& limit, const Asked& asked) const;
    static bool passes(const limit::Limit& limit, const Asked& asked, const Look& standing);
    limit::Micros retry(const limit::Limit& limit, const Asked& asked, const Look& standing) const;
    static limit::LimitVerdict verdict_of(const limit::Limit& limit, const Asked& asked,
                                          const Look& standing, std::int64_t taken);
    void reserve(const limit::Limit& limit, const Asked& asked, const Look& standing);
    void take(const limit::Limit& limit, const Asked& asked, const Look& standing);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    LimitCount count(const limit::Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const limit::Now&) const { return window_.ends_us; }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const limit::Limit& limit, const Asked& asked) const;

  private:
    std::span<limit::MarkOf<Label>> ring() const { return {marks_.get(), window_.room}; }

    limit::WindowOf<Label> window_;
    std::unique_ptr<limit::MarkOf<Label>[]> marks_;
};

class BucketCount {
  public:
    using Look = limit::ExactTime;

    Look look(const limit::Limit& limit, const Asked& asked) const;
    static bool passes(const limit::Limit& limit, const Asked& asked, const Look& backlog);
    static limit::Micros retry(const limit::Limit& limit, const Asked& asked, const Look& backlog);
    static limit::LimitVerdict verdict_of(const limit::Limit& limit, const Asked& asked,
                                          const Look& backlog, std::int64_t taken);
    static void reserve(const limit::Limit&, const Asked&, const Look&) {}
    void take(const limit::Limit& limit, const Asked& asked, const Look& backlog);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    LimitCount count(const limit::Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const limit::Now&) const {
        return bucket_.tat_us + (bucket_.parts > 0 ? 1 : 0);
    }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const limit::Limit& limit, const Asked& asked) const;

  private:
    limit::Bucket bucket_;
};

class PeriodCount {
  public:
    using Look = limit::Standing;

    Look look(const limit::Limit& limit, const Asked& asked) const;
    static bool passes(const limit::Limit& limit, const Asked& asked, const Look& standing);
    static limit::Micros retry(const limit::Limit& limit, const Asked& asked, const Look& standing);
    static limit::LimitVerdict verdict_of(const limit::Limit& limit, const Asked& asked,
                                          const Look& standing, std::int64_t taken);
    static void reserve(const limit::Limit&, const Asked&, const Look&) {}
    void take(const limit::Limit& limit, const Asked& asked, const Look& standing);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    LimitCount count(const limit::Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const limit::Now& now) const { return end_of(count_, now).count(); }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const limit::Limit& limit, const Asked& asked) const;

  private:
    limit::PeriodUnits count_;
};

class MomentsCount {
  public:
    using Look = MomentStanding;

    Look look(const limit::Limit& limit, const Asked& asked) const;
    bool passes(const limit::Limit& limit, const Asked& asked, const Look& standing) const;
    static limit::Micros retry(const limit::Limit&, const Asked&, const Look&) {
        return limit::kNever;
    }
    static limit::LimitVerdict verdict_of(const limit::Limit& limit, const Asked& asked,
                                          const Look& standing, std::int64_t taken);
    void reserve(const limit::Limit& limit, const Asked& asked, const Look& standing);
    void take(const limit::Limit& limit, const Asked& asked, const Look& standing);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    LimitCount count(const limit::Limit& limit, const Asked& asked) const;
    std::int64_t ends_us(const limit::Now& now) const {
        return now.steady_at(limit::Micros{ends_us_}).count();
    }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    double weight(const limit::Limit& limit, const Asked& asked) const;

    // The first moment from `from` on that passes; kNever.
    limit::Micros earliest(const limit::Limit& limit, const Asked& asked, limit::Micros from) const;

  private:
    static std::int64_t share(const limit::Limit& limit, const Asked& asked);
    std::int64_t newest_at(const limit::Limit& limit, const limit::Now& now) const;

    // All by the wall clock.
    std::vector<std::int64_t> moments_;  // in order
    std::int64_t newest_us_ = 0;         // when the newest was asked for
    std::int64_t ends_us_ = 0;
    // By the steady clock: when the newest was asked for, if that was in this process.
    std::int64_t asked_us_ = 0;
};

class SlotsCount {
  public:
    using Look = limit::Slots;

    Look look(const limit::Limit& limit, const Asked& asked) const;
    static bool passes(const limit::Limit& limit, const Asked& asked, const Look& slots);
    static limit::Micros retry(const limit::Limit& limit, const Asked& asked, const Look& slots);
    static limit::LimitVerdict verdict_of(const limit::Limit& limit, const Asked& asked,
                                          const Look& slots, std::int64_t taken);
    void reserve(const limit::Limit& limit, const Asked& asked, const Look& slots);
    void take(const limit::Limit& limit, const Asked& asked, const Look& slots);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    LimitCount count(const limit::Limit& limit, const Asked& asked) const;
    // When those in flight end is unknown: see holds_slots().
    std::int64_t ends_us(const limit::Now&) const {
        return kept_until_us_.empty() ? 0 : kept_until_us_.back();
    }
    void save(CountsWriter& out) const;
    void load(CountsReader& in);
    // Slots stand for requests that an upstream may still be at work on: more than any units.
    double weight(const limit::Limit&, const Asked&) const { return weight(); }
    double weight() const {
        return kept_until_us_.empty() ? 0 : std::numeric_limits<float>::infinity();
    }

    bool in_flight() const { return !held_.empty(); }
    // The request has ended: its slot, if it holds one, is given up at `until`.
    void release(const limit::LeaseId& lease, limit::Micros until);

  private:
    // They are made by proxies, not by clients: mixing is enough.
    struct Hash {
        std::size_t operator()(const limit::LeaseId& id) const {
            return (id.holder * 0x9e3779b97f4a7c15ULL) ^ id.request;
        }
    };

    std::int64_t held_at(std::int64_t now_us) const;

    boost::unordered_flat_set<limit::LeaseId, Hash> held_;  // by requests in flight
    std::vector<std::int64_t> kept_until_us_;  // after their requests have ended; in order
};

// Windows, buckets and periods are small and common; the others are kept apart, so that they do not
// make every record as large as theirs.
class Record {
  public:
    // Counts nothing yet.
    explicit Record(const limit::Limit& limit) { reset(limit); }
    void reset(const limit::Limit& limit) { reset(limit.id, limit.state()); }

    void save(CountsWriter& out) const;
    // What save() wrote; nothing: it did not.
    static std::optional<Record> load(CountsReader& in);

    bool counts(const limit::Limit& limit) const;
    std::uint32_t id() const { return id_; }
    std::int64_t ends_us(const limit::Now& now) const;
    bool is_of_slots() const { return std::holds_alternative<std::unique_ptr<SlotsCount>>(kind_); }
    // For requests in flight.
    bool holds_slots() const;
    // What it held when units last came or went; 0 once nothing is held any more. Units that leave
    // one after the other weigh until the last has left.
    double weight(const limit::Now& now) const {
        return ends_us(now) > now.steady.count() ? weight_ : 0;
    }
    // Takes the cost. `standing` is how it stood.
    void take(const limit::Limit& limit, const Asked& asked, const Standing& standing);
    void give_back(const limit::Limit& limit, const Asked& asked, limit::Micros at);
    // Of slots: the request has ended, and its slot is given up at `until`.
    void release(const limit::LeaseId& lease, limit::Micros until);

    // Calls `use` with the kind that this record is.
    template <class Use>
    decltype(auto) with(Use use) const {
        return with_kind_of(*this, use);
    }
    template <class Use>
    decltype(auto) with(Use use) {
        return with_kind_of(*this, use);
    }
    // Requires a limit of concurrency.
    SlotsCount& slots() { return *std::get<std::unique_ptr<SlotsCount>>(kind_); }
    // Requires a limit of schedule.
    const MomentsCount& moments() const { return *std::get<std::unique_ptr<MomentsCount>>(kind_); }

  private:
    // A switch, for std::visit would go through a table of pointers, several times a charge.
    template <class Self, class Use>
    static decltype(auto) with_kind_of(Self& self, Use& use) {
        switch (self.kind_.index()) {
            case 0:
                break;
            case 1:
                return use(*std::get_if<1>(&self.kind_));
            case 2:
                return use(**std::get_if<2>(&self.kind_));
            case 3:
                return use(**std::get_if<3>(&self.kind_));
            case 4:
                return use(**std::get_if<4>(&self.kind_));
            default:
                return use(*std::get_if<5>(&self.kind_));
        }
        return use(*std::get_if<0>(&self.kind_));
    }

    Record(std::uint32_t id, limit::StateKind kind) { reset(id, kind); }
    void reset(std::uint32_t id, limit::StateKind kind);

    using Windows = WindowCount<std::uint16_t>;
    using Log = WindowCount<std::uint64_t>;
    // In the order of limit::StateKind.
    std::variant<Windows, BucketCount, std::unique_ptr<Log>, std::unique_ptr<MomentsCount>,
                 std::unique_ptr<SlotsCount>, PeriodCount>
        kind_;
    std::uint32_t id_ = 0;
    float weight_ = 0;
};

}  // namespace tidegate::store

// Reports to Redis, once it is back, what this worker admitted by itself while Redis was away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "limit/charge.hpp"
#include "limit/kinds.hpp"
#include "store/metrics.hpp"
#include "store/redis_store.hpp"

namespace tidegate::store {

// Holds what this process admitted for one identifier under one policy while Redis was away.
struct LocalTaken {
    using OfLimit = limit::OneOfKinds<limit::UnreportedOf>;

    // A copy of the limits that held, for a reload may change the configuration.
    std::shared_ptr<const limit::Policy> policy;
    std::string identifier;
    std::vector<OfLimit> limits;  // as policy->limits, each what its algorithm notes
    limit::Micros ends{0};        // from then on none of it makes a difference; by the steady clock
    limit::Micros wall_ahead{0};  // by so much the wall clock was ahead at the latest request
    int refusals = 0;             // by Redis, of the report

    limit::ChargeItem item() const { return {policy.get(), identifier}; }
    // Notes what limit number `k` took at `at`.
    void take(std::size_t k, std::int64_t units, const limit::Now& at);
    // Takes out what is still here of units that were taken at `at`, by the steady clock.
    void give_back(std::size_t k, std::int64_t units, limit::Micros at, const limit::Now& now);
    // Adds what was taken later, of the same identifier and policy.
    void add_later(const LocalTaken& later);
    // Nothing was taken after all.
    void clear();
    // Returns the share of the quota that was taken, times the duration, of the limit where that is
    // largest.
    double weight() const;
    std::size_t portions() const;
};

// Notes what this process admitted by itself while Redis did not answer, until it is reported to
// Redis: for each identifier and policy the units of each sub-bucket they were taken in.
//
// Bounded in identifiers and in what is noted of them; where it is full, of some looked at the
// lightest goes, of equals the newest. Nothing here decides anything: what is forgotten or
// lost only leaves Redis with less to count. Not thread-safe: one a worker.
class LocalLedger {
  public:
    struct Options {
        std::size_t identifiers_max = 10'000;
        std::size_t portions_max = 500'000;  // of all of them; 16 bytes each
    };

    explicit LocalLedger(const Options& options);
    ~LocalLedger();

    // Notes what `charge` took in process, `verdict` being what was answered. What cannot be told
    // to Redis (schedule, concurrency) is left out. The wall clock was ahead of the steady one by
    // `wall_ahead`. Returns how many identifiers had to be forgotten for it.
    std::size_t take(const limit::Charge& charge, const limit::Verdict& verdict,
                     limit::Micros wall_ahead = {});

    // Takes out units that were given back in process, as far as they are still here.
    void give_back(const limit::Refund& refund, const limit::Now& now);

    // Forgets the items, under whatever tier or version of their policies. Looks once at all there
    // are.
    void forget(std::span<const limit::ChargeItem> items);

    using Ready = std::function<bool(const LocalTaken&)>;
    // Hands out up to `most` of those that are `ready`, and only them: they are no longer here.
    // Looks at a bounded number of them, going on where it stopped.
    std::vector<LocalTaken> hand_out(std::size_t most, const Ready& ready);
    // Takes back what take() handed out and the caller could not use, as if it had stayed. Returns
    // as take().
    std::size_t put_back(LocalTaken taken);

    bool empty() const { return kept_.empty(); }
    std::size_t size() const { return kept_.size(); }

  private:
    struct Name {
        const limit::Policy* policy;
        std::string_view identifier;
        bool operator==(const Name&) const = default;
    };
    struct Hash {
        std::uint64_t secret;
        std::size_t operator()(const Name& name) const;
    };

    const std::shared_ptr<const limit::Policy>& copy_of(const limit::ChargeItem& item);
    std::shared_ptr<const limit::Policy>& place_of_copy(const limit::ChargeItem& item);
    LocalTaken* find(const limit::ChargeItem& item);
    LocalTaken& made(const limit::ChargeItem& item, std::size_t& forgotten);
    void keep(LocalTaken taken);
    LocalTaken remove(std::size_t place);
    // For so many more names. Returns how many had to be forgotten.
    std::size_t make_room(std::size_t names);

    Options options_;
    std::vector<std::unique_ptr<LocalTaken>> kept_;
    boost::unordered_flat_map<Name, std::size_t, Hash> places_;  // names are of what is kept
    std::vector<std::shared_ptr<const limit::Policy>> copies_;   // by Policy::index
    std::unordered_map<const limit::Tier*, std::shared_ptr<const limit::Policy>> copies_by_claims_;
    std::size_t portions_ = 0;
    std::size_t hand_ = 0;     // where hand_out() goes on
    limit::Micros latest_{0};  // that something was taken
    std::minstd_rand random_;
};

// Appends the whole command that reports `taken` to lua/report.lua, sent at `now` by the clocks
// that it was noted by. `clock` as in append_charge_command(). With a
// `name`, that no other report has, Redis takes it once, however often it is sent within ten
// minutes.
void append_report_command(const LocalTaken& taken, const limit::Now& now, std::string_view prefix,
                           std::optional<limit::Micros> clock, std::string& out,
                           std::string_view name = {});

// Reports to Redis, once it is back, what this worker admitted while it was away: with the
// sub-buckets of time in which that was taken, once, and slowly enough to leave room for decisions.
//
// A report that is lost leaves Redis with less to count; the bound of `local` holds without it.
// Reports that were not sent, or for which Redis was not ready, are kept for the next time. One a
// worker, on its thread.
class LocalReport {
  public:
    struct Options {
        LocalLedger::Options ledger{};
        std::size_t at_once = 10;  // identifiers that one call of send() reports
        // Of what requests cost more than they took, while Redis is up: so many identifiers are
        // reported between two calls of send(), at once if they can be.
        std::size_t more_at_once = 128;
    };

    // The servers are stopped before this is destroyed: what is in flight comes back here.
    LocalReport(RedisStore redis, const Options& options, Metrics& metrics);

    // The in-process store has decided, or was given back something.
    void took(const limit::Charge& charge, const limit::Verdict& verdict);
    void gave_back(const limit::Refund& refund, const limit::Now& now);

    // Requests that were admitted have cost `more` than they took. `in_redis`: Redis decided them,
    // and gets the report as soon as possible; else the ledger of the outage carries it.
    void took_more(const limit::Charge& more, bool in_redis);

    // Their counts were reset: drops what was not sent yet.
    void forget(std::span<const limit::ChargeItem> items);

    // Sends what can be sent now. Call about every 50 ms.
    void send(SteadyTime now);

    // Whether no report of what requests cost more is under way to Redis.
    bool is_idle() const;
    // For how many identifiers Redis is still to learn that requests cost more, but for what is
    // under way.
    std::size_t owed() const { return more_.size() + unsure_.size(); }

    bool empty() const {
        return ledger_.empty() && more_.empty() && unsure_.empty() && in_flight_.empty();
    }

  private:
    class Command;

    // A report with a name that Redis may have got or not.
    struct Unsure {
        LocalTaken taken;
        std::string name;
        SteadyTime since;  // when it was sent first
        bool is_again = false;
    };

    bool is_reachable(const LocalTaken& taken) const;
    void ask_again(Unsure report);
    void send_unsure(SteadyTime now);
    void send_named(LocalLedger& from, Unsure report);
    void send_from(LocalLedger& ledger, std::size_t most);
    void send_more();
    void send_one(LocalLedger& from, LocalTaken taken);
    void keep(LocalLedger& ledger, LocalTaken taken);
    void count(LocalReportResult result, std::size_t times = 1);

    RedisStore redis_;
    std::size_t at_once_;
    std::size_t more_at_once_;
    Metrics* metrics_;
    LocalLedger ledger_;
    LocalLedger more_;                 // what requests that Redis decided cost more
    std::vector<Command*> in_flight_;  // at most at_once_ of ledger_
    std::size_t more_left_;            // that may be sent until the next send()
    std::deque<Unsure> unsure_;        // oldest first
    std::string name_;                 // of this, among all processes and threads
    std::uint64_t last_name_ = 0;
    bool failed_ = false;  // something since the last send()
    SteadyTime quiet_until_;
};

}  // namespace tidegate::store

// What this process admitted by itself while Redis did not answer, until it is reported to Redis:
// for each identifier and policy the units of each sub-bucket they were taken in.
//
// Bounded in identifiers and in what is noted of them; where it is full, of some looked at the
// lightest goes, of equals the newest. Nothing here decides anything: what is forgotten or
// lost only leaves Redis with less to count. Not thread-safe: one a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "limit/charge.hpp"
#include "store/local_taken.hpp"

namespace tidegate::store {

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

    // What was given back in process is taken out, as far as it is still here.
    void give_back(const limit::Refund& refund, const limit::Now& now);

    // Forgets the items, under whatever tier or version of their policies. Looks once at all there
    // are.
    void forget(std::span<const limit::ChargeItem> items);

    using Ready = std::function<bool(const LocalTaken&)>;
    // Hands out up to `most` of those that are `ready`, and only them: they are no longer here.
    // Looks at a bounded number of them, going on where it stopped.
    std::vector<LocalTaken> hand_out(std::size_t most, const Ready& ready);
    // What was handed out and could not be used: it is as if it had stayed. Returns as take().
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
    std::size_t portions_ = 0;
    std::size_t hand_ = 0;     // where hand_out() goes on
    limit::Micros latest_{0};  // that something was taken
    std::minstd_rand random_;
};

}  // namespace tidegate::store

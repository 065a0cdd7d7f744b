// Decides a call of Envoy's rate limit service: finds the rule of each descriptor and charges them,
// all or none. One a call, on the thread that serves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faces/envoy_calls.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::faces {

// The policies of limits that calls bring with them, one for each unit and number, so that a
// decision can point to them for as long as it takes. Of one worker and one configuration.
class RlsOverrides {
  public:
    // Different limits at a time.
    static constexpr std::size_t kMax = 4'096;

    explicit RlsOverrides(const std::shared_ptr<const config::Config>& config) : config_(config) {}

    // Keeps no configuration in use: after a reload there may be no call for hours.
    bool is_of(const std::shared_ptr<const config::Config>& config) const {
        return !config_.owner_before(config) && !config.owner_before(config_);
    }
    // A call may bring more limits than there is room for: it gets new ones, and the calls that are
    // under way keep these.
    bool is_full() const { return policies_.size() + kRlsDescriptorsMax > kMax; }
    // Null: there are too many.
    const limit::Policy* find(const config::Config& config, const RlsCall::Override& limit);

  private:
    std::weak_ptr<const config::Config> config_;
    std::map<std::pair<rls::Unit, std::int64_t>, std::unique_ptr<const limit::Policy>> policies_;
};

class RlsCharge {
  public:
    struct Deadline {
        // Without the store's answer `on_store_failure` decides then.
        SteadyTime needed_by = SteadyTime::max();
        // RlsCharge charges nothing after this: Envoy no longer waits for the answer.
        SteadyTime of_answer = SteadyTime::max();
    };

    // All outlives the charge; the charge outlives the record of the exchange.
    RlsCharge(proxy::WorkerContext& worker, proxy::Exchange& exchange, const RlsCall& call,
              std::shared_ptr<RlsOverrides> overrides, const Deadline& deadline)
        : worker_(worker),
          x_(exchange),
          call_(call),
          overrides_(std::move(overrides)),
          deadline_(deadline) {}

    // Charges, and fills in `answer`. If the store does not answer and a policy says deny, the
    // fault of the exchange's decision is store_unavailable, and there is no answer. A sentence
    // says why the call cannot be decided.
    Task<std::string> run(RlsAnswer& answer);

  private:
    // A descriptor that some policy counts.
    struct Counted {
        std::size_t position = 0;         // of the descriptor
        const rls::Rule* rule = nullptr;  // null: by a limit of its own
        limit::ChargeItem item{};
        std::int64_t cost = 1;
        bool is_quota = false;
    };
    using Items = std::vector<const Counted*>;

    std::string list(RlsAnswer& answer);
    std::string count(std::size_t position, const rls::Rule* rule, const limit::Policy* policy,
                      const std::vector<std::string_view>& values);
    Task<> charge_together(RlsAnswer& answer);
    Task<> charge_each(RlsAnswer& answer);
    Task<> charge_all_or_none(Items items, RlsAnswer& answer);
    // Asks the store what is left where the remembered denial of `group` does not know.
    Task<> ask_what_is_left(ask::Decision& remembered, const Items& group, RlsAnswer& answer);
    // Takes `cost` for all, whose items differ. Returns the decision.
    Task<ask::Decision*> charge(const Items& items, std::int64_t cost, bool alone);
    ask::Decision& begin(const Items& items, std::int64_t cost, bool alone);
    void read(const ask::Decision& decision, const Items& items, RlsAnswer& answer) const;
    void read_limits(const Counted& counted, const ask::Decision& decision,
                     RlsAnswer::Status& status) const;
    void finish(RlsAnswer& answer);
    void note_activity() const;
    bool is_down() const { return x_.decision.fault == ask::Fault::store_unavailable; }
    bool is_late() const { return steady_now() >= deadline_.of_answer; }

    proxy::WorkerContext& worker_;
    proxy::Exchange& x_;
    const RlsCall& call_;
    std::shared_ptr<RlsOverrides> overrides_;
    const Deadline deadline_;
    // Both have room for all descriptors, so that pointers into them stay good.
    std::vector<std::string> identifiers_;
    std::vector<Counted> counted_;
    std::vector<std::unique_ptr<ask::Decision>> decisions_;  // beside that of the exchange
    bool has_charged_ = false;                               // that one is in use
};

}  // namespace tidegate::faces

// Replays the requests of a log against a configuration: the router, the identities, the policies
// and the in-process store of the proxy, at the times of the log.
//
// A Simulation owns its store and what it has counted. One thread; requests come in the order of
// their times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ask/decision.hpp"
#include "ask/ruleset.hpp"
#include "config/config.hpp"
#include "simulate/log.hpp"
#include "simulate/tally.hpp"
#include "store/memory_store.hpp"

namespace tidegate::simulate {

// What all logs of a simulation say of each request.
struct LogFacts {
    std::array<bool, kLogTexts> texts{};
    std::array<bool, kLogNumbers> numbers{};
    std::vector<bool> values{};  // of LogLayout::wanted
    bool query = false;

    bool has(LogText text) const { return texts[static_cast<std::size_t>(text)]; }
    bool has(LogNumber number) const { return numbers[static_cast<std::size_t>(number)]; }
};

// What policies and routes of a configuration want of a request beside its line: each once.
void add_wanted(const config::Config& config, std::vector<std::string>& wanted);
// Whether policies count clients by their addresses, or name some in `exempt` or `deny`.
bool needs_address(const config::Config& config);

// How a policy is simulated.
struct PolicyPlan {
    const config::PolicySettings* policy = nullptr;
    bool is_simulated = true;
    // What its keys, limits or costs need and the log does not have: `header:x-tenant`. Of a policy
    // that is simulated, the keys that are left out.
    std::vector<std::string> lacks;
    bool can_map = true;       // false: no --map would do
    bool is_recorded = false;  // what is simulated is a recording; then `lacks` are prose
    // Of a recording: keys that requests of many clients share, which are left out.
    std::vector<std::string> shared;
};

// Requests that only the live limits refuse, and that only the candidate would, were it live.
struct CandidateChanges {
    std::uint64_t only_live = 0;
    std::uint64_t only_candidate = 0;
};

class Simulation {
  public:
    // `wanted`: the names of LoggedRequest::values.
    Simulation(std::shared_ptr<const config::Config> config, const LogFacts& facts,
               std::vector<std::string> wanted);
    ~Simulation();
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    enum class Verdict : std::uint8_t {
        none,  // the line is about no request
        admitted,
        limited,
        refused,      // before a limit was asked: no route, a `deny`, a key that is missing
        unavailable,  // `on_full: deny`, and the store is full
        elsewhere,    // refused for an identifier that the recording does not have
    };
    struct Decided {
        Verdict verdict = Verdict::none;
        std::string_view limited_identifier{};  // that was over the limit; empty: none was
    };
    // Decides requests one after the other and counts the results. Their times ascend, from that of
    // the last request on. Requires at most kRequestsAtOnce; what it returns is valid until the
    // next call.
    std::span<const Decided> decide(std::span<const LoggedRequest> requests);

    const config::Config& config() const { return *rules_.config; }
    const ask::PolicyTexts& texts() const { return rules_.policy_texts; }
    const std::vector<PolicyPlan>& plans() const { return plans_; }
    // What routes or their costs depend on and the log does not have: `host`, `header:x-beta`.
    const std::vector<std::string>& routes_lack() const { return routes_lack_; }
    const Tally& tally() const { return tally_; }
    std::uint64_t count_of(Verdict verdict) const {
        return verdicts_[static_cast<std::size_t>(verdict)];
    }
    std::uint64_t count_of(ask::Fault fault) const {
        return faults_[static_cast<std::size_t>(fault)];
    }
    const CandidateChanges& changes_of(const limit::Policy& candidate) const {
        return changes_[candidate.index];
    }
    // Policies of the recording that the configuration does not have, or that are not simulated.
    const std::vector<std::string>& unknown_policies() const { return unknown_policies_; }
    std::uint64_t unknown_costs() const { return unknown_costs_; }
    std::uint64_t evictions() const { return store_.evictions(); }
    // Of the requests; 0 while there is none.
    Micros first() const { return first_; }
    Micros last() const { return last_; }

  private:
    class Planner;

    // A route that a request has got, and by what. Logs repeat few targets.
    struct KnownRoute {
        std::string request;  // method, host and target
        std::size_t method_bytes = 0;
        std::size_t host_bytes = 0;
        std::size_t path_bytes = 0;  // of the target
        ask::Fault fault = ask::Fault::none;
        std::string_view fault_detail;
        std::size_t route = 0;
        bool is_preflight = false;
    };
    static constexpr std::size_t kKnownRoutes = 4'096;
    static constexpr std::size_t kKnownRouteBytes = 512;  // of a request that is remembered

    // An item that is charged soon.
    struct ItemAhead {
        const limit::ChargeItem* item;
        std::uint64_t hash;  // Tally::hash_of()
        store::MemoryStore::Ahead store{};
    };

    void load_ahead();
    // The verdict, or nothing where the store decides.
    std::optional<Verdict> ask(const LoggedRequest& request, ask::Decision& decision);
    std::optional<Verdict> ask_recorded(const LoggedRequest& request, ask::Decision& decision);
    void add_recorded(const RecordedCharge& charge, const config::PolicySettings& policy,
                      bool is_candidate, std::size_t first, ask::Decision& decision);
    void name_unknown(std::string_view policy);
    bool read_facts(const LoggedRequest& request);
    bool read_target(const LoggedRequest& request);
    KnownRoute* place_of_route(const LoggedRequest& request);
    bool take_known_route(const KnownRoute& known, const LoggedRequest& request,
                          ask::Decision& decision);
    void remember_route(const LoggedRequest& request, const ask::Decision& decision,
                        KnownRoute& known);
    void add_fields(const LoggedRequest& request);
    void identify(const LoggedRequest& request, ask::Decision& decision);
    void set_costs(const LoggedRequest& request, ask::Decision& decision);
    std::optional<std::int64_t> cost_of(const config::PolicyCost& cost,
                                        const LoggedRequest& request,
                                        const ask::Decision& decision);
    Decided charge(const LoggedRequest& request, ask::Decision& decision,
                   std::span<const ItemAhead> items);
    static bool takes(const limit::Verdict& verdict, const limit::Policy& policy, std::size_t item);
    void count_changes(const store::LimitDecision& asked);
    void settle(const LoggedRequest& request, ask::Decision& decision);
    void count(Verdict verdict, ask::Fault fault);

    ask::Ruleset rules_;
    std::vector<std::string> wanted_;
    std::vector<PolicyPlan> plans_;
    std::vector<std::string> routes_lack_;
    std::vector<std::unique_ptr<config::PolicySettings>> policies_;  // without lacking keys
    std::vector<config::Route> routes_;  // with the policies that are simulated
    store::MemoryStore store_;
    Tally tally_;
    ask::Facts facts_;
    std::array<ask::Decision, kRequestsAtOnce> decisions_;
    std::array<Decided, kRequestsAtOnce> decided_;
    std::vector<ItemAhead> items_;  // of the requests that the store decides next, in their order
    std::size_t items_loaded_ = 0;  // that need no further step
    std::vector<KnownRoute> known_routes_;
    bool knows_routes_ = false;  // no header field chooses a route
    std::string cookie_room_;
    std::vector<std::string> claim_values_;
    std::vector<CandidateChanges> changes_;  // by Policy::index
    bool is_recorded_ = false;               // what is simulated is a recording
    std::vector<std::string> unknown_policies_;
    std::array<std::uint64_t, 6> verdicts_{};
    std::array<std::uint64_t, ask::kFaults> faults_{};
    std::uint64_t unknown_costs_ = 0;
    std::uint64_t leases_ = 0;
    Micros first_{0};
    Micros last_{0};
};

}  // namespace tidegate::simulate

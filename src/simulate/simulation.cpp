#include "simulate/simulation.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "ask/charge_list.hpp"
#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "ask/policy_cost.hpp"
#include "ask/request_checks.hpp"
#include "ask/verdict.hpp"
#include "base/secrets.hpp"
#include "base/text.hpp"
#include "http/head.hpp"
#include "identity/client_ip.hpp"
#include "identity/identifier.hpp"

namespace tidegate::simulate {

namespace {

using PartKind = limit::KeyPart::Kind;

constexpr std::string_view kHeader = "header:";
constexpr std::string_view kCookie = "cookie:";
constexpr std::string_view kClaim = "claim:";

std::size_t max_keys(const config::Config& config) {
    const auto* const memory = std::get_if<config::MemoryStoreSettings>(&config.store);
    return memory != nullptr ? memory->max_keys : config::MemoryStoreSettings{}.max_keys;
}

// The same for the same configuration, so that the same log gives the same answer also where the
// store is full; and no client knows it.
std::uint64_t secret_of(const config::Config& config) {
    return hash_text(config.shown.hash, 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f) | 1;
}

store::MemoryStore::Options store_options(const config::Config& config) {
    store::MemoryStore::Options options;
    options.max_keys = max_keys(config);
    const auto* const memory = std::get_if<config::MemoryStoreSettings>(&config.store);
    if (memory != nullptr && memory->deny_when_full) options.on_full = store::OnFull::deny;
    options.secret = secret_of(config);
    return options;
}

void add_once(std::string name, std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
    }
}

// The policy as the configuration knows it. Requires one of its own, not of a call.
const config::PolicySettings& settings_of(const limit::ChargeItem& item) {
    return static_cast<const config::PolicySettings&>(*item.policy);
}

template <class Use>
void for_each_limit(const config::PolicySettings& policy, Use use) {
    for (const limit::Limit& limit : policy.limits) use(limit);
    for (const limit::Tier& tier : policy.tiers) {
        for (const limit::Limit& limit : tier.limits) use(limit);
    }
}

}  // namespace

void add_wanted(const config::Config& config, std::vector<std::string>& wanted) {
    for (const auto& policy : config.policies) {
        limit::for_each_part(policy->key, [&](const limit::KeyPart& part) {
            const bool is_value = part.kind == PartKind::header || part.kind == PartKind::cookie ||
                                  part.kind == PartKind::claim;
            if (is_value) add_once(ask::part_text(part), wanted);
        });
        for (const config::ClaimedQuota& one : policy->claimed_quotas) {
            add_once(std::string(kClaim) + config.claims[one.claim], wanted);
        }
        const auto& moment = policy->moment;
        if (moment && moment->in == config::MomentSource::In::header) {
            add_once(std::string(kHeader) + moment->name, wanted);
        }
    }
    for (const config::Route& route : config.routes) {
        if (route.header_cost) add_once(std::string(kHeader) + route.header_cost->field, wanted);
    }
    for (const std::string& name : config.router.header_names()) {
        add_once(std::string(kHeader) + name, wanted);
    }
}

bool needs_address(const config::Config& config) {
    return std::any_of(config.policies.begin(), config.policies.end(), [](const auto& policy) {
        return !policy->exempt.networks.empty() || !policy->deny.networks.empty() ||
               limit::counts_by(policy->key, PartKind::ip);
    });
}

// Says which policies a log can be replayed against, and with which of their keys.
class Simulation::Planner {
  public:
    Planner(const LogFacts& facts, const std::vector<std::string>& wanted)
        : facts_(facts), wanted_(wanted) {}

    // Appends what the policy becomes: itself, or a copy without keys that the log does not have.
    // A policy with a twin or a candidate, and these, are copied always. Null: it cannot be
    // simulated.
    const config::PolicySettings* plan(
        const config::PolicySettings& policy, PolicyPlan& plan,
        std::vector<std::unique_ptr<config::PolicySettings>>& made) const {
        plan.policy = &policy;
        if (facts_.has(LogText::charges)) return plan_recorded(policy, plan);
        std::vector<limit::Key> keys;
        for (const limit::Key& key : policy.key) add_key(key, keys, plan);
        plan.is_simulated = !keys.empty();
        check_limits(policy, plan);
        if (policy.cost != nullptr) check_cost(*policy.cost, plan);
        if (!plan.is_simulated) return nullptr;
        const bool is_linked =
            policy.is_derived() || policy.unenforced != nullptr || policy.candidate != nullptr;
        if (keys == policy.key && !is_linked) return &policy;
        auto copy = std::make_unique<config::PolicySettings>(policy);
        copy->key = std::move(keys);
        made.push_back(std::move(copy));
        return made.back().get();
    }

    // What the choice of a route, or its cost, depends on and the log does not have.
    std::vector<std::string> routes_lack(const config::Config& config) const {
        std::vector<std::string> lacks;
        if (facts_.has(LogText::charges)) return lacks;
        for (std::size_t i = 0; i < config.routes.size(); ++i) {
            if (config.router.names_host(i) && !facts_.has(LogText::host)) {
                add_once("host", lacks);
            }
            const auto& cost = config.routes[i].header_cost;
            if (!cost) continue;
            const std::string name = std::string(kHeader) + cost->field;
            if (!has_value(name)) add_once(name, lacks);
        }
        for (const std::string& field : config.router.header_names()) {
            const std::string name = std::string(kHeader) + field;
            if (!has_value(name)) add_once(name, lacks);
        }
        return lacks;
    }

  private:
    static void lack_in_recording(std::string what, PolicyPlan& plan) {
        plan.is_simulated = false;
        add_once(std::move(what), plan.lacks);
    }

    // A recording has the identifiers of all keys but those that many clients share.
    static const config::PolicySettings* plan_recorded(const config::PolicySettings& policy,
                                                       PolicyPlan& plan) {
        const auto is_shared = [](const limit::KeyPart& part) {
            return part.kind == PartKind::constant || part.kind == PartKind::route ||
                   part.kind == PartKind::method;
        };
        plan.is_simulated = plan.can_map = false;
        plan.is_recorded = true;
        for (const limit::Key& key : policy.key) {
            for (const auto& choice : key.choices) {
                if (!std::all_of(choice.begin(), choice.end(), is_shared)) {
                    plan.is_simulated = true;
                } else {
                    add_once(ask::key_text({{choice}, key.on_missing}), plan.shared);
                }
            }
        }
        if (policy.moment) lack_in_recording("the moment that a request is meant for", plan);
        if (!policy.claimed_quotas.empty()) lack_in_recording("the quotas of tokens", plan);
        return plan.is_simulated ? &policy : nullptr;
    }

    bool has_value(const std::string& name) const {
        const auto found = std::find(wanted_.begin(), wanted_.end(), name);
        return found != wanted_.end() &&
               facts_.values[static_cast<std::size_t>(found - wanted_.begin())];
    }

    bool has(const limit::KeyPart& part) const {
        switch (part.kind) {
            case PartKind::ip:
                return facts_.has(LogText::client);
            case PartKind::user:
                return facts_.has(LogText::user);
            case PartKind::host:
                return facts_.has(LogText::host);
            case PartKind::query:
                return facts_.query;
            case PartKind::header:
            case PartKind::cookie:
            case PartKind::claim:
                return has_value(ask::part_text(part));
            case PartKind::body:
            case PartKind::body_lower:
            case PartKind::form:
                return false;
            case PartKind::capture:
            case PartKind::constant:
            case PartKind::method:
            case PartKind::route:
                break;
        }
        return true;
    }

    // Appends the key with those of its choices that the log has.
    void add_key(const limit::Key& key, std::vector<limit::Key>& keys, PolicyPlan& plan) const {
        limit::Key kept{{}, key.on_missing};
        for (const auto& choice : key.choices) {
            bool is_there = true;
            for (const limit::KeyPart& part : choice) {
                if (has(part)) continue;
                is_there = false;
                const bool is_address = part.kind == PartKind::ip;
                add_once(is_address ? "client" : ask::part_text(part), plan.lacks);
                if (part.kind >= PartKind::body) plan.can_map = false;
            }
            if (is_there) kept.choices.push_back(choice);
        }
        if (!kept.choices.empty()) keys.push_back(std::move(kept));
    }

    void refuse(std::string lack, PolicyPlan& plan) const {
        add_once(std::move(lack), plan.lacks);
        plan.is_simulated = false;
    }

    void check_limits(const config::PolicySettings& policy, PolicyPlan& plan) const {
        for_each_limit(policy, [&](const limit::Limit& limit) {
            if (limit.traits().has_slots && !facts_.has(LogNumber::duration_us)) {
                refuse("duration", plan);
            }
            if (limit.count == limit::Count::by_status && !facts_.has(LogNumber::status)) {
                refuse("status", plan);
            }
        });
        if (!policy.moment) return;
        const bool in_header = policy.moment->in == config::MomentSource::In::header;
        const std::string name = (in_header ? "header:" : "query:") + policy.moment->name;
        if (in_header ? !has_value(name) : !facts_.query) refuse(name, plan);
    }

    void check_cost(const config::PolicyCost& cost, PolicyPlan& plan) const {
        using Settle = config::PolicyCost::Settle;
        if (!cost.reads_body() && !cost.settles()) return;
        if (facts_.has(LogNumber::usage_cost)) return;
        if (cost.settle == Settle::time) {
            if (!facts_.has(LogNumber::duration_us)) refuse("duration", plan);
            return;
        }
        if (cost.settle != Settle::usage || !cost.usage->is_by_provider()) {
            return refuse("usage_cost", plan);
        }
        if (!facts_.has(LogNumber::usage_input)) refuse("usage_input", plan);
        if (!facts_.has(LogNumber::usage_output)) refuse("usage_output", plan);
        if (cost.needs_price() && !facts_.has(LogText::model)) refuse("model", plan);
    }

    const LogFacts& facts_;
    const std::vector<std::string>& wanted_;
};

Simulation::Simulation(std::shared_ptr<const config::Config> config, const LogFacts& facts,
                       std::vector<std::string> wanted)
    : rules_(std::move(config)),
      wanted_(std::move(wanted)),
      store_(store_options(*rules_.config)),
      tally_(*rules_.config, max_keys(*rules_.config), secret_of(*rules_.config)) {
    const config::Config& with = *rules_.config;
    const Planner planner(facts, wanted_);
    std::vector<const config::PolicySettings*> kept;
    for (const auto& policy : with.policies) {
        kept.push_back(planner.plan(*policy, plans_.emplace_back(), policies_));
    }
    const auto kept_of = [&](const limit::Policy* policy) -> const config::PolicySettings* {
        const auto same = [&](const auto& one) { return one.get() == policy; };
        const auto at = std::find_if(with.policies.begin(), with.policies.end(), same);
        if (policy == nullptr || at == with.policies.end()) return nullptr;
        return kept[static_cast<std::size_t>(at - with.policies.begin())];
    };
    for (const auto& copy : policies_) {
        copy->unenforced = kept_of(copy->unenforced);
        copy->candidate = kept_of(copy->candidate);
        copy->twin_of = kept_of(copy->twin_of);
        copy->candidate_of = kept_of(copy->candidate_of);
    }
    changes_.resize(with.limit_lists.size());
    routes_ = with.routes;
    for (config::Route& route : routes_) {
        for (const config::PolicySettings*& policy : route.policies) policy = kept_of(policy);
        std::erase(route.policies, nullptr);
        if (!facts.has(LogText::user)) route.needs_user = false;
    }
    routes_lack_ = planner.routes_lack(with);
    is_recorded_ = facts.has(LogText::charges);
    facts_.is_logged = true;
    claim_values_.resize(with.claims.size());
    // Fields are there or not, whatever the target.
    knows_routes_ = with.router.header_names().empty();
    if (knows_routes_) known_routes_.resize(kKnownRoutes);
}

Simulation::~Simulation() = default;

std::span<const Simulation::Decided> Simulation::decide(std::span<const LoggedRequest> requests) {
    std::array<std::size_t, kRequestsAtOnce> items{};
    items_.clear();
    items_loaded_ = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        ask::Decision& decision = decisions_[i];
        const auto verdict = ask(requests[i], decision);
        decided_[i] = {verdict.value_or(Verdict::none), {}};
        if (!verdict) {
            items[i] = decision.charge.items.size();
            for (const limit::ChargeItem& item : decision.charge.items) {
                items_.push_back({&item, tally_.hash_of(item)});
            }
        }
        load_ahead();
    }
    while (items_loaded_ < items_.size()) load_ahead();
    std::size_t next = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        if (first_.count() == 0) first_ = requests[i].time;
        last_ = std::max(last_, requests[i].time);
        if (items[i] > 0) {
            const auto its_items = std::span(std::as_const(items_)).subspan(next, items[i]);
            decided_[i] = charge(requests[i], decisions_[i], its_items);
        }
        next += items[i];
        count(decided_[i].verdict, decisions_[i].fault);
    }
    return std::span(decided_).first(requests.size());
}

// A step further for each item: the requests that are read meanwhile take as long as memory does.
void Simulation::load_ahead() {
    for (std::size_t i = items_loaded_; i < items_.size(); ++i) {
        ItemAhead& ahead = items_[i];
        if (ahead.store.step == 0) tally_.table_of(*ahead.item).load_place(ahead.hash);
        if (ahead.store.step == 1) tally_.table_of(*ahead.item).load_client(ahead.hash);
        store_.load_ahead(*ahead.item, ahead.store);
        if (ahead.store.step == store::MemoryStore::Ahead::kSteps) items_loaded_ = i + 1;
    }
}

void Simulation::count(Verdict verdict, ask::Fault fault) {
    ++verdicts_[static_cast<std::size_t>(verdict)];
    if (verdict == Verdict::refused) ++faults_[static_cast<std::size_t>(fault)];
    if (verdict != Verdict::none) tally_.add_to_timeline(last_, verdict == Verdict::limited);
}

// A recording has the identifiers of each request, and needs no route.
std::optional<Simulation::Verdict> Simulation::ask(const LoggedRequest& request,
                                                   ask::Decision& decision) {
    decision.reset();
    if (is_recorded_) return ask_recorded(request, decision);
    facts_.reset();
    KnownRoute* const known = place_of_route(request);
    if (known == nullptr || !take_known_route(*known, request, decision)) {
        if (!read_facts(request)) return Verdict::none;
        ask::check_method(facts_.head.method, decision);
        if (decision.goes_on()) ask::match_route(*rules_.config, facts_, decision);
        if (known != nullptr) remember_route(request, decision, *known);
    }
    if (!decision.goes_on()) return Verdict::refused;
    decision.route = &routes_[decision.route_index];
    identify(request, decision);
    ask::list_charges(*rules_.config, facts_, decision);
    if (!decision.goes_on()) return Verdict::refused;
    if (decision.charge.items.empty()) return Verdict::admitted;
    set_costs(request, decision);
    return std::nullopt;
}

// Where the route of such a request is kept. Null: it depends on more than method, host and target,
// or is too long.
Simulation::KnownRoute* Simulation::place_of_route(const LoggedRequest& request) {
    const std::string_view method = request.text(LogText::method);
    const std::string_view host = request.text(LogText::host);
    const std::string_view target = request.text(LogText::target);
    if (!knows_routes_ || method == "OPTIONS" || !target.starts_with('/') ||
        method.size() + host.size() + target.size() > kKnownRouteBytes) {
        return nullptr;
    }
    constexpr std::uint64_t kSecret = 0x9e3779b97f4a7c15;
    const std::uint64_t begun = hash_text(method, host.size(), kSecret);
    const std::uint64_t hash =
        hash_text(target, host.empty() ? begun : hash_text(host, begun, kSecret), kSecret);
    return &known_routes_[hash % kKnownRoutes];
}

// False: another request is kept there.
bool Simulation::take_known_route(const KnownRoute& known, const LoggedRequest& request,
                                  ask::Decision& decision) {
    const std::string_view method = request.text(LogText::method);
    const std::string_view host = request.text(LogText::host);
    const std::string_view target = request.text(LogText::target);
    std::string_view kept = known.request;
    if (known.method_bytes != method.size() || known.host_bytes != host.size() ||
        kept.size() != method.size() + host.size() + target.size() || !kept.starts_with(method) ||
        !kept.ends_with(target) || kept.substr(method.size(), host.size()) != host) {
        return false;
    }
    const std::size_t path_bytes = known.path_bytes;
    facts_.head.method = method;
    facts_.head.target = target;
    facts_.head.path = target.substr(0, path_bytes);
    facts_.head.query = target.substr(path_bytes);
    facts_.host = host;
    facts_.began_at = std::chrono::system_clock::time_point(request.time);
    add_fields(request);
    decision.fault = known.fault;
    decision.fault_detail = known.fault_detail;
    decision.route_index = known.route;
    decision.is_preflight = known.is_preflight;
    return true;
}

void Simulation::remember_route(const LoggedRequest& request, const ask::Decision& decision,
                                KnownRoute& known) {
    const std::string_view method = request.text(LogText::method);
    const std::string_view host = request.text(LogText::host);
    known.request.assign(method).append(host).append(request.text(LogText::target));
    known.method_bytes = method.size();
    known.host_bytes = host.size();
    known.path_bytes = facts_.head.path.size();
    known.fault = decision.fault;
    known.fault_detail = decision.fault_detail;
    known.route = decision.route_index;
    known.is_preflight = decision.is_preflight;
}

// False: the line is about no request that a server could read.
bool Simulation::read_facts(const LoggedRequest& request) {
    const std::string_view method = request.text(LogText::method);
    if (!http::is_token(method) || method == "-") return false;
    facts_.head.method = method;
    facts_.host = request.text(LogText::host);
    if (!read_target(request)) return false;
    facts_.began_at = std::chrono::system_clock::time_point(request.time);
    add_fields(request);
    return true;
}

// HAProxy and load balancers log whole URLs.
bool Simulation::read_target(const LoggedRequest& request) {
    std::string_view target = request.text(LogText::target);
    if (!target.starts_with('/')) {
        const std::size_t scheme = target.find("://");
        if (scheme == target.npos) return false;
        const std::string_view rest = target.substr(scheme + 3);
        const std::size_t slash = std::min(rest.find_first_of("/?"), rest.size());
        if (facts_.host.empty()) facts_.host = rest.substr(0, slash);
        target = slash < rest.size() && rest[slash] == '/' ? rest.substr(slash) : "/";
    }
    return http::set_origin_form(target, facts_.head);
}

void Simulation::add_fields(const LoggedRequest& request) {
    http::Fields& fields = facts_.head.fields;
    if (!facts_.host.empty()) fields.push_back({http::FieldName::host, "host", facts_.host});
    if (const auto list = request.text(LogText::forwarded_for); !list.empty()) {
        fields.push_back({http::FieldName::x_forwarded_for, "x-forwarded-for", list});
    }
    cookie_room_.clear();
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        const std::string_view name = wanted_[i];
        const std::string_view value = request.values[i];
        if (value.empty()) continue;
        if (name.starts_with(kHeader)) {
            const std::string_view field = name.substr(kHeader.size());
            fields.push_back({http::field_name(field), field, trimmed(value)});
        } else if (name.starts_with(kCookie)) {
            if (!cookie_room_.empty()) cookie_room_ += "; ";
            cookie_room_.append(name.substr(kCookie.size())).append("=").append(value);
        }
    }
    if (!cookie_room_.empty()) {
        fields.push_back({http::FieldName::other, "cookie", cookie_room_});
    }
    // Browsers ask so before they send a request; logs do not have the fields by which.
    const bool may_be_preflight = facts_.head.method == "OPTIONS" && !rules_.config->cors.empty();
    if (!may_be_preflight) return;
    fields.push_back({http::FieldName::other, "origin", "null"});
    fields.push_back({http::FieldName::other, "access-control-request-method", "GET"});
}

// The user is the one of the log: it has no credentials.
void Simulation::identify(const LoggedRequest& request, ask::Decision& decision) {
    const config::Config& with = *rules_.config;
    const auto& client = request.address;
    facts_.peer = {client, client && with.client_ip.trusts(*client), false};
    decision.client = identity::client_address(facts_.peer, facts_.head.fields, with.client_ip,
                                               nullptr, &decision.chain_fault);
    if (decision.is_preflight) return;
    decision.model = request.text(LogText::model);
    const std::string_view user = request.text(LogText::user);
    if (!user.empty()) {
        decision.user = user;
        decision.tier = identity::tier_of(decision.user, with.user_tiers);
        identity::Authentication& authentication = *decision.authentication;
        if (!with.user_methods.empty()) {
            authentication.result = identity::Authentication::Result::user;
            const auto checks = [](const identity::UserMethod& method) {
                return method.how->traits().authenticates;
            };
            const auto method =
                std::find_if(with.user_methods.begin(), with.user_methods.end(), checks);
            authentication.method =
                method != with.user_methods.end()
                    ? static_cast<std::uint32_t>(method - with.user_methods.begin())
                    : 0;
        }
    }
    if (decision.tier.empty()) decision.tier = request.text(LogText::tier);
    if (with.claims.empty()) return;
    for (std::size_t i = 0; i < with.claims.size(); ++i) {
        const auto place =
            std::find(wanted_.begin(), wanted_.end(), std::string(kClaim) + with.claims[i]);
        claim_values_[i].clear();
        if (place == wanted_.end()) continue;
        claim_values_[i] = request.values[static_cast<std::size_t>(place - wanted_.begin())];
    }
    decision.authentication->claims = identity::pack_claims(with.claims, claim_values_, "");
}

// What the request has cost in the end, from its beginning: the log has no bodies to estimate by.
void Simulation::set_costs(const LoggedRequest& request, ask::Decision& decision) {
    for (limit::ChargeItem& item : decision.charge.items) {
        const config::PolicyCost* const cost = settings_of(item).cost.get();
        if (cost == nullptr) continue;
        const auto known = cost_of(*cost, request, decision);
        if (!known) ++unknown_costs_;
        item.own_cost = known.value_or(cost->reserved);
    }
}

std::optional<std::int64_t> Simulation::cost_of(const config::PolicyCost& cost,
                                                const LoggedRequest& request,
                                                const ask::Decision& decision) {
    constexpr int kOk = 200;
    constexpr std::int64_t kErrors = 400;
    using Settle = config::PolicyCost::Settle;
    const auto number = [&](LogNumber which) { return request.number(which); };
    const auto known = [&](LogNumber which) { return number(which) != LoggedRequest::kUnknown; };
    if (!cost.reads_body() && !cost.settles()) return cost.reserved;
    const bool by_tokens = cost.settle == Settle::usage && cost.usage->is_by_provider();
    const bool by_time = cost.settle == Settle::time && known(LogNumber::duration_us);
    if ((by_tokens && known(LogNumber::usage_input)) || by_time) {
        const auto tokens = [&](LogNumber which) {
            return std::max<std::int64_t>(0, number(which));
        };
        usage::Usage usage;
        usage.tokens = {tokens(LogNumber::usage_input), tokens(LogNumber::usage_cached),
                        tokens(LogNumber::usage_cache_write), tokens(LogNumber::usage_output)};
        const ask::AnswerFacts answer{
            .end = ask::AnswerFacts::End::whole,
            .status = kOk,
            .usage = &usage,
            .price_row =
                ask::settled_row(*rules_.config, decision, request.text(LogText::answer_model)),
            .header = {},
            .time = std::chrono::microseconds{tokens(LogNumber::duration_us)},
            .bytes = 0};
        const auto units =
            ask::settled_units(*rules_.config, cost, cost.reserved, decision.model, answer);
        if (units) return units;
    }
    if (known(LogNumber::usage_cost)) return number(LogNumber::usage_cost);
    if (number(LogNumber::status) >= kErrors) return 0;
    return std::nullopt;
}

Simulation::Decided Simulation::charge(const LoggedRequest& request, ask::Decision& decision,
                                       std::span<const ItemAhead> items) {
    store::LimitDecision& asked = decision.charge;
    asked.store_state.slot_hold = {1, ++leases_};
    const limit::Now now(last_);
    const auto outcome = store_.charge(asked.charge(), now, asked.verdict);
    const int status =
        static_cast<int>(std::max<std::int64_t>(0, request.number(LogNumber::status)));
    const bool is_decided = outcome == store::MemoryStore::Outcome::decided;
    const limit::Charge charged = asked.charge();
    asked.result = asked.verdict.admitted ? store::LimitDecision::Result::admitted
                                          : store::LimitDecision::Result::limited;
    if (is_decided) count_changes(asked);
    std::size_t first = 0;
    std::string_view named;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const limit::ChargeItem& item = *items[i].item;
        const std::size_t count = item.limits().size();
        const auto verdicts = std::span(asked.verdict.limits).subspan(first, count);
        first += count;
        const bool took = is_decided && takes(asked.verdict, *item.policy, i);
        tally_.add({charged, last_, status, took, store_}, item, items[i].hash, verdicts);
        if (asked.verdict.admitted || !named.empty() || !item.policy->is_enforced()) continue;
        const bool denies = std::any_of(verdicts.begin(), verdicts.end(),
                                        [](const limit::LimitVerdict& one) { return one.denied; });
        if (denies) named = item.identifier;
    }
    if (!is_decided) return {Verdict::unavailable, {}};
    if (!asked.verdict.admitted) return {Verdict::limited, named};
    if (asked.needs_settling) settle(request, decision);
    return {Verdict::admitted, {}};
}

// Whether the item at that position of the charge takes what it costs.
bool Simulation::takes(const limit::Verdict& verdict, const limit::Policy& policy,
                       std::size_t item) {
    if (policy.is_candidate()) return verdict.receipt.generations[item] != 0;
    return verdict.admitted && (verdict.shadow_admitted || !policy.shadow);
}

void Simulation::count_changes(const store::LimitDecision& asked) {
    const limit::Policy* last = nullptr;
    for (const limit::ChargeItem& item : asked.items) {
        if (!item.policy->is_candidate() || item.policy == last) continue;
        last = item.policy;
        const bool is_admitted = ask::admits_as_live(asked, *last);
        CandidateChanges& changes = changes_[last->index];
        if (is_admitted && !asked.verdict.admitted) ++changes.only_live;
        if (!is_admitted && asked.verdict.admitted) ++changes.only_candidate;
    }
}

// What the end of the request gives back. Units that count by status go back at once, as most
// answers come soon; slots are held for as long as the request took.
void Simulation::settle(const LoggedRequest& request, ask::Decision& decision) {
    store::LimitDecision& asked = decision.charge;
    const std::int64_t status = request.number(LogNumber::status);
    if (status > 0) {
        const limit::Refund refund{asked.charge(), &asked.verdict.receipt,
                                   limit::Refund::Of::status, static_cast<int>(status)};
        store_.give_back(refund, limit::Now(last_));
    }
    const std::int64_t took = std::max<std::int64_t>(0, request.number(LogNumber::duration_us));
    store_.release(asked.charge(), last_ + Micros{took});
}

}  // namespace tidegate::simulate

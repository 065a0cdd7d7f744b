#include "cli/explain.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/charge_list.hpp"
#include "ask/decision.hpp"
#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "ask/request_checks.hpp"
#include "ask/ruleset.hpp"
#include "ask/verdict.hpp"
#include "base/text.hpp"
#include "config/policy_cost.hpp"
#include "faces/check_question.hpp"
#include "faces/original_request.hpp"
#include "h2/fields.hpp"
#include "http/field.hpp"
#include "http/head.hpp"
#include "identity/authenticator.hpp"
#include "identity/basic.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::cli {

namespace {

// The request that is explained.
struct ExplainedRequest {
    explicit ExplainedRequest(std::shared_ptr<const config::Config> config)
        : rules(std::move(config)) {}

    const config::Config& config() const { return *rules.config; }

    ask::Ruleset rules;
    ask::Facts facts;
    ask::Decision decision;
    ask::InspectedBody inspected;  // facts.body, where a policy needs it
};

using identity::Authentication;
using Method = Explanation::Method;

bool is_absent(const http::Fields& fields, std::string_view name) {
    return std::none_of(fields.begin(), fields.end(), [&](const http::Field& field) {
        return http::equal_as_variable(field.name, name);
    });
}

void explain_client(const ExplainedRequest& request, Explanation& out) {
    const identity::ClientIpSettings& settings = request.config().client_ip;
    out.chain_field = identity::field_of(settings);
    std::vector<identity::Hop> hops;
    const http::Fields& fields = request.facts.head.fields;
    const auto client = identity::client_address(request.facts.peer, fields, settings, &hops);
    // Without the field that holds one address there is a hop without text: no hop at all.
    if (hops.size() == 1 && hops.front().text.empty() && is_absent(fields, out.chain_field)) {
        hops.clear();
    }
    for (const identity::Hop& hop : hops) {
        out.hops.push_back(
            {std::string(hop.text), hop.address ? hop.address->to_string() : "", hop.kind});
    }
    if (client) out.client = client->to_string();
}

Method::Outcome outcome_of(const Authentication& authentication) {
    switch (authentication.result) {
        case Authentication::Result::user:
            return Method::Outcome::valid;
        case Authentication::Result::refused:
            return Method::Outcome::refused;
        case Authentication::Result::ambiguous:
            return Method::Outcome::ambiguous;
        case Authentication::Result::unchecked:
        case Authentication::Result::key_missing:
        case Authentication::Result::unavailable:
            return Method::Outcome::unavailable;
        case Authentication::Result::anonymous:
            break;
    }
    return Method::Outcome::absent;
}

// Methods before the one that decided found nothing; the authenticator did not try those after it.
void explain_methods(const ExplainedRequest& request, Explanation& out) {
    const Authentication& authentication = *request.decision.authentication;
    const auto& methods = request.config().user_methods;
    for (std::size_t i = 0; i < methods.size(); ++i) {
        Method method{methods[i].how->to_string()};
        const bool decided = authentication.result != Authentication::Result::anonymous;
        if (decided && i == authentication.method) {
            method.outcome = outcome_of(authentication);
            method.fault = identity::to_string(authentication.fault);
        } else if (decided && i > authentication.method) {
            method.outcome = Method::Outcome::not_tried;
        } else if (methods[i].how->traits().believes_peers && !request.facts.peer.trusted) {
            method.outcome = Method::Outcome::disbelieved;
        }
        out.methods.push_back(std::move(method));
    }
}

void explain_user(const ExplainedRequest& request, Explanation& out) {
    const ask::Decision& decision = request.decision;
    const bool refused = decision.authentication->result == Authentication::Result::refused;
    out.goes_on_anonymous = refused && request.config().anonymous_on_invalid;
    if (!decision.user) return;
    const bool listed = !identity::tier_of(decision.user, request.config().user_tiers).empty();
    out.user = {std::string(*decision.user), std::string(decision.tier), listed};
}

void explain_guess(ExplainedRequest& request, Explanation& out) {
    ask::Decision& decision = request.decision;
    if (!ask::list_failed_credentials(request.config(), request.facts, decision)) return;
    for (const limit::ChargeItem& item : decision.charge.items) {
        out.guess.emplace_back(item.identifier);
    }
    ask::clear_charge(decision);
}

void check_credential(ExplainedRequest& request, const FetchKeys& fetch_keys) {
    identity::Authenticator& authenticator = *request.rules.authenticator;
    Authentication& authentication = *request.decision.authentication;
    const auto& source = authenticator.key_source(authentication);
    if (source != nullptr && source->keys() == nullptr) fetch_keys(source);
    authenticator.check(authentication, request.facts.began_at);
    // Keys were fetched just now: there is no such key.
    if (authentication.result == Authentication::Result::key_missing && source->keys() != nullptr) {
        identity::Authenticator::refuse_missing_key(authentication);
    }
}

void check_password(ExplainedRequest& request) {
    Authentication& authentication = *request.decision.authentication;
    identity::Authenticator& authenticator = *request.rules.authenticator;
    identity::BasicLogin login;
    authentication.fault = login.read(authentication.credential);
    if (authentication.fault != identity::CredentialFault::none) {
        authentication.result = Authentication::Result::refused;
        return;
    }
    const bool is_right =
        authenticator.passwords(authentication)->verify(login.user(), login.password());
    authenticator.conclude_password(authentication, login.user(), is_right, request.facts.began_at);
}

// Identifies the client and checks its credential, which may end in a fault.
void explain_identity(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out) {
    ask::Decision& decision = request.decision;
    ask::identify(request.rules, request.facts, decision);
    out.is_identified = true;
    explain_client(request, out);
    if (decision.is_preflight) return;
    if (ask::needs_proof(decision)) {
        explain_guess(request, out);
        if (decision.authentication->result == Authentication::Result::unchecked) {
            if (request.rules.authenticator->passwords(*decision.authentication) == nullptr) {
                check_credential(request, fetch_keys);
            } else {
                check_password(request);
            }
        }
        ask::conclude_identity(request.config(), decision);
    }
    explain_methods(request, out);
    explain_user(request, out);
}

using ask::ChargeNotes;
using ask::CostFault;

constexpr EnumTexts<CostFault> kIgnoredCosts(
    {{CostFault::untrusted, "of the route: what the request states is not believed from this peer"},
     {CostFault::unreadable, "of the route: what the request states is not one whole number"},
     {CostFault::out_of_range, "of the route: what the request states is out of bounds"}});

Explanation::Key key_of(const ask::Decision& decision, const ChargeNotes::Key& note) {
    Explanation::Key key{ask::key_text(*note.key), note.outcome, {}};
    for (const ask::IdentifierSpan span : note.spans) {
        key.identifiers.push_back(decision.identifiers.substr(span.begin, span.size));
    }
    return key;
}

// Says whether a policy in shadow has no items because its schedule does not allow the request's
// moment. A policy that is enforced would refuse the request.
bool is_left_out(const ask::Decision& decision, const ChargeNotes::Policy& note) {
    const auto& items = decision.charge.items;
    return decision.goes_on() && note.outcome == ChargeNotes::Outcome::counted &&
           note.policy->shadow &&
           std::none_of(items.begin(), items.end(),
                        [&](const limit::ChargeItem& item) { return item.policy == note.policy; });
}

Explanation::Policy policy_of(const ExplainedRequest& request, const ChargeNotes::Policy& note) {
    Explanation::Policy policy{
        .name = note.policy->name,
        .outcome = note.outcome,
        .mode = note.policy->mode(),
        .lease_slack = static_cast<double>(note.policy->lease_slack) / 1e6,
        .in_money = note.policy->cost != nullptr && note.policy->cost->in_money,
        .has_claimed_quotas = note.tier != nullptr && note.tier->by_claims,
        .left_out = is_left_out(request.decision, note),
        .lacks_address = ask::lacks_address(*note.policy, request.decision),
        .tier = note.tier != nullptr ? note.tier->name : ""};
    using Outcome = ChargeNotes::Outcome;
    if (note.outcome == Outcome::exempt || note.outcome == Outcome::denied) {
        const bool is_exempt = note.outcome == Outcome::exempt;
        const identity::ClientList& list = is_exempt ? note.policy->exempt : note.policy->deny;
        policy.listed_as = list.entry_for(ask::client_of(request.config(), request.decision));
    }
    if (note.outcome == Outcome::counted && note.policy->cost != nullptr) {
        policy.reserved = reserved_of(*note.policy->cost, request.config(), request.facts);
    }
    for (const ChargeNotes::Key& key : note.keys)
        policy.keys.push_back(key_of(request.decision, key));
    const limit::ChargeItem item{note.policy, {}, note.tier};
    for (std::size_t i = 0; i < item.limits().size(); ++i) {
        policy.limits.push_back({request.rules.policy_texts.of(item, i).name, item.limits()[i]});
    }
    return policy;
}

// Tells of the policy that was told of last which identifiers `enforce` leaves in shadow, and then
// of its candidate.
void add_gradual(const ExplainedRequest& request, const config::PolicySettings& policy,
                 Explanation& out) {
    Explanation::Policy& live = out.policies.back();
    const auto& items = request.decision.charge.items;
    for (const limit::ChargeItem& item : items) {
        if (item.policy->twin_of == &policy) live.unenforced.emplace_back(item.identifier);
    }
    const auto first = std::find_if(items.begin(), items.end(), [&](const auto& item) {
        return policy.candidate != nullptr && item.policy == policy.candidate;
    });
    if (first == items.end()) return;
    Explanation::Policy candidate{.name = policy.candidate->name,
                                  .outcome = ChargeNotes::Outcome::counted,
                                  .mode = policy.candidate->mode(),
                                  .tier = first->tier != nullptr ? first->tier->name : "",
                                  .candidate_of = policy.name};
    candidate.keys = live.keys;
    candidate.in_money = live.in_money;
    candidate.reserved = live.reserved;
    for (std::size_t i = 0; i < first->limits().size(); ++i) {
        candidate.limits.push_back(
            {request.rules.policy_texts.of(*first, i).name, first->limits()[i]});
    }
    out.policies.push_back(std::move(candidate));
}

std::string_view why_of_cost(const ChargeNotes& notes, std::optional<CostFault> ignored) {
    if (ignored) return kIgnoredCosts[*ignored];
    return notes.cost_stated ? "stated by the request" : "of the route";
}

// Tells what is listed in the decision, and how it came to that; the cost still lacks its reason.
void explain_notes(const ExplainedRequest& request, const ChargeNotes& notes, Explanation& out) {
    for (const ChargeNotes::Policy& note : notes.policies) {
        out.policies.push_back(policy_of(request, note));
        if (request.decision.goes_on()) add_gradual(request, *note.policy, out);
    }
    const store::LimitDecision& charge = request.decision.charge;
    if (!request.decision.goes_on() || charge.items.empty()) return;
    const bool counts =
        std::any_of(charge.items.begin(), charge.items.end(), [](const limit::ChargeItem& item) {
            return item.own_cost == limit::ChargeItem::kOfCharge;
        });
    out.cost = {charge.cost, {}, counts};
    out.identifiers = charge.items.size();
    for (const limit::ChargeItem& item : charge.items) out.limits += item.limits().size();
}

constexpr int kTooMany = 429;

// Marks the limits that the request can never pass. If one of them refuses it, that is the result.
void explain_too_large(const ExplainedRequest& request, Explanation& out) {
    const store::LimitDecision& decision = request.decision.charge;
    if (out.refusal != 0) return;
    const limit::Charge charge = decision.charge();
    for (const limit::ChargeItem& item : decision.items) {
        const auto policy =
            std::find_if(out.policies.begin(), out.policies.end(),
                         [&](const auto& one) { return one.name == item.policy->name; });
        if (policy == out.policies.end()) continue;
        for (std::size_t i = 0; i < policy->limits.size(); ++i) {
            const auto large = ask::too_large(item, i, charge.cost_of(item));
            if (!large) continue;
            policy->limits[i].never_passes = true;
            if (!item.policy->is_enforced() || out.refusal != 0) continue;
            const int of_policy = request.config().limit_lists[ask::list_of(item)].policy->status;
            out.refusal = out.is_call      ? kTooMany
                          : of_policy != 0 ? of_policy
                                           : request.config().response.status;
            out.refusal_reason = ask::text_of(request.rules, *large);
        }
    }
}

// Lists what the policies of the route count, which may end in a fault. Requires a route.
void explain_charges(ExplainedRequest& request, Explanation& out) {
    ask::Decision& decision = request.decision;
    ChargeNotes notes;
    ask::list_charges(request.config(), request.facts, decision, &notes);
    explain_notes(request, notes, out);
    if (!out.cost) return;
    out.cost->why =
        decision.is_preflight ? "of a preflight" : why_of_cost(notes, decision.cost_ignored);
}

using ask::Fault;

// The host when `fields` do not state one.
std::optional<std::string> host_of(const ExplainQuestion& question) {
    const auto names_host = [](std::string_view field) {
        return http::equal_ignoring_case(field.substr(0, field.find(':')), "host");
    };
    const bool has_host = std::any_of(question.fields.begin(), question.fields.end(), names_host);
    if (question.host || has_host) return question.host;
    return "localhost";
}

// Whether the fields say how long the body is.
bool states_length(const ExplainQuestion& question) {
    return std::any_of(question.fields.begin(), question.fields.end(), [](std::string_view field) {
        const std::string_view name = field.substr(0, field.find(':'));
        return http::equal_ignoring_case(name, "content-length") ||
               http::equal_ignoring_case(name, "transfer-encoding");
    });
}

// The head as a client sends it.
std::string head_of(const ExplainQuestion& question) {
    std::string head = question.method + " " + question.target + " HTTP/1.1\r\n";
    if (const auto host = host_of(question)) head += "Host: " + *host + "\r\n";
    for (const std::string& field : question.fields) head += field + "\r\n";
    if (question.body && !states_length(question)) {
        head += "Content-Length: " + std::to_string(question.body->size()) + "\r\n";
    }
    return head + "\r\n";
}

http::HeadBounds bounds_of(const config::Config& config) {
    const auto& limits = config.limits_on_requests;
    return {limits.header_bytes, limits.headers, limits.uri_bytes};
}

void read_head(std::string_view bytes, ExplainedRequest& request) {
    const http::HeadBounds bounds = bounds_of(request.config());
    http::HeadScanner scanner;
    const std::size_t length = scanner.scan(bytes, bounds);
    const http::HeadFault fault =
        length != 0 ? http::parse_request_head(bytes.substr(0, length), bounds, request.facts.head)
                    : scanner.fault();
    if (fault == http::HeadFault::none) return;
    request.decision.refuse(ask::fault_of(fault), http::describe(fault));
}

// The same as a client sends it in HTTP/2, which has names in lower case only. The head looks at
// `block`, which looks at `rules`.
void read_http2_head(const ExplainQuestion& question, const h2::RequestRules& rules,
                     h2::FieldBlock& block, ExplainedRequest& request) {
    block.begin_request(rules);
    block.add(":method", question.method);
    if (const auto host = host_of(question)) block.add(":authority", *host);
    if (question.method != "CONNECT") {
        block.add(":scheme", "https");
        block.add(":path", question.target);
    }
    for (const std::string& field : question.fields) {
        const std::size_t colon = std::min(field.find(':'), field.size());
        block.add(to_lower(field.substr(0, colon)),
                  trimmed(std::string_view(field).substr(std::min(colon + 1, field.size()))));
    }
    std::string_view protocol;
    const http::HeadFault fault = block.end_request(request.facts.head, protocol);
    if (block.malformed() != h2::Malformed::none) {
        request.decision.refuse(Fault::bad_head, h2::describe(block.malformed()));
    } else if (fault != http::HeadFault::none) {
        request.decision.refuse(ask::fault_of(fault), http::describe(fault));
    }
}

routing::RequestLine line_of(const ask::Facts& facts) {
    return {facts.head.method, facts.head.path, facts.host, &facts.head.fields};
}

// Lists the routes before `end` that match the path of the request and do not take it.
void explain_passed(const ExplainedRequest& request, std::size_t end, Explanation& out) {
    const config::Config& config = request.config();
    for (std::size_t i = 0; i < end; ++i) {
        const routing::Mismatch because = config.router.mismatch(i, line_of(request.facts));
        if (because == routing::Mismatch::path) {
            ++out.other_paths;
        } else {
            out.passed.push_back({config.routes[i].name, because});
        }
    }
}

void explain_readings(const ExplainedRequest& request, Explanation& out) {
    const config::Config& config = request.config();
    for (routing::ReadPath& reading : config.router.readings(line_of(request.facts))) {
        out.readings.push_back({std::move(reading.text),
                                reading.route ? config.routes[*reading.route].name : "",
                                std::move(reading.captures), reading.ignoring_case});
    }
}

void explain_forwarding(const ExplainedRequest& request, Explanation& out) {
    const config::Route& route = *request.decision.route;
    // Requests of gateways and of programs are not forwarded.
    if (request.config().upstreams.empty() || out.is_gateway || out.is_call) return;
    const config::Upstream& upstream = request.config().upstreams[route.upstream];
    out.upstream = upstream.name;
    out.response_timeout = route.response_timeout;
    out.stream_idle = route.stream_idle;
    out.has_own_timeouts = route.response_timeout != upstream.response_timeout ||
                           route.stream_idle != upstream.stream_idle;
    out.strip_prefix = route.strip_prefix;
    if (!request.decision.goes_on()) return;
    out.upstream_path = routing::without_prefix(request.facts.head.path, route.strip_prefix.size());
}

// Whatever the route says, a preflight needs no user.
void explain_need_of_user(const ask::Decision& decision, Explanation& out) {
    if (decision.is_preflight) return;
    const config::Route& route = *decision.route;
    out.need_of_user.is_needed = route.needs_user;
    if (route.states_identity) {
        out.need_of_user.why = "by `identity` of the route";
    } else if (route.needs_user) {
        out.need_of_user.why = "by identity.require";
    }
}

void explain_route(const ExplainedRequest& request, Explanation& out) {
    const config::Config& config = request.config();
    const ask::Decision& decision = request.decision;
    if (decision.route != nullptr) {
        out.route = decision.route->name;
        explain_forwarding(request, out);
        explain_need_of_user(decision, out);
        explain_passed(request, decision.route_index, out);
    } else if (decision.fault == Fault::no_route) {
        explain_passed(request, config.routes.size(), out);
    } else if (decision.fault == Fault::ambiguous_path) {
        explain_readings(request, out);
    }
}

// Returns the listener at which the question arrives; null if it does not matter.
const config::Listen* listener_of(const ExplainQuestion& question, const config::Config& config) {
    if (question.listener) return &config.listen.at(*question.listener);
    if (question.face == Face::proxy) return nullptr;
    const auto found =
        std::find_if(config.listen.begin(), config.listen.end(),
                     [&](const config::Listen& one) { return one.face == question.face; });
    return found != config.listen.end() ? &*found : nullptr;
}

// Takes the request that the gateway asks about.
void read_question(ExplainedRequest& request, const config::Listen& listen) {
    if (!request.decision.goes_on()) return;
    if (!listen.admits(request.facts.peer.address)) {
        return request.decision.refuse(Fault::peer_not_admitted);
    }
    const faces::OriginalFault fault =
        faces::read_original(listen, request.config().limits_on_requests, request.facts);
    if (!fault.empty()) return request.decision.refuse(Fault::bad_original, fault.text);
    ask::check_method(request.facts.head.method, request.decision);
}

// Says which peer the connection has.
void explain_peer(const ExplainedRequest& request, Explanation& out) {
    const identity::Peer& peer = request.facts.peer;
    out.is_gateway = peer.is_gateway;
    out.trusted = peer.trusted;
    if (!peer.address) return;
    out.peer = peer.address->to_string();
    const IpNetwork* const found = request.config().client_ip.trusted_proxies.find(*peer.address);
    if (found == nullptr) return;
    out.trusted_network = found->address.to_string() + "/" + std::to_string(found->prefix);
}

// The steps of the engine, as far as the request goes, which has passed check_framing(). Identity
// is explained also for a request without a route, which the engine does not identify; the answer
// to it stays the same.
//
// `body`: unset where there is none.
void explain_steps(ExplainedRequest& request, const std::optional<std::string>& body,
                   const FetchKeys& fetch_keys, Explanation& out) {
    ask::Decision& decision = request.decision;
    out.method = request.facts.head.method;
    out.path = request.facts.head.path;
    out.host = request.facts.host;
    if (!decision.goes_on()) return;
    ask::match_route(request.config(), request.facts, decision);
    out.is_preflight = decision.is_preflight;
    explain_route(request, out);
    const Fault fault = decision.fault;
    const std::string_view detail = decision.fault_detail;
    explain_identity(request, fetch_keys, out);
    if (fault != Fault::none) decision.refuse(fault, detail);
    if (decision.goes_on()) {
        explain_body(body, request.config(), request.facts, decision, request.inspected, out);
    }
    if (decision.goes_on()) explain_charges(request, out);
}

// Tells why the request goes no further, if it does not.
void explain_fault(const ExplainedRequest& request, Explanation& out) {
    const ask::Decision& decision = request.decision;
    if (decision.goes_on()) return;
    std::string room;
    out.refusal = ask::traits(decision.fault).status;
    out.refusal_reason = ask::refusal_text(request.rules, request.facts, decision, room);
}

}  // namespace

Explanation explain(std::shared_ptr<const config::Config> config, const ExplainQuestion& question,
                    const FetchKeys& fetch_keys) {
    ExplainedRequest request(std::move(config));
    const config::Listen* const listen = listener_of(question, request.config());
    const bool trusted = question.from ? request.config().client_ip.trusts(*question.from)
                                       : listen == nullptr || listen->trusted;
    request.facts.peer = {question.from, trusted,
                          question.face == Face::forward_auth || question.face == Face::envoy_grpc};
    if (question.certificate) request.facts.certificate = &*question.certificate;
    request.facts.began_at = std::chrono::system_clock::now();
    request.facts.keeps_fields = question.face == Face::forward_auth;
    Explanation out;
    explain_peer(request, out);
    std::string head;
    h2::FieldBlock block;
    const h2::RequestRules rules{bounds_of(request.config()), request.config().http2.cookie_crumbs,
                                 true};
    request.facts.is_http2 = question.is_http2;
    out.version = request.facts.version();
    if (question.is_http2) {
        read_http2_head(question, rules, block, request);
    } else {
        head = head_of(question);
        read_head(head, request);
    }
    if (request.decision.goes_on()) {
        http::Framing framing;
        ask::check_framing(request.facts, framing, request.decision);
        if (question.face == Face::forward_auth && listen != nullptr) {
            read_question(request, *listen);
        }
        explain_steps(request, question.body, fetch_keys, out);
    }
    explain_fault(request, out);
    explain_too_large(request, out);
    return out;
}

namespace {

using Form = faces::CheckCall::Form;

constexpr int kBadCall = 400;

// The charges of an item point into it.
struct ExplainedItem {
    explicit ExplainedItem(std::shared_ptr<const config::Config> config)
        : request(std::move(config)) {}

    faces::CheckQuestion asked;
    ExplainedRequest request;
};

std::string explain_policy_item(const faces::CheckItem& item, ExplainedItem& explained,
                                Explanation& out) {
    ExplainedRequest& request = explained.request;
    ask::ChargeNotes notes;
    std::string fault =
        faces::list_policy_item(item, request.config(), explained.asked, request.decision, &notes);
    if (!fault.empty()) return fault;
    explain_notes(request, notes, out);
    // The item has one cost, whatever the policy estimates of a request.
    for (Explanation::Policy& policy : out.policies) policy.reserved.reset();
    const config::PolicyCost* const cost =
        notes.policies.empty() ? nullptr : notes.policies.front().policy->cost.get();
    if (!out.cost || cost == nullptr) return {};
    out.cost->in_money = cost->in_money;
    if (!item.cost) out.cost->why = "reserved by the policy";
    return {};
}

std::string explain_request_item(const faces::CheckItem& item, ExplainedItem& explained,
                                 const FetchKeys& fetch_keys, Explanation& out) {
    ExplainedRequest& request = explained.request;
    faces::make_request_question(item, request.config(), explained.asked, request.decision);
    request.facts = explained.asked.facts;
    explain_peer(request, out);
    explain_steps(request, std::nullopt, fetch_keys, out);
    if (!request.decision.goes_on()) return {};
    std::string fault = faces::finish_request_item(item, request.decision);
    if (out.cost) out.cost->units = request.decision.charge.cost;
    return fault;
}

Explanation explain_item(const faces::CheckItem& item, ExplainedItem& explained,
                         const FetchKeys& fetch_keys) {
    Explanation out;
    out.is_call = true;
    const std::string fault = item.policy.empty()
                                  ? explain_request_item(item, explained, fetch_keys, out)
                                  : explain_policy_item(item, explained, out);
    explain_fault(explained.request, out);
    if (!fault.empty()) {
        out.refusal = kBadCall;
        out.refusal_reason = fault;
    }
    if (out.refusal != 0) out.cost.reset();
    const bool is_told = out.cost && !item.policy.empty() && !out.cost->why.empty();
    if (out.cost && item.cost && !is_told) out.cost->why = "stated by the call";
    if (out.cost && out.cost->why.empty()) out.cost->why = "by default";
    explain_too_large(explained.request, out);
    return out;
}

}  // namespace

CallExplanation explain_call(const std::shared_ptr<const config::Config>& config,
                             const CallQuestion& question, const FetchKeys& fetch_keys) {
    CallExplanation explained_call;
    const auto refuse = [&](int status, std::string reason) {
        explained_call.refusal = status;
        explained_call.refusal_reason = std::move(reason);
    };
    if (question.from && !question.listen.admits(question.from)) {
        const ask::FaultTraits& fault = ask::traits(ask::Fault::peer_not_admitted);
        refuse(fault.status, std::string(fault.detail));
        return explained_call;
    }
    const auto call = faces::read_check_call(question.body, question.reserves);
    if (!call) {
        refuse(kBadCall, call.error());
        return explained_call;
    }
    explained_call.form = call->form;
    std::vector<std::unique_ptr<ExplainedItem>> explained;
    store::LimitDecision whole;
    for (std::size_t i = 0; i < call->items.size(); ++i) {
        ExplainedItem& item = *explained.emplace_back(std::make_unique<ExplainedItem>(config));
        const Explanation& one =
            explained_call.items.emplace_back(explain_item(call->items[i], item, fetch_keys));
        if (call->form == Form::each) continue;
        const std::string place =
            call->form == Form::all ? "all[" + std::to_string(i) + "]: " : std::string();
        if (one.refusal != 0) {
            refuse(one.refusal, place + one.refusal_reason);
            return explained_call;
        }
        const std::string fault = faces::add_to_charge(item.request.decision.charge, whole);
        if (!fault.empty()) {
            refuse(kBadCall, place + fault);
            return explained_call;
        }
    }
    explained_call.identifiers = whole.items.size();
    for (const limit::ChargeItem& item : whole.items) explained_call.limits += item.limits().size();
    return explained_call;
}

}  // namespace tidegate::cli

#include "cli/explain.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "ask/route.hpp"
#include "base/ascii.hpp"
#include "cli/explain_request.hpp"
#include "faces/original_request.hpp"
#include "h2/fields.hpp"
#include "http/field.hpp"
#include "http/head.hpp"
#include "routing/path_prefix.hpp"

namespace tidegate::cli {

namespace {

using ask::Fault;

// The host when `fields` do not state one.
std::optional<std::string> host_of(const Question& question) {
    const auto names_host = [](std::string_view field) {
        return http::equal_ignoring_case(field.substr(0, field.find(':')), "host");
    };
    const bool has_host = std::any_of(question.fields.begin(), question.fields.end(), names_host);
    if (question.host || has_host) return question.host;
    return "localhost";
}

// The head as a client sends it.
std::string head_of(const Question& question) {
    std::string head = question.method + " " + question.target + " HTTP/1.1\r\n";
    if (const auto host = host_of(question)) head += "Host: " + *host + "\r\n";
    for (const std::string& field : question.fields) head += field + "\r\n";
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
void read_http2_head(const Question& question, const h2::RequestRules& rules, h2::FieldBlock& block,
                     ExplainedRequest& request) {
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

// Of the routes before `end`, those that match the path of the request and do not take it.
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

// Where the question arrives; null: it does not matter.
const config::Listen* listener_of(const Question& question, const config::Config& config) {
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
    const std::string_view fault =
        faces::read_original(listen, request.config().limits_on_requests, request.facts);
    if (!fault.empty()) return request.decision.refuse(Fault::bad_original, fault);
    ask::check_method(request.facts.head.method, request.decision);
}

}  // namespace

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

void explain_steps(ExplainedRequest& request, const FetchKeys& fetch_keys, Explanation& out) {
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
    if (decision.goes_on()) explain_charges(request, out);
}

void explain_fault(const ask::Decision& decision, Explanation& out) {
    if (decision.goes_on()) return;
    const ask::FaultTraits& fault = ask::traits(decision.fault);
    out.refusal = fault.status;
    out.refusal_reason = decision.fault_detail.empty() ? fault.detail : decision.fault_detail;
}

Explanation explain(std::shared_ptr<const config::Config> config, const Question& question,
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
        explain_steps(request, fetch_keys, out);
    }
    explain_fault(request.decision, out);
    return out;
}

}  // namespace tidegate::cli

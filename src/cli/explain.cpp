#include "cli/explain.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cli/explain_stage.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::cli {

namespace {

using proxy::Exchange;
using proxy::Fault;

// The head as a client sends it.
std::string head_of(const Question& question) {
    std::string head = question.method + " " + question.target + " HTTP/1.1\r\n";
    const auto names_host = [](std::string_view field) {
        return http::equal_ignoring_case(field.substr(0, field.find(':')), "host");
    };
    const bool has_host = std::any_of(question.fields.begin(), question.fields.end(), names_host);
    if (question.host || !has_host) head += "Host: " + question.host.value_or("localhost") + "\r\n";
    for (const std::string& field : question.fields) head += field + "\r\n";
    return head + "\r\n";
}

void read_head(std::string_view bytes, Exchange& exchange) {
    const auto& limits = exchange.config().limits_on_requests;
    const http::HeadBounds bounds{limits.header_bytes, limits.headers, limits.uri_bytes};
    http::HeadScanner scanner;
    const std::size_t length = scanner.scan(bytes, bounds);
    const http::HeadFault fault =
        length != 0 ? http::parse_request_head(bytes.substr(0, length), bounds, exchange.request)
                    : scanner.fault();
    if (fault == http::HeadFault::none) return;
    exchange.fault = proxy::fault_of(fault);
    exchange.fault_detail = http::describe(fault);
}

void explain_peer(const identity::Peer& peer, const config::Config& config, Explanation& out) {
    out.trusted = peer.trusted;
    if (!peer.address) return;
    out.peer = peer.address->to_string();
    for (const IpNetwork& network : config.client_ip.trusted_proxies) {
        if (!network.contains(*peer.address)) continue;
        out.trusted_network = network.address.to_string() + "/" + std::to_string(network.prefix);
        break;
    }
}

routing::RequestLine line_of(const Exchange& exchange) {
    const http::RequestHead& request = exchange.request;
    return {request.method, request.path, exchange.host, &request.fields};
}

// Of the routes before `end`, those whose path is that of the request and that do not take it.
void explain_passed(const Exchange& exchange, std::size_t end, Explanation& out) {
    const config::Config& config = exchange.config();
    for (std::size_t i = 0; i < end; ++i) {
        const routing::Mismatch because = config.router.mismatch(i, line_of(exchange));
        if (because == routing::Mismatch::path) {
            ++out.other_paths;
        } else {
            out.passed.push_back({config.routes[i].name, because});
        }
    }
}

void explain_readings(const Exchange& exchange, Explanation& out) {
    const config::Config& config = exchange.config();
    for (routing::ReadPath& reading : config.router.readings(line_of(exchange))) {
        out.readings.push_back({std::move(reading.text),
                                reading.route ? config.routes[*reading.route].name : "",
                                std::move(reading.captures), reading.ignoring_case});
    }
}

void explain_route(const Exchange& exchange, Explanation& out) {
    const config::Config& config = exchange.config();
    if (exchange.route != nullptr) {
        out.route = exchange.route->name;
        out.upstream = config.upstreams[exchange.route->upstream].name;
        explain_passed(exchange, exchange.route_index, out);
    } else if (exchange.fault == Fault::no_route) {
        explain_passed(exchange, config.routes.size(), out);
    } else if (exchange.fault == Fault::ambiguous_path) {
        explain_readings(exchange, out);
    }
}

void explain_fault(const Exchange& exchange, Explanation& out) {
    if (exchange.fault == Fault::none) return;
    const proxy::FaultTraits& fault = proxy::traits(exchange.fault);
    out.refusal = fault.status;
    out.refusal_reason = exchange.fault_detail.empty() ? fault.detail : exchange.fault_detail;
}

// The street. Who asks is found out also for a request without a route, where the proxy would not
// go on, and changes nothing about its answer.
void walk(Stage& stage, const FetchKeys& fetch_keys, Explanation& out) {
    Exchange& exchange = stage.exchange;
    if (exchange.fault != Fault::none) return;
    check_framing(exchange);
    out.method = exchange.request.method;
    out.path = exchange.request.path;
    out.host = exchange.host;
    if (exchange.fault != Fault::none) return;
    match_route(exchange);
    explain_route(exchange, out);
    const Fault fault = exchange.fault;
    const std::string_view detail = exchange.fault_detail;
    explain_identity(stage, fetch_keys, out);
    if (fault != Fault::none) {
        exchange.fault = fault;
        exchange.fault_detail = detail;
    }
    if (exchange.fault == Fault::none) explain_charges(stage, out);
}

}  // namespace

Explanation explain(std::shared_ptr<const config::Config> config, const Question& question,
                    const FetchKeys& fetch_keys) {
    const bool trusted = !question.from || config->client_ip.trusts(*question.from);
    const identity::Peer peer{question.from, trusted};
    Explanation out;
    explain_peer(peer, *config, out);
    Stage stage(std::move(config), peer);
    const std::string head = head_of(question);
    read_head(head, stage.exchange);
    walk(stage, fetch_keys, out);
    explain_fault(stage.exchange, out);
    return out;
}

}  // namespace tidegate::cli

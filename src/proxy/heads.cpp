#include "proxy/heads.hpp"

#include <algorithm>
#include <optional>

#include "ask/challenges.hpp"
#include "ask/decided_limits.hpp"
#include "ask/verdict.hpp"
#include "base/numbers.hpp"
#include "base/timestamp.hpp"
#include "http/forwarding_fields.hpp"
#include "http/problem.hpp"

namespace tidegate::proxy {

namespace {

using http::BodyKind;
using http::Field;
using http::FieldName;

void append_field(std::string_view name, std::string_view value, std::string& out) {
    out.append(name).append(": ").append(value).append("\r\n");
}

void append_field(std::string_view name, std::uint64_t value, std::string& out) {
    out.append(name).append(": ");
    append_number(value, out);
    out.append("\r\n");
}

// A field that could pass for one that says who is asking, but is not believed: anybody's but a
// trusted peer's, and of a trusted peer's those that say it twice or in another spelling. The peer
// may have added its own to what its client sent.
bool is_forged(const Exchange& exchange, const Field& field) {
    const IdentityFields& fields = exchange.generation->identity_fields;
    if (!fields.include(field.name)) return false;
    return !exchange.facts.peer.trusted || !fields.are_believed_as(field.name) ||
           http::single_value(exchange.facts.head.fields, field.name).empty();
}

bool goes_to_upstream(const Exchange& exchange, const Field& field) {
    if (field.id == FieldName::host || field.id == FieldName::x_request_id) return false;
    if (http::is_hop_by_hop(field)) return false;
    if (field.id == FieldName::expect) return exchange.client.framing.expects_continue;
    if (field.id != FieldName::other) return !http::is_forwarding_field(field);
    return !http::is_forwarding_field(field) && !http::looks_like_framing(field.name) &&
           !http::equal_as_variable(field.name, "x-request-id") && !is_forged(exchange, field);
}

bool had_content_length(const http::Fields& fields) {
    for (const Field& field : fields) {
        if (field.id == FieldName::content_length) return true;
    }
    return false;
}

void append_status_line(int status, std::string_view reason, std::string& out) {
    out += "HTTP/1.1 ";
    append_number(static_cast<std::uint64_t>(status), out);
    out.append(" ").append(reason).append("\r\n");
}

void append_ratelimit_line(const std::vector<http::RateLimitItem>& items, std::string& out) {
    const std::size_t line = out.size();
    out += "RateLimit: ";
    const std::size_t value = out.size();
    http::append_ratelimit(items, out);
    if (out.size() == value) {
        out.resize(line);
    } else {
        out += "\r\n";
    }
}

// What the client is told about its limits.
void append_limit_fields(const config::Response& response, const Exchange& exchange,
                         std::string& out) {
    if (exchange.decision.ratelimit.empty()) return;
    if (response.ratelimit_fields) {
        out += "RateLimit-Policy: ";
        http::append_ratelimit_policy(exchange.decision.ratelimit, out);
        out += "\r\n";
        append_ratelimit_line(exchange.decision.ratelimit, out);
    }
    if (response.x_ratelimit_fields)
        http::append_x_ratelimit_fields(exchange.decision.ratelimit, out);
}

// The upstream's own word about limits, where ours takes its place.
bool is_replaced(const config::Response& response, const Exchange& exchange, const Field& field) {
    switch (field.id) {
        case FieldName::ratelimit:
        case FieldName::ratelimit_policy:
        case FieldName::ratelimit_limit:
        case FieldName::ratelimit_remaining:
        case FieldName::ratelimit_reset:
            return response.ratelimit_fields && !exchange.decision.ratelimit.empty();
        case FieldName::x_ratelimit_limit:
        case FieldName::x_ratelimit_remaining:
        case FieldName::x_ratelimit_reset:
            return response.x_ratelimit_fields && !exchange.decision.ratelimit.empty();
        default:
            return false;
    }
}

// Who is asking, as `identity.forward_as` wants the upstream to be told.
void append_identity(const Exchange& exchange, std::string& out) {
    const config::Config& config = exchange.config();
    const config::ForwardAs& names = config.forward_as;
    if (!names.user.empty() && exchange.decision.user)
        append_field(names.user, *exchange.decision.user, out);
    if (!names.tier.empty() && !exchange.decision.tier.empty())
        append_field(names.tier, exchange.decision.tier, out);
    const bool is_there = config.forwarding.x_forwarded && names.client_ip == "x-real-ip";
    if (names.client_ip.empty() || is_there || !exchange.decision.client) return;
    out.append(names.client_ip).append(": ");
    exchange.decision.client->append_to(out);
    out += "\r\n";
}

void append_connection(const Exchange& exchange, std::string& out) {
    if (!exchange.client.keep_alive) {
        out += "Connection: close\r\n";
    } else if (exchange.facts.head.minor_version == 0) {
        out += "Connection: keep-alive\r\n";
    }
}

// {retry_after}, {limit} and {policy} in the operator's own text.
std::string filled_in(std::string_view text, std::string_view retry_after, std::string_view limit,
                      std::string_view policy) {
    std::string out;
    while (!text.empty()) {
        const std::size_t brace = std::min(text.find('{'), text.size());
        out.append(text.substr(0, brace));
        text.remove_prefix(brace);
        if (text.starts_with("{retry_after}")) {
            out.append(retry_after);
            text.remove_prefix(13);
        } else if (text.starts_with("{limit}")) {
            out.append(limit);
            text.remove_prefix(7);
        } else if (text.starts_with("{policy}")) {
            out.append(policy);
            text.remove_prefix(8);
        } else if (!text.empty()) {
            out += '{';
            text.remove_prefix(1);
        }
    }
    return out;
}

struct Violated {
    std::vector<std::string_view> labels;  // of the limits that refused, each once
    std::string_view limit;
    std::string_view policy;
};

Violated violated(const Exchange& exchange) {
    Violated found;
    ask::for_each_limit(exchange.decision.charge, [&](const limit::ChargeItem& item, std::size_t i,
                                                      const limit::LimitVerdict& one) {
        if (!one.denied || item.policy->shadow) return;
        const std::string_view label = exchange.generation->policy_texts.of(item, i).label;
        if (found.labels.empty()) {
            found.limit = label;
            found.policy = item.policy->name;
        }
        if (std::find(found.labels.begin(), found.labels.end(), label) == found.labels.end()) {
            found.labels.push_back(label);
        }
    });
    return found;
}

struct FaultAnswer {
    int status = 500;
    std::string content_type{http::kProblemContentType};
    std::string body;
    std::int64_t retry_after = 0;  // seconds; 0: not said
};

FaultAnswer plain_answer(const Exchange& exchange) {
    const ask::FaultTraits& fault = ask::traits(exchange.decision.fault);
    FaultAnswer answer;
    answer.status = fault.status;
    http::Problem problem;
    problem.status = fault.status;
    problem.detail =
        exchange.decision.fault_detail.empty() ? fault.detail : exchange.decision.fault_detail;
    problem.request_id = exchange.facts.request_id;
    if (exchange.decision.fault == ask::Fault::store_unavailable ||
        exchange.decision.fault == ask::Fault::credentials_unchecked ||
        exchange.decision.fault == ask::Fault::upstream_exhausted) {
        answer.retry_after = 1;
        problem.retry_after_seconds = 1;
    }
    http::append_problem(problem, answer.body);
    answer.body += '\n';  // a terminal's prompt begins on a line of its own
    return answer;
}

FaultAnswer limited_answer(const Exchange& exchange) {
    const config::Response& response = exchange.config().response;
    const Violated limits = violated(exchange);
    FaultAnswer answer;
    answer.status = response.status;
    const std::int64_t retry_after = ask::retry_after_seconds(exchange.decision.charge);
    if (response.retry_after_field) answer.retry_after = retry_after;
    if (!response.content_type.empty()) {
        answer.content_type = response.content_type;
        answer.body =
            filled_in(response.text, std::to_string(retry_after), limits.limit, limits.policy);
        return answer;
    }
    http::Problem problem;
    problem.status = response.status;
    problem.type = http::ProblemType::quota_exceeded;
    problem.detail = ask::traits(ask::Fault::limited).detail;
    problem.request_id = exchange.facts.request_id;
    problem.violated_policies = limits.labels;
    if (retry_after > 0) problem.retry_after_seconds = retry_after;
    // A schedule cannot say when to come back, but for which moment to ask.
    const limit::Micros moment = exchange.decision.charge.verdict.earliest;
    const std::string earliest = moment.count() > 0 ? format_timestamp(moment) : "";
    problem.earliest = earliest;
    http::append_problem(problem, answer.body);
    answer.body += '\n';  // a terminal's prompt begins on a line of its own
    return answer;
}

}  // namespace

const std::string& write_request_head(Exchange& exchange, const std::string& authority) {
    const http::RequestHead& request = exchange.facts.head;
    const config::Forwarding& forwarding = exchange.config().forwarding;
    std::string& out = exchange.upstream.begin_head(request.method, request.path, request.query);
    const bool ours = !forwarding.preserve_host || exchange.facts.host.empty();
    append_field("Host", ours ? std::string_view(authority) : exchange.facts.host, out);
    for (const Field& field : request.fields) {
        if (goes_to_upstream(exchange, field)) {
            append_field(field.name, field.value, out);
        }
    }
    http::append_forwarding_fields(
        {.fields = request.fields,
         .peer_trusted = exchange.facts.peer.trusted,
         .peer = exchange.facts.peer.address,
         .client = exchange.decision.client,
         .local_port = exchange.facts.local_port,
         .scheme = "http",
         .host = exchange.facts.host,
         .http_1_0 = request.minor_version == 0,
         .settings = {forwarding.x_forwarded, forwarding.forwarded, forwarding.via}},
        out);
    append_field("X-Request-Id", exchange.facts.request_id, out);
    append_identity(exchange, out);
    const http::Framing& framing = exchange.client.framing;
    std::optional<std::uint64_t> length;
    if (framing.body == BodyKind::length || had_content_length(request.fields)) {
        length = framing.length;
    }
    exchange.upstream.end_head(framing.body, length);
    return out;
}

void append_answer_head(const Exchange& exchange, const http::ResponseHead& answer,
                        const http::Framing& framing, BodyKind body, std::string& out) {
    const config::Response& response = exchange.config().response;
    append_status_line(answer.status, answer.reason, out);
    for (const Field& field : answer.fields) {
        if (http::is_hop_by_hop(field) || is_replaced(response, exchange, field) ||
            http::looks_like_framing(field.name)) {
            continue;
        }
        append_field(field.name, field.value, out);
    }
    append_limit_fields(response, exchange, out);
    switch (body) {
        case BodyKind::length:
            append_field("Content-Length", framing.length, out);
            break;
        case BodyKind::chunked:
            append_field("Transfer-Encoding", "chunked", out);
            break;
        case BodyKind::until_close:
            break;
        case BodyKind::none:
            // To HEAD and in a 304 it tells of the body that is not there; 204 must not have one.
            if (answer.status != 204 && had_content_length(answer.fields)) {
                append_field("Content-Length", framing.length, out);
            }
            break;
    }
    append_connection(exchange, out);
    out += "\r\n";
}

void append_interim_head(const http::ResponseHead& head, std::string& out) {
    append_status_line(head.status, head.reason, out);
    for (const Field& field : head.fields) {
        if (http::is_hop_by_hop(field) || http::looks_like_framing(field.name)) {
            continue;
        }
        append_field(field.name, field.value, out);
    }
    out += "\r\n";
}

std::size_t append_fault_answer(const Exchange& exchange, std::string& out) {
    const FaultAnswer answer = exchange.decision.fault == ask::Fault::limited
                                   ? limited_answer(exchange)
                                   : plain_answer(exchange);
    append_status_line(answer.status, http::status_title(answer.status), out);
    append_field("Content-Type", answer.content_type, out);
    append_field("Content-Length", answer.body.size(), out);
    append_field("X-Request-Id", exchange.facts.request_id, out);
    if (answer.retry_after > 0) {
        append_field("Retry-After", static_cast<std::uint64_t>(answer.retry_after), out);
    }
    if (exchange.decision.fault == ask::Fault::bad_credentials) {
        ask::append_challenges(exchange.config().user_methods, exchange.decision.finding, out);
    }
    append_limit_fields(exchange.config().response, exchange, out);
    append_connection(exchange, out);
    out += "\r\n";
    if (exchange.facts.head.method == "HEAD") return 0;
    out += answer.body;
    return answer.body.size();
}

// RFC 9110 sections 6.5.1 and 7.6.1: what Connection names goes from the trailers too.
void filter_request_trailers(const Exchange& exchange, http::Fields& trailers) {
    if (trailers.empty()) return;
    // Nobody is identified by a trailer, so none that says who is asking is believed.
    const IdentityFields& names = exchange.generation->identity_fields;
    const TrailerFields& refused = exchange.generation->trailer_fields;
    const http::ListedNames named = http::connection_names(exchange.facts.head.fields);
    std::erase_if(trailers, [&](const Field& field) {
        return http::is_forwarding_field(field) || names.include(field.name) ||
               names.hold_credentials_in(field.name) || refused.are_refused_as(field.name) ||
               http::equal_as_variable(field.name, "x-request-id") || named.include(field.name);
    });
}

void filter_answer_trailers(const Exchange& exchange, http::Fields& trailers) {
    if (trailers.empty()) return;
    std::erase_if(trailers, [&](const Field& field) {
        return field.id == FieldName::retry_after ||
               is_replaced(exchange.config().response, exchange, field);
    });
}

}  // namespace tidegate::proxy

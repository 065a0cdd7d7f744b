#include "proxy/fault_answer.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ask/ruleset.hpp"
#include "ask/verdict.hpp"
#include "base/timestamp.hpp"
#include "http/field.hpp"
#include "http/websocket.hpp"
#include "identity/authenticator.hpp"
#include "proxy/heads.hpp"

namespace tidegate::proxy {

namespace {

using http::append_field;
constexpr int kUnauthorized = 401;  // needs a challenge: RFC 9110 section 15.5.2
constexpr std::string_view kJsonType = "application/json";

// Fills {retry_after}, {limit} and {policy} into the operator's own text.
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
    std::vector<std::string_view> names;             // of the limits that refused, each once
    std::string_view limit;                          // the first of them
    const config::PolicySettings* policy = nullptr;  // whose limit that is: the first that refused
    bool has_quota = false;                          // one of them is a quota
};

enum class Content : std::uint8_t { problem, none };

// Whether a limit has windows of a day or longer.
bool is_quota(const limit::Limit& limit) {
    constexpr limit::Micros kDay = std::chrono::hours{24};
    const limit::AlgorithmTraits& traits = limit.traits();
    return limit.duration >= kDay && !traits.has_slots && !traits.has_moments;
}

Violated violated(const Exchange& exchange) {
    Violated found;
    ask::for_each_limit(exchange.decision.charge, [&](const limit::ChargeItem& item, std::size_t i,
                                                      const limit::LimitVerdict& one) {
        if (!one.denied || !item.policy->is_enforced()) return;
        found.has_quota = found.has_quota || is_quota(item.limits()[i]);
        const std::string_view name = exchange.generation->policy_texts.of(item, i).name;
        if (found.names.empty()) {
            found.limit = name;
            found.policy = exchange.config().limit_lists[ask::list_of(item)].policy;
        }
        if (std::find(found.names.begin(), found.names.end(), name) == found.names.end()) {
            found.names.push_back(name);
        }
    });
    return found;
}

// When a client may come back after a fault that passes; 0: the fault does not pass.
std::int64_t retry_after_seconds(const Exchange& exchange) {
    const ask::Decision& decision = exchange.decision;
    switch (decision.fault) {
        case ask::Fault::credentials_unchecked:
            return decision.authentication->result == identity::Authentication::Result::key_missing
                       ? decision.authentication->retry_after.count()
                       : 1;
        case ask::Fault::store_unavailable:
        case ask::Fault::bodies_full:
        case ask::Fault::upstream_exhausted:
        case ask::Fault::upstream_refused:
            return 1;
        case ask::Fault::upstream_down: {
            // Not before the next check can find a server healthy.
            const auto& checks = exchange.config().upstreams[decision.route->upstream].health_check;
            if (!checks) return 1;
            return std::max<std::int64_t>(
                1, std::chrono::ceil<std::chrono::seconds>(checks->every).count());
        }
        default:
            return 0;
    }
}

FaultAnswer plain_answer(const Exchange& exchange, Content content) {
    const ask::FaultTraits& fault = ask::traits(exchange.decision.fault);
    FaultAnswer answer;
    answer.status = fault.status;
    answer.retry_after = retry_after_seconds(exchange);
    if (content == Content::none) return answer;
    http::Problem problem;
    problem.status = fault.status;
    std::string room;
    problem.detail =
        ask::refusal_text(*exchange.generation, exchange.facts, exchange.decision, room);
    problem.request_id = exchange.facts.request_id;
    if (answer.retry_after > 0) problem.retry_after_seconds = answer.retry_after;
    http::append_problem(problem, answer.body);
    answer.body += '\n';  // the prompt of a terminal begins on a line of its own
    return answer;
}

// The body that libraries of a provider of models read.
void append_provider_error(const Exchange& exchange, config::AnswerBody::Form form,
                           const Violated& limits, std::int64_t retry_after, std::string& out) {
    const ask::Ruleset& rules = *exchange.generation;
    const store::LimitDecision& charge = exchange.decision.charge;
    const config::PolicyCost* const cost =
        limits.policy != nullptr ? limits.policy->cost.get() : nullptr;
    const auto large = ask::refused_as_too_large(charge);
    const std::string never = large ? ask::text_of(rules, *large) : "";
    const std::string usage = ask::text_of_usage(rules, charge);
    const http::RateLimitError error{
        .limit = usage.empty() ? limits.limit : usage,
        .counts_tokens = cost != nullptr && cost->settle == config::PolicyCost::Settle::usage,
        .is_quota = limits.has_quota,
        .retry_after_seconds = retry_after,
        .never = never};
    if (form == config::AnswerBody::Form::openai) {
        http::append_openai_error(error, out);
    } else {
        http::append_anthropic_error(error, out);
    }
    out += '\n';
}

// Libraries of providers sleep for as long as Retry-After says, be it weeks, and without one they
// come again at once. This field, which they read first, has them throw instead.
void append_should_retry(std::int64_t retry_after, std::string& out) {
    constexpr std::int64_t kLongestSleep = 60;
    const bool helps = retry_after > 0 && retry_after <= kLongestSleep;
    if (!helps) append_field("x-should-retry", "false", out);
}

// The status and the body come from the first policy of the route that refused, if it has its own.
FaultAnswer limited_answer(const Exchange& exchange, Content content) {
    const config::Response& response = exchange.config().response;
    const Violated limits = violated(exchange);
    const config::PolicySettings* const policy = limits.policy;
    const config::AnswerBody& body =
        policy != nullptr && policy->body ? *policy->body : response.body;
    FaultAnswer answer;
    answer.status = policy != nullptr && policy->status != 0 ? policy->status : response.status;
    const std::int64_t retry_after = ask::retry_after_seconds(exchange.decision.charge);
    if (response.limit_fields.has(http::LimitFields::retry_after) || body.is_of_provider()) {
        answer.retry_after = retry_after;
    }
    if (body.is_of_provider() || response.limit_fields.has(http::LimitFields::openai) ||
        response.limit_fields.has(http::LimitFields::anthropic)) {
        append_should_retry(retry_after, answer.more_fields);
    }
    if (content == Content::none) return answer;
    if (body.is_of_provider()) {
        answer.content_type = kJsonType;
        append_provider_error(exchange, body.form, limits, retry_after, answer.body);
        return answer;
    }
    if (body.form == config::AnswerBody::Form::text) {
        answer.content_type = body.content_type;
        answer.body = filled_in(body.text, std::to_string(retry_after), limits.limit,
                                policy != nullptr ? policy->name : std::string_view());
        return answer;
    }
    http::Problem problem;
    problem.status = answer.status;
    problem.type = http::ProblemType::quota_exceeded;
    std::string room;
    problem.detail =
        ask::refusal_text(*exchange.generation, exchange.facts, exchange.decision, room);
    problem.request_id = exchange.facts.request_id;
    problem.violated_policies = limits.names;
    if (retry_after > 0) problem.retry_after_seconds = retry_after;
    // A schedule cannot say when to come back, but which moment to ask for.
    const limit::Micros moment = exchange.decision.charge.verdict.earliest;
    const std::string earliest = moment.count() > 0 ? format_timestamp(moment) : "";
    problem.earliest = earliest;
    http::append_problem(problem, answer.body);
    answer.body += '\n';  // the prompt of a terminal begins on a line of its own
    return answer;
}

FaultAnswer answer_with(const Exchange& exchange, Content content) {
    return exchange.decision.fault == ask::Fault::limited ? limited_answer(exchange, content)
                                                          : plain_answer(exchange, content);
}

// Appends when a client of gRPC should call again. Clients that retry by themselves obey the
// pushback, and do not try again if it is negative (gRFC A6).
void append_retry_fields(const Exchange& exchange, std::string_view message, std::string& out) {
    constexpr std::int64_t kMilli = 1'000;
    const limit::Micros retry_after = exchange.decision.charge.verdict.retry_after;
    if (retry_after == limit::kNever) {
        append_field("grpc-retry-pushback-ms", "-1", out);
        return;
    }
    const std::int64_t milliseconds = (retry_after.count() + kMilli - 1) / kMilli;
    append_field("grpc-retry-pushback-ms",
                 static_cast<std::uint64_t>(std::max<std::int64_t>(milliseconds, 1)), out);
    out += "grpc-status-details-bin: ";
    http::append_retry_details(http::GrpcStatus::resource_exhausted, message, retry_after, out);
    out += "\r\n";
}

}  // namespace

FaultAnswer make_fault_answer(const Exchange& exchange) {
    FaultAnswer answer = answer_with(exchange, Content::problem);
    answer.is_to_head = exchange.facts.head.method == "HEAD";
    return answer;
}

FaultAnswer make_grpc_fault_answer(const Exchange& exchange) {
    const ask::Decision& decision = exchange.decision;
    const bool is_limited = decision.fault == ask::Fault::limited;
    FaultAnswer answer = answer_with(exchange, Content::none);
    answer.content_type = http::kGrpcContentType;
    // The `status` that the configuration gives to limits does not matter here.
    answer.grpc =
        is_limited ? http::GrpcStatus::resource_exhausted : http::grpc_status_of(answer.status);
    std::string room;
    const std::string_view message =
        ask::refusal_text(*exchange.generation, exchange.facts, decision, room);
    append_field("grpc-status", static_cast<std::uint64_t>(*answer.grpc), answer.more_fields);
    answer.more_fields += "grpc-message: ";
    http::append_grpc_message(message, answer.more_fields);
    answer.more_fields += "\r\n";
    if (is_limited && exchange.config().response.limit_fields.has(http::LimitFields::retry_after)) {
        append_retry_fields(exchange, message, answer.more_fields);
    }
    return answer;
}

FaultAnswer make_bare_fault_answer(const Exchange& exchange) {
    FaultAnswer answer = answer_with(exchange, Content::none);
    answer.content_type = {};
    return answer;
}

void append_fault_fields(const Exchange& exchange, const FaultAnswer& answer, std::string& out) {
    append_field("X-Request-Id", exchange.facts.request_id, out);
    if (answer.retry_after > 0) {
        append_field("Retry-After", static_cast<std::uint64_t>(answer.retry_after), out);
    }
    if (exchange.decision.fault == ask::Fault::upgrade_version) {
        // RFC 6455 section 4.4, RFC 9110 section 15.5.22.
        append_field("Sec-WebSocket-Version", http::kWebSocketVersion, out);
        if (!exchange.facts.is_http2) out += http::kSwitchLines;
    }
    if (exchange.decision.fault == ask::Fault::bad_token) {
        append_field("WWW-Authenticate", "Bearer", out);
    } else if (ask::traits(exchange.decision.fault).status == kUnauthorized) {
        identity::append_challenges(exchange.config().user_methods,
                                    *exchange.decision.authentication, out);
    }
    append_limit_fields(exchange, out);
    append_cors_fields(exchange, out);
    out += exchange.config().response.extra_lines;
    out += answer.more_fields;
}

const std::string& write_fault_head(Exchange& exchange, const FaultAnswer& answer,
                                    std::string_view date_line) {
    client::Stream& client = *exchange.client;
    constexpr int kOk = 200;
    const int status = answer.grpc ? kOk : answer.status;
    std::string& out = client.begin_head(status, http::status_title(status));
    if (!answer.content_type.empty()) append_field("Content-Type", answer.content_type, out);
    if (!answer.grpc) append_field("Content-Length", answer.body.size(), out);
    out += date_line;
    append_fault_fields(exchange, answer, out);
    client.end_head(http::BodyKind::none, {});
    return out;
}

}  // namespace tidegate::proxy

// `forward_auth`: a gateway asks whether it may forward a request.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ask/request_checks.hpp"
#include "faces/faces.hpp"
#include "faces/metrics.hpp"
#include "faces/original_request.hpp"
#include "http/field.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/request.hpp"
#include "telemetry/error_log.hpp"
#include "telemetry/metric_members.hpp"

namespace tidegate::faces {

namespace {

using ask::Fault;
using config::Dialect;
using http::append_field;
using proxy::Exchange;
using proxy::FaultAnswer;

// Each field of `forward_as`, empty where it has no value: a gateway that gets no value may pass
// on what the client wrote in a field of that name.
void append_identity(const Exchange& x, std::string& out) {
    for_each_identity_field(
        x, [&](std::string_view name, std::string_view value) { append_field(name, value, out); });
}

// auth_request of nginx turns a status other than 401 and 403 into 500. So the status comes in a
// field of its own. Without a body: nginx does not read it, and closes a connection on which it
// came.
FaultAnswer refusal_for_nginx(const Exchange& x) {
    constexpr int kUnauthorized = 401;
    constexpr int kForbidden = 403;
    FaultAnswer answer = proxy::make_bare_fault_answer(x);
    if (answer.status == kUnauthorized) return proxy::make_fault_answer(x);
    append_field("X-Tidegate-Status", static_cast<std::uint64_t>(answer.status),
                 answer.more_fields);
    answer.status = kForbidden;
    return answer;
}

// Clients that the gateway does not name cannot be distinguished. Logged once an hour.
void report_missing_address(const ForwardAuthFace& face, const Exchange& x) {
    static telemetry::LogInterval log_interval{std::chrono::hours{1}};
    face.metrics.questions_without_address.add();
    if (!log_interval.is_due(std::chrono::steady_clock::now())) return;
    telemetry::log(telemetry::Level::warn,
                   "the gateway that asks on {} does not say whom it asks for: the field {} is "
                   "missing or cannot be read, so limits by `ip` do not know the client. Write "
                   "`proxy_set_header X-Forwarded-For $remote_addr` (nginx), or `x-forwarded-for` "
                   "into allowed_headers (Envoy). Counted in "
                   "tidegate_questions_without_address_total; logged once an hour",
                   face.listen.address.to_string(), identity::field_of(x.config().client_ip));
}

// nginx shows its client nothing of why, and an operator could not tell. Logged once an hour, as
// clients can bring it about.
void report_bad_original(const ForwardAuthFace& face, const OriginalFault& fault) {
    static telemetry::LogInterval log_interval{std::chrono::hours{1}};
    face.metrics.questions_unusable[fault.part].add();
    if (!log_interval.is_due(std::chrono::steady_clock::now())) return;
    telemetry::log(telemetry::Level::warn,
                   "a question on {} does not state one original request, and was refused: {} The "
                   "gateway's configuration is the cause, or its client. Counted in "
                   "tidegate_questions_unusable_total; logged once an hour",
                   face.listen.address.to_string(), fault.text);
}

// 200 and never 204: for Envoy only 200 is a consent.
FaultAnswer consent(const Exchange& x) {
    FaultAnswer answer;
    answer.status = 200;
    answer.content_type = {};
    append_identity(x, answer.more_fields);
    return answer;
}

// When it refuses a request, a gateway gives all fields to its client.
FaultAnswer refusal(const ForwardAuthFace& face, const Exchange& x) {
    const Dialect dialect = face.listen.dialect;
    const bool is_nginx = dialect == Dialect::nginx || dialect == Dialect::ingress_nginx;
    return is_nginx ? refusal_for_nginx(x) : proxy::make_fault_answer(x);
}

FaultAnswer answer_of(const ForwardAuthFace& face, const Exchange& x, bool is_to_head) {
    FaultAnswer answer = x.decision.goes_on() ? consent(x) : refusal(face, x);
    answer.is_to_head = is_to_head;
    return answer;
}

void read_question(const ForwardAuthFace& face, Exchange& x) {
    proxy::check_framing(x);
    if (!x.decision.goes_on()) return;
    const OriginalFault fault = read_original(face.listen, x.config().limits_on_requests, x.facts);
    if (!fault.empty()) {
        report_bad_original(face, fault);
        return x.decision.refuse(Fault::bad_original, fault.text);
    }
    ask::check_method(x.facts.head.method, x.decision);
}

}  // namespace

Task<> serve_forward_auth(void* self, client::Stream& client) {
    const ForwardAuthFace& face = *static_cast<ForwardAuthFace*>(self);
    std::unique_ptr<Exchange> exchange = face.worker.exchanges.take();
    Exchange& x = *exchange;
    ask::Decision& decision = x.decision;
    x.client = &client;
    x.face = Face::forward_auth;
    proxy::begin(face.worker, x);
    x.facts.keeps_fields = true;
    const bool is_to_head = x.facts.head.method == "HEAD";
    if (decision.goes_on() && !face.listen.admits(client.peer().address)) {
        decision.client = client.peer().address;  // for the log
        decision.refuse(Fault::peer_not_admitted);
    }
    if (decision.goes_on()) read_question(face, x);
    if (decision.goes_on() && !client.is_body_done()) {
        const Fault fault =
            co_await proxy::read_body(x, x.config().limits_on_requests.body_bytes, nullptr);
        if (fault != Fault::none) decision.refuse(fault);
    }
    const ask::Question question = proxy::question_of(x);
    if (decision.goes_on() && !face.worker.engine.begin(question)) {
        co_await face.worker.engine.finish(question);
    }
    if (decision.route != nullptr && !decision.client) report_missing_address(face, x);
    if (decision.route != nullptr) proxy::adopt_request_id(x.facts);
    if (decision.goes_on() || ask::traits(decision.fault).status != 0) {
        const FaultAnswer answer = answer_of(face, x, is_to_head);
        if (!proxy::begin_answer(face.worker, x, answer)) co_await proxy::finish_answer(x, answer);
    }
    proxy::finish(face.worker, std::move(exchange));
}

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    telemetry::write_members<Metrics>(out, threads);
}

}  // namespace tidegate::faces

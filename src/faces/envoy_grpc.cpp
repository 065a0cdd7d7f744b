#include <health.pb.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ask/request_checks.hpp"
#include "base/text.hpp"
#include "faces/envoy_calls.hpp"
#include "faces/faces.hpp"
#include "faces/rls_charge.hpp"
#include "http/field.hpp"
#include "http/grpc.hpp"
#include "http/query_and_method_override.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/heads.hpp"
#include "proxy/request.hpp"

namespace tidegate::faces {

namespace {

using ask::Fault;
using http::GrpcStatus;
using proxy::Exchange;
using proxy::FaultAnswer;

// Envoy takes heads of 60 KiB, and a call may hold a field of one in several descriptors, or a path
// twice. What is too large is an error, and Envoy lets a request pass whose call has failed.
constexpr std::uint64_t kMessageBytesMax = 262'144;
constexpr int kCallOk = 200;

constexpr std::string_view kRateLimitService = "envoy.service.ratelimit.v3.RateLimitService";
constexpr std::string_view kAuthorization = "envoy.service.auth.v3.Authorization";

// Whether `path` names the method of the service: `/SERVICE/METHOD`.
bool is_method(std::string_view path, std::string_view service, std::string_view method) {
    return path.size() == service.size() + method.size() + 2 && path.front() == '/' &&
           path.substr(1, service.size()) == service && path[service.size() + 1] == '/' &&
           path.ends_with(method);
}

// One call on its way: its request and its answer.
class EnvoyGrpcServing {
  public:
    EnvoyGrpcServing(EnvoyGrpcFace& face, Exchange& exchange) : face_(face), x_(exchange) {}

    Task<> run() {
        if (!face_.listen.admits(x_.facts.peer.address)) {
            co_return x_.decision.refuse(Fault::peer_not_admitted);
        }
        if (!http::is_grpc_call(x_.facts.head)) co_return refuse_other_type();
        read_deadline();
        const Fault fault =
            co_await proxy::read_body(x_, kMessageBytesMax + http::kGrpcMessageHeadBytes, &body_);
        if (fault != Fault::none) co_return x_.decision.refuse(fault);
        const http::GrpcMessage message = http::read_grpc_message(body_);
        if (message.fault == http::GrpcMessage::Fault::compressed) {
            co_return refuse(GrpcStatus::unimplemented, "Compressed messages are not supported.");
        }
        if (message.fault != http::GrpcMessage::Fault::none) {
            co_return refuse(GrpcStatus::invalid_argument, "The body is not one message of gRPC.");
        }
        const std::string_view path = x_.facts.head.path;
        if (is_method(path, kRateLimitService, "ShouldRateLimit")) {
            co_await should_rate_limit(message.bytes);
        } else if (is_method(path, kAuthorization, "Check")) {
            co_await check(message.bytes);
        } else if (is_method(path, "grpc.health.v1.Health", "Check")) {
            check_health(message.bytes);
        } else {
            refuse(GrpcStatus::unimplemented,
                   "There are ShouldRateLimit of the rate limit service, Check of external "
                   "authorization and Check of the health service.");
        }
    }

    Task<> answer() {
        if (has_answer_) {
            co_await send_message();
        } else if (refusal_) {
            co_await proxy::send_answer(face_.worker, x_, std::move(*refusal_));
        } else if (ask::traits(x_.decision.fault).status != 0) {
            co_await proxy::send_answer(face_.worker, x_, proxy::make_grpc_fault_answer(x_));
        }
    }

  private:
    // The caller needs the decision earlier than its deadline, by the time that an answer takes to
    // get there.
    void read_deadline() {
        using std::chrono::nanoseconds;
        constexpr nanoseconds kWay = std::chrono::milliseconds{2};
        const auto timeout =
            http::parse_grpc_timeout(http::single_value(x_.facts.head.fields, "grpc-timeout"));
        if (!timeout) return;
        deadline_ = x_.relay.began + *timeout;
        needed_by_ = deadline_ - std::min(kWay, *timeout / 2);
    }
    // What the store has not decided by needed_by_ is decided without it, and in time.
    bool is_late() const { return has_given_up_ || steady_now() >= deadline_; }

    // For the engine: no answer is needed any more, as what it waits for is not the store.
    static bool has_left(void* self) {
        EnvoyGrpcServing& serving = *static_cast<EnvoyGrpcServing*>(self);
        client::Stream& client = *serving.x_.client;
        if (steady_now() >= serving.needed_by_) serving.has_given_up_ = true;
        return serving.has_given_up_ || client.has_left(client.sleeper().wakeup());
    }

    // The call itself cannot be answered.
    void refuse(GrpcStatus status, std::string_view message) {
        x_.decision.charge.items.clear();  // not charged
        x_.decision.refuse(Fault::bad_call);
        FaultAnswer& answer = refusal_.emplace();
        answer.status = ask::traits(Fault::bad_call).status;
        answer.content_type = http::kGrpcContentType;
        answer.grpc = status;
        http::append_field("grpc-status", static_cast<std::uint64_t>(status), answer.more_fields);
        answer.more_fields += "grpc-message: ";
        http::append_grpc_message(message, answer.more_fields);
        answer.more_fields += "\r\n";
    }

    void refuse_other_type() {
        constexpr int kUnsupportedMediaType = 415;
        x_.decision.refuse(Fault::bad_call,
                           "This listener takes gRPC alone: POST with "
                           "`Content-Type: application/grpc`.");
        refusal_ = proxy::make_fault_answer(x_);
        refusal_->status = kUnsupportedMediaType;
    }

    // message_ holds the answer; the log says that the caller got `status`.
    void answer_message(int status) {
        has_answer_ = true;
        x_.relay.status = status;
        x_.relay.grpc_status = static_cast<int>(GrpcStatus::ok);
    }

    Task<> send_message() {
        client::Stream& client = *x_.client;
        std::string head;
        http::append_grpc_message_head(static_cast<std::uint32_t>(message_.size()), head);
        std::string& out = client.begin_head(kCallOk, "OK");
        http::append_field("Content-Type", http::kGrpcContentType, out);
        client.end_head(http::BodyKind::chunked, {});
        http::BodyBatch batch;
        batch.pieces[0] = head;
        batch.pieces[1] = message_;
        batch.count = message_.empty() ? 1 : 2;
        batch.content_bytes = head.size() + message_.size();
        batch.done = true;
        const http::Fields trailers{{http::FieldName::other, "grpc-status", "0"}};
        IoStatus status = client.send(batch, trailers);
        if (status == IoStatus::would_block) {
            status = co_await client.send_rest(x_.config().timeouts.client_write);
        }
        if (status == IoStatus::ok) x_.relay.bytes_sent = batch.content_bytes;
    }

    Task<> should_rate_limit(std::string_view message) {
        if (!x_.config().rls) {
            co_return refuse(GrpcStatus::unimplemented,
                             "The configuration has no `rls`, so there is no rate limit service.");
        }
        auto call = read_rls_call(message);
        if (!call) co_return refuse(GrpcStatus::invalid_argument, call.error());
        rls_call_ = std::move(*call);
        const auto& config = x_.generation->config;
        if (!face_.overrides || !face_.overrides->is_of(config) || face_.overrides->is_full()) {
            face_.overrides = std::make_shared<RlsOverrides>(config);
        }
        charge_.emplace(face_.worker, x_, rls_call_, face_.overrides,
                        RlsCharge::Deadline{needed_by_, deadline_});
        RlsAnswer answer;
        const std::string fault = co_await charge_->run(answer);
        if (!fault.empty()) co_return refuse(GrpcStatus::resource_exhausted, fault);
        if (x_.decision.fault == Fault::store_unavailable) co_return;
        if (is_late()) co_return x_.decision.refuse(Fault::decision_late);
        append_rls_answer(answer, message_);
        answer_message(answer.is_over ? x_.config().response.status : kCallOk);
    }

    // The facts of the call become those of the request that it is about.
    std::string read_request(std::string_view message) {
        auto call = read_authz_call(message);
        if (!call) return call.error();
        authz_call_ = std::move(*call);
        const auto& limits = x_.config().limits_on_requests;
        const http::HeadBounds bounds{limits.header_bytes, limits.headers, limits.uri_bytes};
        http::HeadScanner scanner;
        http::RequestHead head;
        const std::size_t length = scanner.scan(authz_call_.head, bounds);
        const http::HeadFault fault = length == authz_call_.head.size()
                                          ? http::parse_request_head(authz_call_.head, bounds, head)
                                      : length != 0 ? http::HeadFault::bad_field
                                                    : scanner.fault();
        std::swap(x_.facts.head, head);
        x_.facts.host = {};
        x_.facts.is_http2 = false;
        x_.facts.certificate = nullptr;
        x_.facts.scheme = authz_call_.scheme == "https" ? "https" : "http";
        if (!names_client()) x_.facts.peer = {authz_call_.source, x_.facts.peer.trusted, false};
        if (fault != http::HeadFault::none) {
            x_.decision.refuse(ask::fault_of(fault), http::describe(fault));
            return {};
        }
        http::Framing framing;
        ask::check_framing(x_.facts, framing, x_.decision);
        x_.facts.has_body = authz_call_.has_body;
        return {};
    }

    // Whether Envoy passes on the field with the addresses that the request came from.
    bool names_client() const {
        const std::string_view name = identity::field_of(x_.config().client_ip);
        const http::Fields& fields = x_.facts.head.fields;
        return std::any_of(fields.begin(), fields.end(), [&](const http::Field& one) {
            return http::equal_ignoring_case(one.name, name);
        });
    }

    Task<> check(std::string_view message) {
        std::string fault = read_request(message);
        if (!fault.empty()) co_return refuse(GrpcStatus::invalid_argument, fault);
        co_await decide();
        if (is_late()) co_return x_.decision.refuse(Fault::decision_late);
        if (x_.decision.route != nullptr) proxy::adopt_request_id(x_.facts);
        if (!x_.decision.goes_on() && ask::traits(x_.decision.fault).status == 0) co_return;
        AuthzAnswer answer;
        answer.is_admitted = x_.decision.goes_on();
        if (answer.is_admitted) {
            consent(answer);
        } else {
            deny(answer);
        }
        append_authz_answer(answer, message_);
        answer_message(answer.is_admitted ? kCallOk : answer.status);
    }

    // Waits until the caller needs the decision: for the store, without which `on_store_failure`
    // decides then, and for proof of a credential, without which there is none.
    Task<> decide() {
        const ask::Question made = proxy::question_of(x_);
        const ask::Question question{
            made.rules, made.facts, made.decision, made.wakeup, &EnvoyGrpcServing::has_left,
            this,       needed_by_};
        if (!x_.decision.goes_on() || is_late() || face_.worker.engine.begin(question)) co_return;
        Sleeper& sleeper = x_.client->sleeper();
        if (needed_by_ != SteadyTime::max()) {
            sleeper.allow(std::chrono::ceil<std::chrono::milliseconds>(
                std::max(needed_by_ - steady_now(), SteadyTime::duration{0})));
        }
        co_await face_.worker.engine.finish(question);
        sleeper.allow_forever();
    }

    // Fields that override method or target: also those that Envoy does not show, as it may send
    // some fields only, and other spellings as they came.
    void remove_overrides(AuthzAnswer& answer) const {
        const config::RemovedOverrides& removed = x_.config().removed_overrides;
        const auto remove = [&](std::string_view name) {
            answer.removed_fields.emplace_back(name);
        };
        if (removed.methods) {
            std::for_each(http::kMethodOverrides.begin(), http::kMethodOverrides.end(), remove);
        }
        if (removed.targets) {
            std::for_each(http::kTargetOverrides.begin(), http::kTargetOverrides.end(), remove);
        }
        for (const http::Field& field : x_.facts.head.fields) {
            const bool is_written_so =
                std::all_of(field.name.begin(), field.name.end(),
                            [](char c) { return c == '-' || is_alphanumeric(c); });
            if (!is_written_so && removed.include(http::override_of(field.name))) {
                remove(field.name);
            }
        }
    }

    // Fields of which nothing is known are taken from the request: its client may have written them
    // itself.
    void consent(AuthzAnswer& answer) const {
        remove_overrides(answer);
        for_each_identity_field(x_, [&](std::string_view name, std::string_view value) {
            if (value.empty()) {
                answer.removed_fields.emplace_back(name);
            } else {
                answer.request_fields.emplace_back(name, value);
            }
        });
        std::string lines;
        proxy::append_limit_fields(x_, lines);
        add_lines(lines, answer.answer_fields);
    }

    void deny(AuthzAnswer& answer) const {
        FaultAnswer refusal = proxy::make_fault_answer(x_);
        std::string lines;
        if (!refusal.content_type.empty()) {
            http::append_field("Content-Type", refusal.content_type, lines);
        }
        proxy::append_fault_fields(x_, refusal, lines);
        add_lines(lines, answer.answer_fields);
        answer.status = refusal.status;
        answer.grpc_status = static_cast<int>(http::grpc_status_of(refusal.status));
        if (!refusal.is_to_head) answer.body = std::move(refusal.body);
    }

    void check_health(std::string_view message) {
        envoy::HealthCheckRequest request;
        if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
            return refuse(GrpcStatus::invalid_argument, "The message is no HealthCheckRequest.");
        }
        const std::string& service = request.service();
        if (!service.empty() && service != kRateLimitService && service != kAuthorization) {
            return refuse(GrpcStatus::not_found, "There is no such service.");
        }
        envoy::HealthCheckResponse response;
        response.set_status(x_.client->is_draining() ? envoy::HealthCheckResponse::NOT_SERVING
                                                     : envoy::HealthCheckResponse::SERVING);
        response.AppendToString(&message_);
        answer_message(kCallOk);
    }

    EnvoyGrpcFace& face_;
    Exchange& x_;
    // When the decision and the answer have to be there. By default the caller waits for ever.
    SteadyTime needed_by_ = SteadyTime::max();
    SteadyTime deadline_ = SteadyTime::max();
    bool has_given_up_ = false;  // there is no decision, and it is not needed any more
    std::string body_;
    std::string message_;  // of the answer
    bool has_answer_ = false;
    std::optional<FaultAnswer> refusal_;
    // The data that the exchange points into, until it is recorded.
    AuthzCall authz_call_;
    RlsCall rls_call_;
    std::optional<RlsCharge> charge_;
};

}  // namespace

Task<> serve_envoy_grpc(void* self, client::Stream& client) {
    EnvoyGrpcFace& face = *static_cast<EnvoyGrpcFace*>(self);
    std::unique_ptr<Exchange> exchange = face.worker.exchanges.take();
    Exchange& x = *exchange;
    x.client = &client;
    x.face = Face::envoy_grpc;
    proxy::begin(face.worker, x);
    EnvoyGrpcServing serving(face, x);
    if (x.decision.goes_on()) proxy::check_framing(x);
    if (x.decision.goes_on()) co_await serving.run();
    co_await serving.answer();
    proxy::finish(face.worker, std::move(exchange));
}

}  // namespace tidegate::faces

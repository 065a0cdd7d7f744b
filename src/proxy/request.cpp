#include "proxy/request.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "ask/request_checks.hpp"
#include "http/forwarding_fields.hpp"
#include "http/grpc.hpp"
#include "proxy/answer_cost.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/forward.hpp"
#include "proxy/record.hpp"
#include "proxy/request_trace.hpp"
#include "proxy/tunnel.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using client::Stream;
using std::chrono::milliseconds;

// The connection reads over a refused request's body up to this size, to go on with the next one.
constexpr std::uint64_t kDiscardedMax = 65'536;

// Answers the engine whether the client has left. If not, the request wakes when it leaves.
bool has_left(void* exchange) {
    Stream& client = *static_cast<Exchange*>(exchange)->client;
    return client.has_left(client.sleeper().wakeup());
}

// The status of an answer that the proxy makes, with the status that a caller of gRPC would get,
// for limits that count statuses of gRPC.
limit::AnswerStatus own_status(const Relay& relay) {
    if (relay.status == 0) return {};
    return {relay.status, static_cast<int>(http::grpc_status_of(relay.status))};
}

limit::AnswerStatus upstream_status(const Relay& relay) {
    return {relay.upstream_status, relay.upstream_grpc_status};
}

// Once the request was forwarded, only a status of the upstream gives units back: an upstream that
// has not answered may have acted, whatever answer the client got. It may also still be at work
// though the client has left: until its answer is whole, slots of concurrency are kept for a while.
void settle(ask::Engine& engine, Exchange& x) {
    constexpr int kNoAnswer = 0;
    const milliseconds hold = x.config().timeouts.hold_aborted;
    switch (x.relay.reached) {
        case Reached::nothing:
            return engine.settle(x.decision, own_status(x.relay));
        case Reached::upstream:
            return engine.settle(x.decision, kNoAnswer, hold);
        case Reached::answer:
            return engine.settle(x.decision, upstream_status(x.relay), hold);
        case Reached::end:
            return engine.settle(x.decision, upstream_status(x.relay));
    }
}

void end_answer(Exchange& x, const FaultAnswer& answer, IoStatus status) {
    if (status == IoStatus::ok) {
        x.relay.bytes_sent = answer.content().size();
    } else {
        x.client->close_after_answer();
    }
}

// The next two are functions of their own: in serve(), its frame would keep room for their answers
// for as long as a tunnel lasts.

// Answers an OPTIONS that goes no further. Only the upstream knows what it can do.
Task<> send_final_recipient_answer(const WorkerContext& worker, Exchange& x) {
    FaultAnswer answer;
    answer.status = 200;
    answer.content_type = {};
    return send_answer(worker, x, std::move(answer));
}

// Sends the refusal in the form that the client reads.
Task<> send_refusal(const WorkerContext& worker, Exchange& x) {
    return send_answer(worker, x,
                       x.relay.is_grpc ? make_grpc_fault_answer(x) : make_fault_answer(x));
}

}  // namespace

void begin(WorkerContext& worker, Exchange& x) {
    Stream& client = *x.client;
    x.generation = worker.generation;
    std::swap(x.facts.head, client.head());
    worker.request_ids.next(x.facts.request_id);
    x.facts.peer = client.peer();
    x.facts.local_port = client.local_port();
    x.facts.port_is_published = client.port_is_published();
    x.facts.scheme = client.scheme();
    x.facts.is_http2 = client.is_http2();
    x.facts.protocol = client.protocol();
    x.facts.certificate = client.certificate();
    x.facts.began_at = client.began_at();
    if (x.facts.is_http2 && x.face == Face::proxy) {
        x.relay.is_grpc = http::is_grpc_call(x.facts.head);
    }
    x.relay.began = client.began();
    if (x.generation->traces) begin_trace(worker, x);
    if (!client.peer().is_gateway) x.decision.client = client.peer().address;  // until identify()
    switch (client.head_state()) {
        case Stream::Head::complete:
            return;
        case Stream::Head::broken:
            return x.decision.refuse(ask::fault_of(client.head_fault()),
                                     http::describe(client.head_fault()));
        case Stream::Head::timeout:
            return x.decision.refuse(Fault::head_timeout);
        case Stream::Head::left:
            return x.decision.refuse(Fault::client_left);
    }
}

void check_framing(Exchange& x) {
    ask::check_framing(x.facts, x.client->framing(), x.decision);
    x.client->begin_body();
    // In HTTP/2 a stream that goes on has a body, whatever its fields say.
    x.facts.has_body = !x.client->is_body_done();
    // A face's 200 would mean to the client that its tunnel is open.
    if (x.decision.goes_on() && !x.facts.protocol.empty() && x.face != Face::proxy) {
        x.decision.refuse(Fault::unsupported_method, "This listener opens no WebSockets.");
    }
}

ask::Question question_of(Exchange& x) {
    ask::Question question{*x.generation, x.facts, x.decision, x.client->sleeper().wakeup(),
                           &has_left,     &x};
    question.can_read_body = x.face == Face::proxy;
    return question;
}

bool begin_answer(const WorkerContext& worker, Exchange& x, const FaultAnswer& answer) {
    const bool closes = ask::traits(x.decision.fault).close;
    Stream& client = *x.client;
    // A client that waits for 100 Continue may or may not send the body now: only a new connection
    // is sure to begin with a request.
    const bool body_is_small = client.is_body_done() || (!client.framing().expects_continue &&
                                                         client.body_left() <= kDiscardedMax);
    client.keep_alive_if(!closes && body_is_small);
    x.relay.status = answer.status;
    if (answer.grpc) x.relay.grpc_status = static_cast<int>(*answer.grpc);
    write_fault_head(x, answer, worker.date.line());
    const IoStatus status = client.send_all(answer.content());
    if (status == IoStatus::would_block) return false;
    end_answer(x, answer, status);
    return true;
}

Task<> finish_answer(Exchange& x, const FaultAnswer& answer) {
    const IoStatus status = co_await x.client->send_rest(x.config().timeouts.client_write);
    end_answer(x, answer, status);
}

Task<> send_answer(const WorkerContext& worker, Exchange& x, FaultAnswer answer) {
    if (!begin_answer(worker, x, answer)) co_await finish_answer(x, answer);
}

void finish(WorkerContext& worker, std::unique_ptr<Exchange> exchange) {
    Exchange& x = *exchange;
    ask::Decision& decision = x.decision;
    if (x.answer_cost != nullptr) x.answer_cost->settle(worker, x);
    if (decision.charge.needs_settling) settle(worker.engine, x);
    if (x.client->is_cut_off() && decision.fault == Fault::client_left) {
        decision.fault = Fault::stopped;
    }
    if (!decision.goes_on() && ask::traits(decision.fault).status == 0) {
        // A reset could destroy answers to requests before this one that the client has not read.
        const bool has_left = decision.fault == Fault::client_left && x.relay.status == 0;
        has_left ? x.client->close_after_answer() : x.client->break_off();
    }
    record(worker, x);
    worker.exchanges.give(std::move(exchange));
}

// The map of a request: every one that had a head goes this way, and record() runs at its end.
Task<> serve(void* worker_context, client::Stream& client) {
    WorkerContext& worker = *static_cast<WorkerContext*>(worker_context);
    std::unique_ptr<Exchange> exchange = worker.exchanges.take();
    Exchange& x = *exchange;
    ask::Decision& decision = x.decision;
    x.client = &client;
    begin(worker, x);
    if (decision.goes_on()) check_framing(x);
    const ask::Question question = question_of(x);
    if (decision.goes_on() && !worker.engine.begin(question)) {
        co_await worker.engine.finish(question);
    }
    if (decision.awaits_body && decision.goes_on()) {
        co_await decide_with_body(worker, x, question);
    }
    if (decision.route != nullptr) adopt_request_id(x.facts);
    if (decision.goes_on()) {
        if (http::max_forwards(x.facts.head) == 0U) {
            co_await send_final_recipient_answer(worker, x);
        } else {
            if (decision.route->settles_costs && decision.charge.needs_settling) {
                x.answer_cost = std::make_unique<AnswerCost>(x);
            }
            co_await forward(worker, x);
        }
    }
    if (x.tunnel) decision.fault = co_await run_tunnel(worker, x);
    if (!decision.goes_on() && x.relay.status == 0 && ask::traits(decision.fault).status != 0) {
        co_await send_refusal(worker, x);
    }
    finish(worker, std::move(exchange));
}

}  // namespace tidegate::proxy

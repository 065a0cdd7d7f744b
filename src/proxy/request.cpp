#include "proxy/request.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "ask/request_checks.hpp"
#include "base/text.hpp"
#include "http/field.hpp"
#include "http/forwarding_fields.hpp"
#include "http/framing.hpp"
#include "http/grpc.hpp"
#include "proxy/answer_cost.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/forward.hpp"
#include "proxy/heads.hpp"
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

// Also of a request that was charged and is not sent, such as that of a client that left its line.
bool may_settle_costs(const ask::Decision& decision) {
    return decision.charge.needs_settling && decision.route->settles_costs &&
           (decision.goes_on() || decision.charge.result == store::LimitDecision::Result::admitted);
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
    if (may_settle_costs(decision)) x.answer_cost = std::make_unique<AnswerCost>(x);
    if (decision.goes_on()) {
        if (http::max_forwards(x.facts.head) == 0U) {
            co_await send_final_recipient_answer(worker, x);
        } else {
            co_await forward(worker, x);
        }
    }
    if (x.tunnel) decision.fault = co_await run_tunnel(worker, x);
    if (!decision.goes_on() && x.relay.status == 0 && ask::traits(decision.fault).status != 0) {
        co_await send_refusal(worker, x);
    }
    finish(worker, std::move(exchange));
}

// The proxy reads bodies that policies need before it decides their requests (`inspect_body`).
namespace {

// For a client that waits for it.
Task<Fault> grant_continue(Exchange& x) {
    Stream& client = *x.client;
    if (!client.takes_interim()) co_return Fault::none;
    client.begin_head(100, "Continue");
    IoStatus status = client.send_interim();
    if (status == IoStatus::would_block) {
        status = co_await client.send_rest(x.config().timeouts.client_write);
    }
    co_return status == IoStatus::ok ? Fault::none : Fault::client_left;
}

// Sleeps until more of the body has come.
Task<Fault> more_of_body(Stream& client, BodyWait& wait) {
    Sleeper& sleeper = client.sleeper();
    for (;;) {
        switch (client.read_body(sleeper.wakeup())) {
            case client::BodyInput::more:
                co_return Fault::none;
            case client::BodyInput::too_long:
                co_return Fault::bad_body;
            case client::BodyInput::left:
                co_return Fault::client_left;
            case client::BodyInput::nothing:
                break;
        }
        if (!wait.go_on(sleeper)) co_return Fault::body_timeout;
        co_await sleeper.sleep();
    }
}

// What becomes of a body after a part of it.
struct Taken {
    Fault fault = Fault::none;
    bool is_enough = false;  // the rest stays where it is
};

// Hands what has come of the body to `take`, part by part, until the body ends or that is enough.
// `take` gets a http::BodyBatch, whose bytes live through the call, and returns a Taken. False:
// more has to come.
template <class Take>
bool take_what_has_come(Exchange& x, Take& take, Taken& taken) {
    Stream& client = *x.client;
    const auto& bounds = x.config().limits_on_requests;
    while (taken.fault == Fault::none && !taken.is_enough && !client.is_body_done()) {
        const http::BodyBatch batch = client.take_body({bounds.header_bytes, bounds.headers});
        x.relay.bytes_received += batch.content_bytes;
        taken = take(batch);
        if (batch.bad) taken.fault = Fault::bad_body;
        const bool needs_more = batch.count == 0 && !batch.done;
        client.drop_body(batch);
        if (taken.fault == Fault::none && needs_more) return false;
    }
    return true;
}

// The same, and waits for what has to come.
template <class Take>
Task<Fault> receive_body(Exchange& x, Take& take) {
    Stream& client = *x.client;
    if (client.framing().expects_continue) {
        const Fault refused = co_await grant_continue(x);
        if (refused != Fault::none) co_return refused;
    }
    BodyWait wait(x, x.upstream->body_transfer);
    Taken taken;
    while (!take_what_has_come(x, take, taken)) {
        taken.fault = co_await more_of_body(client, wait);
        wait.end();
    }
    client.sleeper().allow_forever();
    client.forget_wakeup();
    co_return taken.fault;
}

// Reads up to the route's `inspect_body` into the exchange's held body.
Task<Fault> hold_body(WorkerContext& worker, Exchange& x, ask::InspectedBody& body) {
    Stream& client = *x.client;
    UpstreamSide& side = *x.upstream;
    const config::Route& route = *x.decision.route;
    const Fault too_large = route.needs_whole_body ? Fault::body_too_large : Fault::none;
    if (client.body_announced() > route.body_bytes) co_return Fault::body_too_large;
    if (client.body_announced() > route.inspected_bytes) co_return too_large;
    const IpAddress holder =
        x.decision.client ? x.config().client_ip.prefixes.widest(*x.decision.client) : IpAddress();
    side.is_inspected = true;
    const auto take = [&](const http::BodyBatch& batch) {
        if (!side.inspected_share.take(worker.held_bodies, holder, batch.content_bytes)) {
            return Taken{Fault::bodies_full};
        }
        for (const std::string_view piece : batch.view()) side.held_body.append(piece);
        if (batch.done) {
            filter_request_trailers(x, client.trailers());
            http::keep_in(side.held_trailers, client.trailers());
        }
        if (side.held_body.size() > route.body_bytes) return Taken{Fault::body_too_large};
        return Taken{Fault::none, side.held_body.size() > route.inspected_bytes};
    };
    // Most bodies come with their heads.
    Taken taken;
    const bool waits = client.framing().expects_continue || !take_what_has_come(x, take, taken);
    const Fault fault = waits ? co_await receive_body(x, take) : taken.fault;
    if (fault != Fault::none) co_return fault;
    body.is_whole = client.is_body_done() && side.held_body.size() <= route.inspected_bytes;
    co_return body.is_whole ? Fault::none : too_large;
}

}  // namespace

Task<Fault> read_body(Exchange& x, std::uint64_t bytes_max, std::string* out) {
    Stream& client = *x.client;
    if (client.is_body_done()) co_return Fault::none;
    if (client.body_announced() > bytes_max) co_return Fault::body_too_large;
    const auto take = [&](const http::BodyBatch& batch) {
        if (x.relay.bytes_received > bytes_max) return Taken{Fault::body_too_large};
        if (out != nullptr && !batch.bad) {
            for (const std::string_view piece : batch.view()) out->append(piece);
        }
        return Taken{};
    };
    co_return co_await receive_body(x, take);
}

bool is_form(const http::Fields& fields) {
    constexpr std::string_view kForm = "application/x-www-form-urlencoded";
    const std::string_view type = http::single_value(fields, "content-type");
    // Most other types are shorter.
    if (type.size() < kForm.size()) return false;
    // PHP ends it at any of these.
    return http::equal_ignoring_case(type.substr(0, type.find_first_of("; ,\t")), kForm);
}

bool is_in_utf8(const http::Fields& fields) {
    static constexpr std::string_view kName = "charset";
    constexpr std::array<std::string_view, 4> kSame{"utf-8", "utf8", "us-ascii", "ascii"};
    if (http::is_unclear_in_fields(fields, "content-type")) return false;
    // Some servers find the name at any place, such as in a quoted text.
    const std::string_view type = http::single_value(fields, "content-type");
    const auto find_name = [](std::string_view text) {
        return std::search(text.begin(), text.end(), kName.begin(), kName.end(),
                           [](char a, char b) { return to_lower(a) == b; });
    };
    const auto* const found = find_name(type);
    if (found == type.end()) return true;
    const auto at = static_cast<std::size_t>(found - type.begin());
    std::string_view value = type.substr(at + kName.size());
    if (!trimmed(type.substr(0, at)).ends_with(';') || !value.starts_with('=')) return false;
    if (find_name(value) != value.end()) return false;  // twice
    value = trimmed(value.substr(1, value.find(';') - 1));
    const bool is_quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    if (is_quoted) value = value.substr(1, value.size() - 2);
    return std::any_of(kSame.begin(), kSame.end(), [&](std::string_view charset) {
        return http::equal_ignoring_case(value, charset);
    });
}

bool is_coded(const http::Fields& fields) {
    return std::any_of(fields.begin(), fields.end(), [](const http::Field& field) {
        if (!http::equal_ignoring_case(field.name, "content-encoding")) return false;
        std::string_view list = field.value;
        std::string_view coding;
        while (http::next_list_item(list, coding)) {
            // `none` is no coding, but keeps some proxies from buffering streams.
            if (!coding.empty() && !http::equal_ignoring_case(coding, "identity") &&
                !http::equal_ignoring_case(coding, "none")) {
                return true;
            }
        }
        return false;
    });
}

Task<> decide_with_body(WorkerContext& worker, Exchange& x, const ask::Question& question) {
    ask::Decision& decision = x.decision;
    if (x.inspected == nullptr) x.inspected = std::make_unique<ask::InspectedBody>();
    ask::InspectedBody& body = *x.inspected;
    body.reset();
    const bool has_body = !x.client->is_body_done();
    const bool is_readable = !has_body || !is_coded(x.facts.head.fields);
    if (!is_readable && decision.route->refuses_coded_body) {
        co_return decision.refuse(Fault::coded_body);
    }
    const bool is_utf8 = !has_body || is_in_utf8(x.facts.head.fields);
    if (!is_utf8 && decision.route->needs_whole_body) {
        co_return decision.refuse(Fault::coded_body, kOtherCharset);
    }
    // A client without room under the limits of its address need not send the body.
    if (has_body && !x.client->has_whole_body()) {
        co_await worker.engine.look_at_address(question);
        if (!decision.goes_on()) co_return;
    }
    body.is_whole = !has_body;
    if (has_body && is_readable) {
        const Fault fault = co_await hold_body(worker, x, body);
        if (fault != Fault::none) co_return decision.refuse(fault);
    }
    if (body.is_whole) {
        body.text = x.upstream->held_body;
        body.bytes = body.text.size();
        body.is_form = is_utf8 && is_form(x.facts.head.fields);
        // The server may read another text than the bytes are in UTF-8.
        if (!body.text.empty() && is_utf8) {
            x.config().body_reader->read(body.text, x.facts.head.path, body.json);
        }
    }
    x.facts.body = &body;
    if (!worker.engine.go_on(question)) co_await worker.engine.finish_charge(question);
    body.json.forget_members();  // were the keys; the answer may take minutes
}

}  // namespace tidegate::proxy

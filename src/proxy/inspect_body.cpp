// The proxy reads bodies that policies need before it decides their requests (`inspect_body`).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "proxy/heads.hpp"
#include "proxy/request.hpp"

namespace tidegate::proxy {

namespace {

using ask::Fault;
using client::Stream;

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

// Sleeps until more of the body has come. The time of the sleeper, `request_body`, begins again for
// a client that has no room to send, until `last`.
Task<Fault> more_of_body(Stream& client, std::chrono::milliseconds patience, SteadyTime last) {
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
        if (sleeper.expired()) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(last - steady_now());
            if (!client.lacks_room() || left.count() <= 0) co_return Fault::body_timeout;
            sleeper.allow(std::min(patience, left));
        }
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
    const config::Timeouts& timeouts = x.config().timeouts;
    const bool is_bounded = timeouts.request_body_total.count() > 0;
    const SteadyTime last =
        is_bounded ? steady_now() + timeouts.request_body_total : SteadyTime::max();
    client.sleeper().allow(timeouts.request_body);
    Taken taken;
    while (!take_what_has_come(x, take, taken)) {
        taken.fault = co_await more_of_body(client, timeouts.request_body, last);
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
    return http::equal_ignoring_case(trimmed(type.substr(0, type.find(';'))), kForm);
}

bool is_coded(const http::Fields& fields) {
    return std::any_of(fields.begin(), fields.end(), [](const http::Field& field) {
        if (!http::equal_ignoring_case(field.name, "content-encoding")) return false;
        std::string_view list = field.value;
        std::string_view coding;
        while (http::next_list_item(list, coding)) {
            if (!coding.empty() && !http::equal_ignoring_case(coding, "identity")) return true;
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
        body.is_form = is_form(x.facts.head.fields);
        if (!body.text.empty()) {
            x.config().body_reader->read(body.text, x.facts.head.path, body.json);
        }
    }
    x.facts.body = &body;
    if (!worker.engine.go_on(question)) co_await worker.engine.finish_charge(question);
    body.json.forget_members();  // were the keys; the answer may take minutes
}

}  // namespace tidegate::proxy

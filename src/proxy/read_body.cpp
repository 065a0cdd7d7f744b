#include "proxy/read_body.hpp"

#include <algorithm>
#include <chrono>

namespace tidegate::proxy {

namespace {

using ask::Fault;
using client::Stream;

Task<Fault> grant_continue(Exchange& x) {
    Stream& client = *x.client;
    if (!client.framing().expects_continue || !client.takes_interim()) co_return Fault::none;
    client.begin_head(100, "Continue");
    IoStatus status = client.send_interim();
    if (status == IoStatus::would_block) {
        status = co_await client.send_rest(x.config().timeouts.client_write);
    }
    co_return status == IoStatus::ok ? Fault::none : Fault::client_left;
}

// Sleeps until there is more. The time of the sleeper, `request_body`, begins again for a client
// that has no room to send, until `last`.
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

}  // namespace

Task<Fault> read_body(Exchange& x, std::uint64_t bytes_max, std::string* out) {
    Stream& client = *x.client;
    if (client.is_body_done()) co_return Fault::none;
    if (client.body_announced() > bytes_max) co_return Fault::body_too_large;
    const Fault refused = co_await grant_continue(x);
    if (refused != Fault::none) co_return refused;
    const auto& bounds = x.config().limits_on_requests;
    const config::Timeouts& timeouts = x.config().timeouts;
    const bool is_bounded = timeouts.request_body_total.count() > 0;
    const SteadyTime last =
        is_bounded ? steady_now() + timeouts.request_body_total : SteadyTime::max();
    client.sleeper().allow(timeouts.request_body);
    Fault fault = Fault::none;
    while (fault == Fault::none && !client.is_body_done()) {
        const http::BodyBatch batch = client.take_body({bounds.header_bytes, bounds.headers});
        x.relay.bytes_received += batch.content_bytes;
        if (batch.bad) fault = Fault::bad_body;
        if (x.relay.bytes_received > bytes_max) fault = Fault::body_too_large;
        if (out != nullptr && fault == Fault::none) {
            for (const std::string_view piece : batch.view()) out->append(piece);
        }
        const bool needs_more = batch.count == 0 && !batch.done;
        client.drop_body(batch);
        if (fault == Fault::none && needs_more) {
            fault = co_await more_of_body(client, timeouts.request_body, last);
        }
    }
    client.sleeper().allow_forever();
    client.forget_wakeup();
    co_return fault;
}

}  // namespace tidegate::proxy

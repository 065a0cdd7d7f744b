// `redirect`: a listener in the clear sends its clients to https.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "faces/faces.hpp"
#include "http/field.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/request.hpp"

namespace tidegate::faces {

namespace {

using ask::Fault;
using proxy::Exchange;
using proxy::FaultAnswer;

constexpr std::uint16_t kHttpsPort = 443;

std::string_view without_port(std::string_view host) {
    const std::size_t literal_end = host.front() == '[' ? host.find(']') : 0;
    return host.substr(0, host.find(':', literal_end));
}

// Clients turn any method but GET and HEAD into GET behind a 301 (RFC 9110 section 15.4.2), and old
// ones do not know 308.
int redirect_status(std::string_view method) {
    constexpr int kMovedPermanently = 301;
    constexpr int kPermanentRedirect = 308;
    return method == "GET" || method == "HEAD" ? kMovedPermanently : kPermanentRedirect;
}

FaultAnswer redirect_answer(const RedirectFace& redirect, const Exchange& x) {
    FaultAnswer answer;
    answer.status = redirect_status(x.facts.head.method);
    answer.content_type = {};
    http::append_field("Location",
                       https_location(x.facts.host, redirect.listen.redirect_port, x.facts.head),
                       answer.more_fields);
    return answer;
}

}  // namespace

std::string https_location(std::string_view host, std::uint16_t port,
                           const http::RequestHead& head) {
    std::string out("https://");
    out += without_port(host);
    if (port != kHttpsPort) {
        out += ':';
        append_number(port, out);
    }
    // `OPTIONS *` is about the server, whose URI has no path (RFC 9112 section 3.3).
    if (head.path == "*") return out;
    // Not the target as sent, which may name another scheme and host.
    return out.append(head.path).append(head.query);
}

Task<> serve_redirect(void* self, client::Stream& client) {
    const RedirectFace& redirect = *static_cast<RedirectFace*>(self);
    std::unique_ptr<Exchange> exchange = redirect.worker.exchanges.take();
    Exchange& x = *exchange;
    x.client = &client;
    proxy::begin(redirect.worker, x);
    if (x.decision.goes_on()) proxy::check_framing(x);
    if (x.decision.goes_on() && x.facts.host.empty()) {
        x.decision.refuse(Fault::bad_framing,
                          "The request names no host, so it cannot be sent to https.");
    }
    x.relay.is_redirect = x.decision.goes_on();
    // At once, whatever body is on its way: the client sends it again.
    if (x.decision.goes_on()) {
        co_await proxy::send_answer(redirect.worker, x, redirect_answer(redirect, x));
    } else if (ask::traits(x.decision.fault).status != 0) {
        co_await proxy::send_answer(redirect.worker, x, proxy::make_fault_answer(x));
    }
    proxy::finish(redirect.worker, std::move(exchange));
}

}  // namespace tidegate::faces

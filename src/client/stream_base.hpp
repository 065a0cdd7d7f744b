// StreamBase holds what streams of HTTP/1 and of HTTP/2 have alike: where a request came in, its
// head, how its body is framed. A request sees them as a Stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/framing.hpp"
#include "http/head.hpp"
#include "identity/client_ip.hpp"
#include "net/deadline.hpp"
#include "net/wakeup.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::client {

// How a client's connection came in.
struct Arrival {
    identity::Peer peer{};           // with a PROXY header: the client that it names
    std::uint16_t local_port = 0;    // that the peer connected to; 0: a Unix socket
    bool port_is_published = false;  // local_port is the balancer's, by a PROXY header
    bool is_https = false;           // the client spoke TLS, with us or with the balancer in front
    bool has_proxy_header = false;
    bool takes_http1 = true;   // the listener does
    bool takes_http2 = false;  // in the clear by prior knowledge
    // In HTTP/1, a client that has finished sending still waits for its answers. False: it has
    // left. A FIN does not tell which.
    bool half_close = false;
    // `Strict-Transport-Security: ...\r\n`, for each answer to a client that spoke TLS. Empty or
    // null: off. The listener owns it, and a reload may change it.
    const std::string* hsts_line = nullptr;
    // The certificate that the client has shown over TLS; null if it has shown none.
    std::shared_ptr<const ClientCertificate> certificate{};
};

// The outcome of an attempt to read more of a request's body.
enum class BodyInput : std::uint8_t {
    more,      // there is more to take
    nothing,   // the wakeup is woken when there may be more
    too_long,  // what came does not fit into the largest buffer
    left,      // the client has closed or reset, or the proxy has cut the connection off
};

class StreamBase {
  public:
    // Where the request came from, and where to.

    const identity::Peer& peer() const { return arrival_->peer; }
    std::uint16_t local_port() const { return arrival_->local_port; }
    // Clients connect to local_port() at a balancer in front.
    bool port_is_published() const { return arrival_->port_is_published; }
    const ClientCertificate* certificate() const { return arrival_->certificate.get(); }
    // Every answer says that the host is for https alone.
    bool sends_hsts() const {
        return arrival_->hsts_line != nullptr && arrival_->is_https &&
               !arrival_->hsts_line->empty();
    }
    std::string_view scheme() const { return arrival_->is_https ? "https" : "http"; }
    std::chrono::system_clock::time_point began_at() const { return began_at_; }
    SteadyTime began() const { return began_; }

    enum class Head : std::uint8_t {
        complete,
        broken,   // head_fault() says how
        timeout,  // it did not come to its end in time
        left,     // the client closed or reset inside it
    };
    Head head_state() const { return head_state_; }
    http::HeadFault head_fault() const { return head_fault_; }
    // The caller may take it by a swap. Its views stay until the request has ended.
    http::RequestHead& head() { return head_; }
    // To be filled in before begin_body().
    http::Framing& framing() { return framing_; }
    const http::Framing& framing() const { return framing_; }

    // The coroutine that serves the request sleeps here.
    Sleeper& sleeper() { return *sleeper_; }
    // The worker drains. When it begins to, it wakes sleeper().
    bool is_draining() const { return *is_draining_; }

  protected:
    // All outlive the request.
    void begin(const Arrival& arrival, Sleeper& sleeper, const bool& is_draining) {
        arrival_ = &arrival;
        sleeper_ = &sleeper;
        is_draining_ = &is_draining;
        began_at_ = std::chrono::system_clock::now();
        began_ = std::chrono::steady_clock::now();
    }
    const Arrival& arrival() const { return *arrival_; }

    http::RequestHead head_;
    http::Framing framing_;
    http::HeadFault head_fault_ = http::HeadFault::none;
    Head head_state_ = Head::complete;

  private:
    const Arrival* arrival_ = nullptr;
    Sleeper* sleeper_ = nullptr;
    const bool* is_draining_ = nullptr;
    std::chrono::system_clock::time_point began_at_;
    SteadyTime began_;
};

}  // namespace tidegate::client

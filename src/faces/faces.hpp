// Listeners serve these faces beside the proxy. A face is a struct for one listener of a worker,
// which outlives its connections as all that it names does, and a callback of
// client::ConnectionContext that gets this struct and serves one request. One thread.
//
// Gateways and Envoy never say how a request ended, so the faces give nothing back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/stream.hpp"
#include "config/config.hpp"
#include "faces/metrics.hpp"
#include "http/head.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"
#include "store/cross_slot_charge.hpp"
#include "store/reservation.hpp"

namespace tidegate::faces {

class RlsOverrides;

// The content of a reservation's id: what was taken and where.
struct SealedReservation {
    store::Reservation reservation;
    std::string process;  // that gave it
    std::string nonce;    // of this id alone, 32 hexadecimal digits
    std::chrono::system_clock::time_point expires;
};

// Makes and reads the ids of reservations: their holders can neither read nor change them, and no
// server has to remember them. AES-256-GCM under a key that is made of a secret. Immutable; any
// thread.
class IdSeal {
  public:
    // All processes with the same `secret` can open each other's ids.
    explicit IdSeal(std::string_view secret);

    // The id, in base64url. Draws the nonce. Throws std::runtime_error if OpenSSL cannot.
    std::string seal(SealedReservation& content) const;
    // Nothing: the id was not sealed with this secret, or it was changed.
    std::optional<SealedReservation> open(std::string_view id) const;

  private:
    std::string key_;
};

// Reservations of a process share these. Outlives the workers.
struct Reservations {
    IdSeal seal;
    std::string process;  // this one's name among those that share a store
    store::SettledIds settled{};
};

// The check API, in HTTP and JSON: a program asks whether it may go on, takes units before it knows
// what a piece of work will cost, and settles them when it does.
struct CheckFace {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    Reservations& reservations;
};
Task<> serve_check(void* face, client::Stream& client);

// A gateway asks whether it may forward a request, and passes the fields of the answer on. The
// answer is the decision of the engine, in the dialect of the gateway.
struct ForwardAuthFace {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    Metrics& metrics;
};
Task<> serve_forward_auth(void* face, client::Stream& client);

// Envoy asks by gRPC, through its rate limit service (ShouldRateLimit) or its external
// authorization (Check). The listener answers health checks of the service, too.
struct EnvoyGrpcFace {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
    std::shared_ptr<RlsOverrides> overrides{};  // of the configuration that was asked last
};
Task<> serve_envoy_grpc(void* face, client::Stream& client);

// `redirect: https`: a request in the clear is sent to the same place under https. No limit counts
// it, and nothing of it is forwarded; it is logged.
struct RedirectFace {
    proxy::WorkerContext& worker;
    const config::Listen& listen;
};
Task<> serve_redirect(void* redirect, client::Stream& client);

// The target URI of `head` (RFC 9110 section 7.1) with the scheme `https`, and with `port` in place
// of the one that `host` may end in; 443 is not written. `host` is the request's: a valid one, not
// empty.
std::string https_location(std::string_view host, std::uint16_t port,
                           const http::RequestHead& head);

// Calls `visit(name, value)` for each field of `identity.forward_as`, which name the user to a
// gateway's upstream. The value is empty where nothing is known.
template <class Visit>
void for_each_identity_field(const proxy::Exchange& exchange, Visit visit) {
    const config::ForwardAs& names = exchange.config().forward_as;
    const ask::Decision& decision = exchange.decision;
    if (!names.user.empty()) visit(names.user, decision.user.value_or(std::string_view()));
    if (!names.tier.empty()) visit(names.tier, decision.tier);
    if (names.client_ip.empty()) return;
    std::string address;
    if (decision.client) decision.client->append_to(address);
    visit(names.client_ip, address);
}

}  // namespace tidegate::faces

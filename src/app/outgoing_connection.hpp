// Connections that the process opens now and then, off the path of requests: to a server that has
// keys of tokens, to a collector of spans.
//
// Faults are clauses for an operator, without the name of the server and without anything that it
// wrote.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/socket_address.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "net/timed_socket.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::app {

using Endpoints = std::vector<StreamProtocol::endpoint>;

// The server has asked for a certificate of the client in TLS.
inline constexpr std::string_view kNoClientCertificate =
    "it asks for a client certificate, and Tidegate sends none";

// Never blocks the loop.
Task<Result<Endpoints, std::string>> look_up(Executor executor, config::Address address,
                                             SteadyTime until);

// Connects to the first endpoint that lets us; each gets an equal part of the time that is left, so
// that one which is silent does not use up all of it. Returns what was wrong with the last.
Task<error_code> connect_to_any(std::shared_ptr<TimedSocket> socket, Endpoints endpoints,
                                SteadyTime until);

// The handshake as a client: the server must prove that it is `host`, or has the name that
// `settings` want. Returns the fault; empty: none. Throws std::exception when the machine has no
// memory or OpenSSL cannot be set up.
Task<std::string> begin_tls(ByteStream& stream, std::string host, TlsSettings settings);

}  // namespace tidegate::app

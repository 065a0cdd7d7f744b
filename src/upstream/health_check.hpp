// One health check of a server: what it sends, and what the answer says about the server.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::upstream {

// Holds what follows the head of an answer in HTTP/1.
struct AnswerRest {
    http::Framing framing;
    std::string bytes;  // have come with the head
};

struct HealthAnswer {
    // False if this process had no socket left, which says nothing about the server.
    bool could_ask = true;
    std::string fault{};     // why the server is not healthy, a clause; empty: it is healthy
    int status = 0;          // of the answer; 0: none came, or the check only connects
    std::string location{};  // where a redirect leads to
    std::chrono::nanoseconds took{0};  // until the head of the answer, or the connection, was there
    // Whether the server had given up the kept connection before this check, which says nothing
    // about its health.
    bool is_stale = false;
    // Set if the connection is open: then read_rest() says whether it can take another check.
    std::optional<AnswerRest> rest{};
};

// Says what a check sends, and where. The references outlive the check.
struct HealthQuestion {
    const StreamProtocol::endpoint& endpoint;
    const std::string& authority;  // the server's own, for Host
    const config::HealthCheck& settings;
    const std::string& tls_host;     // empty: not encrypted
    const TlsClient* tls = nullptr;  // not null if encrypted
    bool is_http2 = false;
    bool keeps = false;                 // in HTTP/1: the server may keep the connection
    std::chrono::nanoseconds spent{0};  // of the time of the settings, before the check
};

// Connects, shakes hands and, to a server that speaks HTTP/2, waits until it has said so, within
// the time of the settings, which must only connect. Else it does what check_health() does.
Task<HealthAnswer> check_http2(std::shared_ptr<TimedSocket> socket, HealthQuestion question);

// Connects, shakes hands in TLS, sends, in the server's version of HTTP, the GET that the settings
// describe, and reads the head of the answer, all within the time of the settings. Of a call of
// gRPC it reads all of the answer. A head that breaks the rules which the answers to requests are
// held to is a fault. Closes the connection without the body, unless the answer has a `rest`.
// `socket` is not open yet, or is_quiet() holds for it: then the check uses its connection.
// Closing it ends the check.
Task<HealthAnswer> check_health(std::shared_ptr<TimedSocket> socket, HealthQuestion question);

// Whether the server has neither closed the connection that an earlier check has kept nor sent
// anything on it since.
bool is_quiet(TimedSocket& socket);

// The bound on the body of what a server's health service of gRPC (grpc.health.v1) answers, which
// is a few bytes long. A longer one is no such answer.
inline constexpr std::size_t kGrpcHealthBytesMax = 4'096;

// Why the server is not healthy, a clause; empty: it says SERVING. Pure. `head` is the final one of
// an answer that is whole, with `trailers` and the first bytes of its body, one more than
// kGrpcHealthBytesMax at least if it has more.
std::string fault_of_grpc_health(const http::ResponseHead& head, const http::Fields& trailers,
                                 std::string_view body);

// Reads what follows the head of an answer, as far as it is short, within what is left of the time
// of the check. True: the answer is whole, and nothing is behind it.
Task<bool> read_rest(TimedSocket& socket, AnswerRest rest);

}  // namespace tidegate::upstream

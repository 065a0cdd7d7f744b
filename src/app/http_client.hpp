// What the process asks servers now and then, off the path of requests: keys of tokens, with one
// GET, and a collector of spans, with POST over a connection that is kept.
//
// Faults are clauses for an operator, without the name of the server and without anything that it
// wrote.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/address.hpp"
#include "config/socket_address.hpp"
#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
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

// One GET of a URL with keys, over TLS, for what is fetched now and then, off the way of requests.
struct HttpsBounds {
    // For everything: looking up the name, connecting, the handshake, the whole answer.
    std::chrono::milliseconds patience{5'000};
    std::size_t body_bytes_max = std::size_t{1} << 20;
};

struct HttpsBody {
    std::string text;
    // Of the server's own certificate; none: there was no TLS.
    std::optional<std::chrono::system_clock::time_point> certificate_until;
};

// The body of a 200; or why there is none: a clause for an operator, without the URL and without
// anything the server wrote. Redirects are not followed.
//
// The server must prove that it is `url`'s host by a certificate that goes back to one of the
// authorities of `ca`, as PEM, in TLS 1.2 or later. Empty: to one of the system's (SSL_CERT_FILE
// and SSL_CERT_DIR replace them), which are read anew each time. A URL without TLS is asked on this
// machine only: at the loopback addresses that its host resolves to. Never blocks the loop on a
// socket or a name. Throws std::exception only when the machine has no memory or OpenSSL cannot be
// set up.
Task<Result<HttpsBody, std::string>> https_get(Executor executor, config::HttpsUrl url,
                                               HttpsBounds bounds, std::string accept,
                                               std::string ca = {});

// Posts batches of spans to a collector, over one connection that is kept. One event loop.
class CollectorClient {
  public:
    struct Answer {
        int status = 0;        // 0: there was none
        std::string fault{};   // why there was none: a clause for an operator
        bool is_late = false;  // the collector had the request, or may have had it
        std::optional<std::chrono::seconds> retry_after{};
        std::string body{};

        // The collector took what it was sent.
        bool is_success() const { return status >= 200 && status <= 299; }
    };

    // `header_lines` are whole lines. `tls` is for a URL with https: the collector must prove that
    // it is `tls.server_name`, or the URL's host if that is empty.
    CollectorClient(Executor executor, config::HttpsUrl url, TlsSettings tls,
                    const std::string& header_lines);

    // Ends by `until`. The caller keeps `json` as it is meanwhile.
    Task<Answer> post(const std::string& json, SteadyTime until);
    void close();

  private:
    Task<std::string> open(SteadyTime until);
    Task<Answer> exchange(const std::string& json);

    Executor executor_;
    config::HttpsUrl url_;
    TlsSettings tls_;
    std::string head_;                     // up to the number of Content-Length
    std::shared_ptr<TimedSocket> socket_;  // null, or closed: the next batch opens one
};

}  // namespace tidegate::app

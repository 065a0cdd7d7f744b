// Calls in HTTP/1 to servers that Tidegate asks now and then, off the path of requests: for keys of
// tokens, to give spans to a collector, and from the command line to the admin listener. One event
// loop.
//
// Faults are clauses for an operator, without the name of the server and without anything that it
// wrote.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/address.hpp"
#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::app {

struct HttpCall {
    std::string_view head;    // with the empty line
    std::string_view body{};  // as long as `head` says
    // The end of everything: looking up the name, connecting, the handshake, the whole answer.
    SteadyTime until;
    std::size_t body_bytes_max = std::size_t{64} << 10;  // of the answer
    int body_of = 0;           // the status of the answers whose body is read; 0: any
    std::string_view field{};  // the name of a field that the caller wants to see
};

struct HttpAnswer {
    // Names the step that failed, in the order of the steps.
    enum class Fault : std::uint8_t { none, look_up, connect, handshake, send, read, too_long };

    Fault fault = Fault::none;
    std::string reason{};  // of the fault
    bool is_late = false;  // the time of the call was over
    int status = 0;        // 0: no head of an answer came
    std::optional<std::chrono::seconds> retry_after{};
    std::string field{};  // the value of HttpCall::field; empty: the head does not have it once
    std::string body{};

    bool is_success() const { return status >= 200 && status <= 299; }
    // The server had the request, or may have had it, when the time was over.
    bool may_have_been_taken() const { return is_late && fault >= Fault::send; }
    // The fault as a clause. `what` was to be sent.
    std::string fault_text(std::string_view what = "the request") const;
};

// Calls one server, over a connection that it keeps for the next call if the answer lets it.
class HttpClient {
  public:
    struct Server {
        config::Address address;
        // The server must prove that it is the host of `address`, or has the name that the settings
        // want, by a certificate of one of their authorities. Nothing: in the clear.
        std::optional<TlsSettings> tls{};
        // Only at addresses of this machine, whatever the name of the host is.
        bool is_on_this_machine = false;
    };

    HttpClient(Executor executor, Server server);

    // Never blocks the loop on a socket or a name. What `call` refers to, and this, outlive the
    // call. Throws std::exception only when the machine has no memory or OpenSSL cannot be set up.
    Task<HttpAnswer> call(HttpCall call);
    // When the certificate is valid that the server has shown; nothing: it was asked in the clear.
    std::optional<Validity> certificate_validity() const;
    void close();

  private:
    // The answer has a fault, or the connection is open.
    Task<HttpAnswer> open(SteadyTime until);
    static Task<HttpAnswer> exchange(TimedSocket& socket, HttpCall call, bool& is_kept);

    Executor executor_;
    Server server_;
    std::shared_ptr<TimedSocket> socket_;  // null, or closed: the next call opens one
};

// One GET of a URL with keys.
struct HttpsBounds {
    std::chrono::milliseconds patience{5'000};  // for everything
    std::size_t body_bytes_max = std::size_t{1} << 20;
};

struct HttpsBody {
    std::string text;
    // Says when the server's own certificate is valid; nothing: there was no TLS.
    std::optional<Validity> certificate;
};

// The body of a 200; or why there is none. Redirects are not followed.
//
// The server must prove that it is `url`'s host by a certificate that goes back to one of the
// authorities of `ca`, as PEM, in TLS 1.2 or later. Empty: to one of the system's (SSL_CERT_FILE
// and SSL_CERT_DIR replace them), which are read anew each time. A URL without TLS is asked on this
// machine only: at the loopback addresses that its host resolves to. Throws as HttpClient does.
Task<Result<HttpsBody, std::string>> https_get(Executor executor, config::HttpsUrl url,
                                               HttpsBounds bounds, std::string accept,
                                               std::string ca = {});

// Posts batches of spans to a collector, over one connection that is kept.
class CollectorClient {
  public:
    // `header_lines` are whole lines. `tls` is for a URL with https.
    CollectorClient(Executor executor, const config::HttpsUrl& url, TlsSettings tls,
                    const std::string& header_lines);

    // Ends by `until`. The caller keeps `json` as it is meanwhile.
    Task<HttpAnswer> post(const std::string& json, SteadyTime until);
    void close() { client_.close(); }

  private:
    HttpClient client_;
    std::string head_;  // up to the number of Content-Length
};

}  // namespace tidegate::app

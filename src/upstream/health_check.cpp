#include "upstream/health_check.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "base/units.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "net/tls_fault.hpp"
#include "upstream/health_check_http1.hpp"
#include "upstream/health_check_http2.hpp"

namespace tidegate::upstream {

namespace {

// This process or machine lacks descriptors or memory, which says nothing about a server.
bool is_want_of_ours(error_code ec) {
    namespace errc = boost::system::errc;
    return ec == errc::too_many_files_open || ec == errc::too_many_files_open_in_system ||
           ec == errc::no_buffer_space || ec == errc::not_enough_memory;
}

// Why the server does not accept TLS, or Tidegate the server; empty: both do.
Task<std::string> shake_hands(ByteStream& stream, const HealthQuestion& question) {
    using Offer = TlsClient::Offer;
    TlsPtr tls = question.tls->connection_to(question.tls_host, nullptr,
                                             question.is_http2 ? Offer::http2 : Offer::nothing);
    if (tls == nullptr) co_return "its host name is not valid in TLS";
    stream.begin_tls(std::move(tls));
    const error_code ec = co_await stream.shake_hands();
    if (question.is_http2 && (!ec ? !speaks_http2(stream.tls())
                                  : refuses_protocol(static_cast<unsigned long>(ec.value())))) {
        co_return "it does not offer HTTP/2 (ALPN h2)";
    }
    if (!ec) co_return std::string();
    co_return stream.socket().is_open() ? tls_fault(stream.tls(), ec, false).message
                                        : "it does not end the TLS handshake in time";
}

struct Asked {
    error_code ec;
    bool has_spoken = false;
    bool is_bad = false;
    bool has_answer = false;
};

Task<Asked> ask_server(TimedSocket& socket, const HealthQuestion& question, HealthAnswer& answer) {
    if (!question.is_http2) {
        const Http1Asked asked = co_await ask_over_http1(socket, question, answer);
        co_return Asked{asked.ec, asked.has_spoken, asked.is_bad, asked.has_answer};
    }
    const Http2Asked asked = co_await ask_over_http2(socket, question, answer);
    const bool is_whole = question.settings.only_connects() ? asked.has_settings : asked.has_answer;
    co_return Asked{asked.ec, asked.has_spoken, asked.is_bad, is_whole};
}

std::string too_late(std::string_view what, const HealthQuestion& question) {
    return std::string(what) + " within " + format_duration(question.settings.timeout);
}

// Where the settings ask nothing, `connects_only`, there is no handshake. Fills in the fault if
// there is one.
Task<> connect_to_check(TimedSocket& socket, const HealthQuestion& question, bool connects_only,
                        HealthAnswer& answer) {
    const error_code ec = co_await socket.connect(question.endpoint);
    // Its time may have ended in the same turn of the loop, and the socket with it.
    if (!socket.socket().is_open()) {
        answer.fault = too_late("it accepts no connection", question);
    } else if (ec) {
        answer.fault = "cannot connect: " + ec.message();
    } else if (!connects_only && !question.tls_host.empty()) {
        answer.fault = co_await shake_hands(socket, question);
    }
}

// Why the server did not answer.
std::string fault_without_answer(const TimedSocket& socket, const HealthQuestion& question,
                                 const Asked& asked, bool is_late) {
    if (asked.is_bad) {
        return question.is_http2 ? "its answer is not HTTP/2" : "its answer is not HTTP";
    }
    if (is_late) return too_late("it does not answer", question);
    if (socket.tls() != nullptr) {
        // In TLS 1.3, a server may refuse the client's certificate after the handshake.
        const TlsFault fault = tls_fault(socket.tls(), asked.ec, asked.has_spoken);
        if (fault.refused) return fault.message;
    }
    return "it closes without an answer";
}

bool is_expected(const HealthAnswer& answer, const config::HealthCheck& settings) {
    return settings.path.empty() || std::any_of(settings.status.begin(), settings.status.end(),
                                                [&](const config::StatusRange& range) {
                                                    return range.contains(answer.status);
                                                });
}

Task<> ask_on_connection(TimedSocket& socket, const HealthQuestion& question, bool is_kept,
                         HealthAnswer& answer) {
    // RFC 9110 section 15.5.9: what a server may say to a connection that it ends for being unused.
    constexpr int kRequestTimeout = 408;
    const Asked asked = co_await ask_server(socket, question, answer);
    const bool is_late = !socket.socket().is_open();
    answer.is_stale =
        is_kept && !is_late && (!asked.has_spoken || answer.status == kRequestTimeout);
    if (!asked.has_answer) {
        answer.fault = fault_without_answer(socket, question, asked, is_late);
    } else if (!is_expected(answer, question.settings)) {
        answer.fault = "it answers " + std::to_string(answer.status);
    }
}

// `connects_only`: if the settings state no request, none is sent.
Task<HealthAnswer> run_check(std::shared_ptr<TimedSocket> socket, HealthQuestion question,
                             bool connects_only) {
    const SteadyTime began = steady_now();
    const bool is_kept = socket->socket().is_open();
    HealthAnswer answer;
    if (!is_kept) {
        error_code no_socket;
        socket->socket().open(question.endpoint.protocol(), no_socket);
        answer.could_ask = !is_want_of_ours(no_socket);
        if (no_socket) {
            answer.fault = "cannot connect: " + no_socket.message();
            co_return answer;
        }
    }
    socket->expect_within(question.settings.timeout - question.spent);
    if (!is_kept) co_await connect_to_check(*socket, question, connects_only, answer);
    if (answer.fault.empty() && !connects_only) {
        co_await ask_on_connection(*socket, question, is_kept, answer);
    }
    answer.took = steady_now() - began;
    if (!answer.fault.empty() || answer.is_stale) answer.rest.reset();
    if (!answer.rest) socket->close();
    co_return answer;
}

}  // namespace

Task<HealthAnswer> check_health(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    const bool connects_only = question.settings.only_connects();
    return run_check(std::move(socket), question, connects_only);
}

Task<HealthAnswer> check_http2(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    return run_check(std::move(socket), question, false);
}

bool is_quiet(TimedSocket& socket) {
    if (!socket.socket().is_open()) return false;
    SSL* const tls = socket.tls();
    if (tls != nullptr && (SSL_has_pending(tls) != 0 || BIO_pending(SSL_get_rbio(tls)) > 0)) {
        return false;
    }
    char byte = 0;
    const auto bytes = ::recv(socket.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace tidegate::upstream

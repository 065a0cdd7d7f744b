#include "doctor/tls_trial.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "doctor/wait_for.hpp"
#include "net/timed_socket.hpp"
#include "net/tls_fault.hpp"

namespace tidegate::doctor {

namespace {

constexpr const char* kTlsTooLate = "it does not end the TLS handshake in time";
// In TLS 1.3, a server looks at the client's certificate after the client's handshake is over.
// Silence of that long means that it is satisfied.
constexpr std::chrono::milliseconds kRefusalPatience{300};

// False: OpenSSL has no memory.
bool offer_http(SSL* tls) {
    std::string list;  // RFC 7301 section 3.1: each behind its length
    for (const std::string_view protocol : {kAlpnHttp2, kAlpnHttp1}) {
        list += static_cast<char>(protocol.size());
        list += protocol;
    }
    const auto* const bytes = reinterpret_cast<const unsigned char*>(list.data());
    return SSL_set_alpn_protos(tls, bytes, static_cast<unsigned>(list.size())) == 0;
}

bool is_no_tls(const error_code& ec) {
    if (ec.category() != asio::error::get_ssl_category()) return false;
    const int reason = ERR_GET_REASON(static_cast<unsigned long>(ec.value()));
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
           reason == SSL_R_HTTP_REQUEST;
}

void note_what_is_shown(const SSL* tls, TlsAnswer& answer) {
    answer.asks_for_certificate = server_wants_certificate(tls);
    answer.chain = shown_chain(tls);
    const unsigned char* chosen = nullptr;
    unsigned bytes = 0;
    SSL_get0_alpn_selected(tls, &chosen, &bytes);
    if (bytes > 0) answer.protocol.assign(reinterpret_cast<const char*>(chosen), bytes);
    const SSL_CIPHER* const cipher = SSL_get_current_cipher(tls);
    if (cipher == nullptr) return;
    const std::string version = SSL_get_version(tls);  // `TLSv1.3`
    answer.version = "TLS " + version.substr(std::min(version.find('v'), version.size() - 1) + 1);
    answer.cipher = SSL_CIPHER_get_name(cipher);
}

Task<error_code> connect_and_greet(TimedSocket& socket, const TlsTrial& trial, TlsPtr tls) {
    error_code ec = co_await socket.connect(trial.endpoint);
    if (!ec && !trial.before.empty()) ec = co_await socket.write(trial.before);
    if (ec) co_return ec;
    socket.begin_tls(std::move(tls));
    co_return co_await socket.shake_hands();
}

Task<TlsAnswer> greet(std::shared_ptr<TimedSocket> socket, TlsTrial trial, TlsPtr tls) {
    TlsAnswer answer;
    const auto fail = [&](const error_code& ec) {
        TlsFault fault = tls_fault(socket->tls(), ec, false);
        answer.wants_certificate = fault.wants_certificate;
        answer.speaks_no_tls = is_no_tls(ec);
        answer.fault = std::move(fault.message);
    };
    socket->expect_within(trial.time);
    const error_code ec = co_await connect_and_greet(*socket, trial, std::move(tls));
    const bool has_begun = socket->tls() != nullptr;
    if (has_begun) note_what_is_shown(socket->tls(), answer);
    if (!socket->socket().is_open()) {
        answer.fault = kTlsTooLate;
    } else if (ec && !has_begun) {
        answer.fault = ec.message();
    } else if (ec) {
        fail(ec);
    } else if (trial.awaits_refusal && answer.asks_for_certificate) {
        socket->expect_within(std::min(trial.time, kRefusalPatience));
        char byte = 0;
        const ByteStream::Received received = co_await socket->read_some({&byte, 1});
        if (received.ec && socket->socket().is_open()) fail(received.ec);
    }
    socket->close();
    co_return answer;
}

}  // namespace

TlsAnswer try_tls(const TlsTrial& trial, const TlsClient& client) {
    TlsPtr tls = client.connection_to(trial.host);
    if (tls == nullptr) return {.fault = "its host name is not valid in TLS"};
    if (trial.offers_http && !offer_http(tls.get())) return {.fault = "OpenSSL has no memory"};
    asio::io_context io{1};
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
    return wait_for(io, greet(socket, trial, std::move(tls)));
}

}  // namespace tidegate::doctor

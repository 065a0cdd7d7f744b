#include "doctor/trial.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "net/name_lookup.hpp"
#include "net/tls_fault.hpp"

namespace tidegate::doctor {

Result<Endpoints, std::string> find_endpoints(const config::Address& address,
                                              std::chrono::milliseconds time) {
    using boost::system::in_place_error;
    // The interval between two looks whether the name was looked up.
    constexpr std::chrono::milliseconds kPause{5};
    if (address.is_unix()) {
        return Endpoints{asio::local::stream_protocol::endpoint(address.unix_path)};
    }
    const NameLookup lookup(address.host, address.port);
    const SteadyTime end = std::chrono::steady_clock::now() + time;
    while (!lookup.done()) {
        if (std::chrono::steady_clock::now() >= end) {
            return {in_place_error, "its host name could not be resolved in time"};
        }
        std::this_thread::sleep_for(kPause);
    }
    if (lookup.endpoints().empty()) {
        return {in_place_error, "its host name cannot be resolved: " + lookup.error()};
    }
    return lookup.endpoints();
}

std::string endpoint_text(const StreamProtocol::endpoint& endpoint) {
    if (endpoint.protocol().family() == AF_UNIX) {
        asio::local::stream_protocol::endpoint local;
        local.resize(endpoint.size());
        std::memcpy(local.data(), endpoint.data(), endpoint.size());
        return local.path();
    }
    asio::ip::tcp::endpoint tcp;
    tcp.resize(endpoint.size());
    std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
    const std::string host = tcp.address().to_string();
    const std::string port = std::to_string(tcp.port());
    return tcp.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

std::string try_connect(const StreamProtocol::endpoint& endpoint, std::chrono::milliseconds time) {
    asio::io_context io{1};
    StreamSocket socket(io.get_executor());
    std::optional<error_code> outcome;
    socket.async_connect(endpoint, [&](const error_code& ec) { outcome = ec; });
    io.run_for(time);
    if (!outcome) return "no answer in time";
    return *outcome ? outcome->message() : "";
}

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

namespace {

using namespace std::string_view_literals;

// RFC 9113 section 3.4: the preface, then SETTINGS, here without any.
constexpr std::string_view kGreeting =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    "\0\0\0\x04\0\0\0\0\0"sv;
// RFC 9113 section 4.1: three bytes of length, type, flags, four bytes of stream.
constexpr std::size_t kFrameHeadBytes = 9;
constexpr std::size_t kSettingBytes = 6;
constexpr char kSettingsType = 0x04;

Task<Http2Answer> greet_in_http2(std::shared_ptr<TimedSocket> socket, Http2Trial trial) {
    Http2Answer answer;
    socket->expect_within(trial.time);
    error_code ec = co_await socket->connect(trial.endpoint);
    if (!ec) ec = co_await socket->write(trial.before, kGreeting);
    while (!ec && answer.bytes.size() < kFrameHeadBytes) {
        std::array<char, 512> bytes{};
        const ByteStream::Received received = co_await socket->read_some(bytes);
        answer.bytes.append(bytes.data(), received.bytes);
        ec = received.ec;
    }
    if (!answer.bytes.empty()) {
        // The bytes that came show more than the way in which it ended.
    } else if (!socket->socket().is_open()) {
        answer.fault = "it does not answer in time";
    } else if (ec == asio::error::eof) {
        answer.fault = "it closes the connection without an answer";
    } else if (ec) {
        answer.fault = ec.message();
    }
    socket->close();
    co_return answer;
}

}  // namespace

Http2Answer try_http2(const Http2Trial& trial) {
    asio::io_context io{1};
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
    return wait_for(io, greet_in_http2(socket, trial));
}

bool begins_with_settings(std::string_view bytes) {
    if (bytes.size() < kFrameHeadBytes) return false;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    const std::size_t length = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
    const bool is_acknowledgement = (byte(4) & 1U) != 0;
    return bytes[3] == kSettingsType && !is_acknowledgement && length % kSettingBytes == 0 &&
           bytes.substr(5, 4) == "\0\0\0\0"sv;
}

}  // namespace tidegate::doctor

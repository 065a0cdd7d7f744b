// One TLS handshake with a server, and what it was like.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "net/asio.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

struct TlsAnswer {
    std::string fault{};             // why it failed, a clause; empty: it did not
    bool wants_certificate = false;  // the server refuses clients without one, and none is there
    bool speaks_no_tls = false;      // what came was something else

    std::string version{};  // `TLS 1.3`; empty where the handshake did not get that far
    std::string cipher{};   // OpenSSL's name
    // Chosen by the server of what was offered (ALPN); empty: it chose nothing.
    std::string protocol{};
    bool asks_for_certificate = false;
    // What the server has shown, its own certificate first; also where it then failed.
    std::vector<SharedCertificate> chain{};
};

struct TlsTrial {
    StreamProtocol::endpoint endpoint;
    std::string host;      // which it is; asked for
    std::string before{};  // sent in the clear first: a PROXY header
    std::chrono::milliseconds time;
    // Whether to wait a moment for a server that refuses the client only after the handshake, as
    // servers do in TLS 1.3.
    bool awaits_refusal = true;
    bool offers_http = false;  // kAlpnHttp2, then kAlpnHttp1
};

inline constexpr std::string_view kAlpnHttp2 = "h2";
inline constexpr std::string_view kAlpnHttp1 = "http/1.1";

// Connects, shakes hands and closes. Blocks.
TlsAnswer try_tls(const TlsTrial& trial, const TlsClient& client);

}  // namespace tidegate::doctor

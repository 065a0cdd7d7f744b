// The settings of TLS as plain values: those of connections to servers, and those of listeners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidegate {

// The oldest version of TLS that is spoken.
enum class TlsVersion : std::uint8_t { tls_1_2, tls_1_3 };

// `ca`, `certificate` and `key` are PEM.
struct TlsSettings {
    std::string ca;           // the authorities that are believed; empty: those of the system
    std::string certificate;  // our own and its chain; empty: none
    std::string key;          // of it
    std::string server_name;  // the server's certificate must have; empty: the host connected to
    bool verify = true;       // false: any certificate is taken, for any name
    TlsVersion min_version = TlsVersion::tls_1_2;

    bool operator==(const TlsSettings&) const = default;
};

// A certificate that a listener shows, and its key.
struct ServerCertificate {
    std::string certificate;         // PEM: its own first, then its chain
    std::string key;                 // PEM
    std::vector<std::string> names;  // beside those that it states itself; in lower case
    std::string file;                // where `certificate` was read; for messages and metrics

    bool operator==(const ServerCertificate&) const = default;
};

// Says what a client gets that asks for a name which no certificate has. A client that asks for no
// name has learned an address only: it gets the first certificate that has one, or if none has, the
// same.
enum class UnknownNames : std::uint8_t {
    first,   // the first certificate
    refuse,  // the alert unrecognized_name (RFC 6066 section 3)
};

enum class ClientAuth : std::uint8_t {
    off,
    optional,  // a certificate is asked for; one that fails ends the handshake all the same
    require,
};

// Names the versions that clients may speak over TLS. Clients that offer both get HTTP/2.
enum class HttpVersions : std::uint8_t {
    both,   // clients that offer no protocol at all speak HTTP/1
    http1,  // 1.1 and 1.0
    http2,  // the handshake refuses clients that do not offer it
};

// These settings are the listener's, not a name's: so a client that resumes a session under another
// name gains nothing.
struct ClientAuthSettings {
    ClientAuth mode = ClientAuth::off;
    std::string ca;   // PEM: the authorities that are believed; not empty unless off
    std::string crl;  // PEM: lists of revoked certificates; empty: none are known
    int depth = 4;    // intermediate certificates between a client's and an authority's

    bool operator==(const ClientAuthSettings&) const = default;
};

// How a listener speaks TLS, as plain values.
struct TlsServerSettings {
    // The names of all certificates together.
    static constexpr std::size_t kNamesMax = 10'000;

    std::vector<ServerCertificate> certificates;  // at least one
    UnknownNames unknown_names = UnknownNames::first;
    TlsVersion min_version = TlsVersion::tls_1_2;
    HttpVersions http = HttpVersions::both;
    ClientAuthSettings client_auth;
    // 80 bytes each, at most 4; the first encrypts. Empty: the process makes its own.
    std::vector<std::string> ticket_keys;

    bool operator==(const TlsServerSettings&) const = default;
};

}  // namespace tidegate

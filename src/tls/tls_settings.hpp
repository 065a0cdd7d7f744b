// Whom to believe and who to be when connecting to a server over TLS, as plain values.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace tidegate

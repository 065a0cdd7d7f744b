// Whom to believe and who to be when connecting to a server over TLS, as plain values.
#pragma once

#include <string>

namespace tidegate {

// All but the name is PEM.
struct TlsSettings {
    std::string ca;           // the authorities that are believed; empty: those of the system
    std::string certificate;  // our own and its chain; empty: none
    std::string key;          // of it
    std::string server_name;  // the server's certificate must have; empty: the host connected to

    bool operator==(const TlsSettings&) const = default;
};

}  // namespace tidegate

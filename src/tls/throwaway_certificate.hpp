// A certificate to try TLS with on one machine.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"

namespace tidegate {

inline constexpr std::chrono::days kThrowawayValidity{90};

// Both PEM.
struct ThrowawayCertificate {
    std::string certificate;
    std::string key;
};

// A new ECDSA key (P-256), and a certificate of it for `localhost`, 127.0.0.1 and ::1, valid from
// shortly before `now` for kThrowawayValidity. It vouches for itself and for no other: a client
// that believes it believes nothing else by that. Or what OpenSSL could not do.
Result<ThrowawayCertificate, std::string> make_throwaway_certificate(
    std::chrono::system_clock::time_point now);

}  // namespace tidegate

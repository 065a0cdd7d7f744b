// Certificates of clients, of every kind, made by a test; and lists of revoked ones.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "certificates.hpp"

namespace tidegate::test {

// What a certificate is to say. Texts go into it byte by byte.
struct Wish {
    std::vector<std::pair<std::string, std::string>> subject{{"CN", "alice"}};
    std::vector<std::pair<int, std::string>> names{};  // of kind GEN_URI, GEN_DNS, GEN_EMAIL
    Validity validity{};
    bool is_authority = false;
    std::string usage{};  // extended key usage as OpenSSL writes it; empty: it has none
};

// Signed by `issuer`; without one by itself. Each has another serial number and key.
Certificate make_certificate(const Wish& wish, const Certificate* issuer = nullptr);
// An authority of this name, signed likewise.
Certificate make_authority(const std::string& name, const Certificate* issuer = nullptr);

// As PEM: the certificates that `issuer` takes back. `holds` in seconds from now.
std::string make_revocation_list(const Certificate& issuer,
                                 const std::vector<const Certificate*>& revoked,
                                 Validity holds = {});

}  // namespace tidegate::test

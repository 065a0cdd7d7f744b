// Certificates that only tests of listeners need, and lists of those that are revoked.
#pragma once

#include <string>
#include <vector>

#include "certificates.hpp"

namespace tidegate::test {

struct Wanted {
    std::string common_name;
    std::string names{};  // as Authority::issue() takes them; empty: none
    bool is_rsa = false;  // of 2048 bits, which take some time to make
    Validity validity{};
};

Certificate issued_by(const Authority& authority, const Wanted& wanted);

// PEM: the certificates that `authority` has revoked.
std::string revocation_list(const Authority& authority,
                            const std::vector<const Certificate*>& revoked, Validity validity = {});

// The lower-case hex of the SHA-256 of its DER form.
std::string fingerprint(const Certificate& certificate);
// Of a subject; empty: it has none.
std::string common_name_of(const X509* certificate);

}  // namespace tidegate::test

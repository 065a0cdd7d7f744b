// What a certificate states, as text and numbers for checks, reports and logs. Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <openssl/types.h>

#include "tls/certificate_key.hpp"

namespace tidegate {

struct CertificateFacts {
    std::string subject;  // shown_name()
    std::string issuer;   // likewise
    // names_of() it: first those that are DNS names, then addresses.
    std::vector<std::string> names;
    CertificateKey key;
    std::string sha256;  // of its DER form, in lower-case hex
    std::chrono::system_clock::time_point from;
    std::chrono::system_clock::time_point until;
    bool is_self_signed = false;
    bool is_authority = false;    // other certificates can be verified with it
    std::string issuer_location;  // of the issuer's certificate (RFC 5280 4.2.2.1); empty: not said

    // The first name; without one the subject.
    const std::string& first_name() const { return names.empty() ? subject : names.front(); }
};

CertificateFacts facts_of(const X509& certificate);

// Whole days from `now` to `until`; below 0: it was over so many days ago.
long days_left(std::chrono::system_clock::time_point until,
               std::chrono::system_clock::time_point now);

}  // namespace tidegate

// The values that certificates and revocation lists are made of, as ours. Pure.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/types.h>

// <openssl/types.h> leaves this one to the large <openssl/x509v3.h>.
struct stack_st_GENERAL_NAME;

namespace tidegate {

std::string_view bytes_of(const ASN1_STRING* text);

// A time outside what the system's clock counts (nanoseconds in 64 bits: until 2262) is the nearest
// that it does. One that cannot be read is the first of all.
std::chrono::system_clock::time_point time_of(const ASN1_TIME* time);

// As RFC 4514 writes names, for readers: `CN=Example Authority R3,O=Example`. In UTF-8; a name with
// characters that a reader does not see is in ASCII.
std::string shown_name(const X509_NAME& name);
// The same in ASCII: controls and all other characters are escaped in hex (`\C3\A9`), those that
// are special there by a backslash.
std::string ascii_name(const X509_NAME& name);

struct FreeAlternativeNames {
    void operator()(stack_st_GENERAL_NAME* names) const;
};
struct AlternativeNames {
    std::unique_ptr<stack_st_GENERAL_NAME, FreeAlternativeNames> list;  // null: none
    bool is_broken = false;  // the extension cannot be read, or is there twice
};
AlternativeNames alternative_names(const X509& certificate);

}  // namespace tidegate

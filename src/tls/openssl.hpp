// All files of the room use OpenSSL through this: owners of its objects, its texts, and its values
// in ASN.1.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/types.h>

// <openssl/types.h> leaves this one to the large <openssl/ssl.h>.
using SSL_SESSION = struct ssl_session_st;
// <openssl/types.h> leaves these to the large <openssl/x509.h> and <openssl/x509v3.h>.
struct stack_st_X509;
struct stack_st_GENERAL_NAME;

namespace tidegate {

// Owners of objects whose headers of OpenSSL are large.
struct FreeOpenssl {
    void operator()(SSL* tls) const;
    void operator()(SSL_SESSION* session) const;
    void operator()(SSL_CTX* context) const;
    void operator()(BIO* bio) const;
    void operator()(EVP_PKEY* key) const;
    void operator()(X509* certificate) const;
    void operator()(stack_st_X509* chain) const;
    void operator()(X509_CRL* list) const;
    void operator()(X509_STORE* store) const;
    void operator()(stack_st_GENERAL_NAME* names) const;
};
template <class T>
using OpensslPtr = std::unique_ptr<T, FreeOpenssl>;

using TlsPtr = OpensslPtr<SSL>;
// A session lets a later connection skip most of the handshake.
using TlsSessionPtr = OpensslPtr<SSL_SESSION>;
using TlsContextPtr = OpensslPtr<SSL_CTX>;

// Owners for a file that includes the header: `Owned<BIGNUM, BN_free>`.
template <auto kFree>
struct FreeWith {
    template <class T>
    void operator()(T* object) const {
        kFree(object);
    }
};
template <class T, auto kFree>
using Owned = std::unique_ptr<T, FreeWith<kFree>>;

// Texts that OpenSSL reads and writes, and its words for what went wrong.
using BioPtr = OpensslPtr<BIO>;

// Opens `text`, which outlives it, for reading. Null when there is no memory, or more than 2 GiB.
// Forgets older complaints of OpenSSL.
BioPtr open_text(std::string_view text);

// Why the last object of a PEM text (RFC 7468) could not be read: there was none; else what is
// there is broken. Takes the complaint from OpenSSL.
bool was_end_of_pem();

// All objects of `pem` that `read`, one of OpenSSL's PEM_read_bio functions, looks for, in their
// order; other text is passed over. Nothing: one is broken.
template <class Ptr, class Read>
std::optional<std::vector<Ptr>> read_all(std::string_view pem, Read* read) {
    std::vector<Ptr> found;
    const BioPtr bio = open_text(pem);
    while (bio != nullptr) {
        Ptr next(read(bio.get(), nullptr, nullptr, nullptr));
        if (next == nullptr) break;
        found.push_back(std::move(next));
    }
    // The end of the text is an error like others.
    if (!was_end_of_pem()) return std::nullopt;
    return found;
}

// Opens memory to write into; null when there is none.
BioPtr open_memory();
// The text that was written into `memory`.
std::string written(BIO& memory);

// Returns OpenSSL's last complaint, which OpenSSL then forgets: `key too small`.
std::string openssl_reason();

// The values that certificates and revocation lists are made of, as ours. Pure.
std::string_view bytes_of(const ASN1_STRING* text);

// A time outside what the system's clock counts (nanoseconds in 64 bits: until 2262) is the nearest
// that it does. One that cannot be read is the first of all.
std::chrono::system_clock::time_point time_of(const ASN1_TIME* time);

// Writes a name as RFC 4514 does, for readers: `CN=Example Authority R3,O=Example`. It is UTF-8; a
// name with characters that a reader does not see is in ASCII.
std::string shown_name(const X509_NAME& name);
// The same in ASCII: controls and all other characters are escaped in hex (`\C3\A9`), those that
// are special there by a backslash.
std::string ascii_name(const X509_NAME& name);

struct AlternativeNames {
    OpensslPtr<stack_st_GENERAL_NAME> list;  // null: none
    bool is_broken = false;                  // the extension cannot be read, or is there twice
};
AlternativeNames alternative_names(const X509& certificate);

}  // namespace tidegate

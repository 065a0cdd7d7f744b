#include "tls/client_certificate.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/ascii.hpp"
#include "base/hex.hpp"
#include "base/quote.hpp"
#include "tls/certificate.hpp"
#include "tls/openssl.hpp"

namespace tidegate {

namespace {

using Names = ClientCertificate::Names;

// Neither URIs (RFC 3986) nor host names have `"` and `\`, about whose escapes readers of
// X-Forwarded-Client-Cert differ.
bool is_alternative_name(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return c > ' ' && c <= '~' && c != '"' && c != '\\';
    });
}

void add_client_name(std::string text, bool is_usable, Names& names) {
    if (is_usable) {
        names.values.push_back(std::move(text));
    } else {
        names.is_incomplete = true;
    }
}

// ascii_name() escapes the special characters of RFC 4514 by a backslash. Written in hex as well,
// no reader can take an escaped quote for the end of a quoted string, nor lose the escape of a
// comma.
std::string in_hex_escapes(std::string_view escaped) {
    std::string out;
    out.reserve(escaped.size());
    for (std::size_t i = 0; i < escaped.size(); ++i) {
        out += escaped[i];
        if (escaped[i] != '\\' || i + 1 == escaped.size() || hex_value(escaped[i + 1]) >= 0) {
            continue;
        }
        append_hex(static_cast<std::uint8_t>(escaped[++i]), out, kUpperHexDigits);
    }
    return out;
}

void read_common_names(const X509& certificate, Names& names) {
    const X509_NAME* const subject = X509_get_subject_name(&certificate);
    int at = -1;
    while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
        const ASN1_STRING* const value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        unsigned char* bytes = nullptr;
        const int size = ASN1_STRING_to_UTF8(&bytes, value);
        const std::string_view text(reinterpret_cast<const char*>(bytes),
                                    size < 0 ? 0 : static_cast<std::size_t>(size));
        add_client_name(std::string(text), size > 0 && displayable(text) == text, names);
        if (size >= 0) OPENSSL_free(bytes);
    }
}

void read_alternative_name(const GENERAL_NAME& name, ClientCertificate& into) {
    int kind = 0;
    const void* const value = GENERAL_NAME_get0_value(&name, &kind);
    Names* const names = kind == GEN_URI     ? &into.uris
                         : kind == GEN_DNS   ? &into.dns_names
                         : kind == GEN_EMAIL ? &into.emails
                                             : nullptr;
    if (names == nullptr) return;
    const std::string_view text = bytes_of(static_cast<const ASN1_STRING*>(value));
    const bool has_one_case = kind == GEN_DNS;
    add_client_name(has_one_case ? to_lower(std::string(text)) : std::string(text),
                    is_alternative_name(text), *names);
}

void read_alternative_names(const X509& certificate, ClientCertificate& into) {
    const AlternativeNames names = alternative_names(certificate);
    if (names.is_broken) {
        for (Names* of : {&into.uris, &into.dns_names, &into.emails}) of->is_incomplete = true;
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(names.list.get()); ++i) {
        read_alternative_name(*sk_GENERAL_NAME_value(names.list.get(), i), into);
    }
}

}  // namespace

std::optional<ClientCertificate> client_certificate_of(const SSL* tls) {
    const X509* const certificate = SSL_get0_peer_certificate(tls);
    if (certificate == nullptr || SSL_get_verify_result(tls) != X509_V_OK) return std::nullopt;
    return read_client_certificate(*certificate);
}

ClientCertificate read_client_certificate(const X509& certificate) {
    ClientCertificate read;
    read.sha256 = sha256_of(certificate);
    read.subject = in_hex_escapes(ascii_name(*X509_get_subject_name(&certificate)));
    read_common_names(certificate, read.common_names);
    read_alternative_names(certificate, read);
    ERR_clear_error();  // of what could not be read
    return read;
}

}  // namespace tidegate

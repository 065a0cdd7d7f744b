#include "tls/openssl.hpp"

#include <ctime>
#include <limits>

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/utf8.hpp"

namespace tidegate {

void FreeOpenssl::operator()(SSL* tls) const {
    SSL_free(tls);
}

void FreeOpenssl::operator()(SSL_SESSION* session) const {
    SSL_SESSION_free(session);
}

void FreeOpenssl::operator()(SSL_CTX* context) const {
    SSL_CTX_free(context);
}

void FreeOpenssl::operator()(BIO* bio) const {
    BIO_free(bio);
}

void FreeOpenssl::operator()(EVP_PKEY* key) const {
    EVP_PKEY_free(key);
}

void FreeOpenssl::operator()(X509* certificate) const {
    X509_free(certificate);
}

void FreeOpenssl::operator()(stack_st_X509* chain) const {
    sk_X509_pop_free(chain, X509_free);
}

void FreeOpenssl::operator()(X509_CRL* list) const {
    X509_CRL_free(list);
}

void FreeOpenssl::operator()(X509_STORE* store) const {
    X509_STORE_free(store);
}

void FreeOpenssl::operator()(stack_st_GENERAL_NAME* names) const {
    GENERAL_NAMES_free(names);
}

BioPtr open_text(std::string_view text) {
    ERR_clear_error();
    if (text.size() > std::numeric_limits<int>::max()) return nullptr;
    return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool was_end_of_pem() {
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

BioPtr open_memory() {
    return BioPtr(BIO_new(BIO_s_mem()));
}

std::string written(BIO& memory) {
    char* text = nullptr;
    const long size = BIO_get_mem_data(&memory, &text);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

std::string openssl_reason() {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason != nullptr ? reason : "out of memory";
}

namespace {

std::string printed_name(const X509_NAME& name, unsigned long flags) {
    const BioPtr out = open_memory();
    const bool is_printed = out != nullptr && X509_NAME_print_ex(out.get(), &name, 0, flags) >= 0;
    ERR_clear_error();
    return is_printed ? written(*out) : std::string();
}

}  // namespace

std::string_view bytes_of(const ASN1_STRING* text) {
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
            static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::chrono::system_clock::time_point time_of(const ASN1_TIME* time) {
    using std::chrono::system_clock;
    std::tm parts{};
    if (ASN1_TIME_to_tm(time, &parts) != 1) return system_clock::time_point::min();
    const std::time_t seconds = ::timegm(&parts);
    constexpr auto kMax = system_clock::time_point::max();
    return seconds >= system_clock::to_time_t(kMax) ? kMax : system_clock::from_time_t(seconds);
}

std::string shown_name(const X509_NAME& name) {
    std::string text = printed_name(name, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
    return displayable(text) == text ? text : ascii_name(name);
}

std::string ascii_name(const X509_NAME& name) {
    return printed_name(name, XN_FLAG_RFC2253);
}

AlternativeNames alternative_names(const X509& certificate) {
    constexpr int kAbsent = -1;
    int state = kAbsent;
    AlternativeNames names;
    names.list.reset(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(&certificate, NID_subject_alt_name, &state, nullptr)));
    names.is_broken = names.list == nullptr && state != kAbsent;
    ERR_clear_error();
    return names;
}

}  // namespace tidegate

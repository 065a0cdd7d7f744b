#include "tls/asn1.hpp"

#include <ctime>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/quote.hpp"
#include "tls/openssl_text.hpp"

namespace tidegate {

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

void FreeAlternativeNames::operator()(stack_st_GENERAL_NAME* names) const {
    GENERAL_NAMES_free(names);
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

// What a client's certificate says: of any DER, and of one whose names are any bytes. Each name is
// taken whole or left out, each text can be printed, and all readers of the field for the upstream
// find the same values in it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "fuzz_check.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"
#include "proxy/identity_and_trailer_fields.hpp"
#include "tls/certificate.hpp"
#include "tls/client_auth.hpp"

namespace {

using tidegate::CertificatePtr;
using tidegate::ClientCertificate;
using tidegate::identity::CertificateMethod;
using tidegate::identity::CredentialFault;
using Names = ClientCertificate::Names;
using Subject = CertificateMethod::Subject;

constexpr int kKinds[] = {GEN_URI, GEN_DNS, GEN_EMAIL};

// A certificate with each line of `text` as a name; the first byte of a line chooses its kind.
CertificatePtr certificate_of(std::string_view text) {
    CertificatePtr certificate(X509_new());
    GENERAL_NAMES* const names = GENERAL_NAMES_new();
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (line.empty()) continue;
        const std::string value(line.substr(1));
        const auto* const bytes = reinterpret_cast<const unsigned char*>(value.data());
        const int size = static_cast<int>(value.size());
        const unsigned kind = static_cast<unsigned char>(line.front()) % 4;
        if (kind == 3) {
            X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                       V_ASN1_UTF8STRING, bytes, size, -1, 0);
            continue;
        }
        ASN1_IA5STRING* const content = ASN1_IA5STRING_new();
        ASN1_STRING_set(content, bytes, size);
        GENERAL_NAME* const name = GENERAL_NAME_new();
        GENERAL_NAME_set0_value(name, kKinds[kind], content);
        sk_GENERAL_NAME_push(names, name);
    }
    X509_add1_ext_i2d(certificate.get(), NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT);
    GENERAL_NAMES_free(names);
    return certificate;
}

void check_names(const Names& names, bool is_ascii) {
    for (const std::string& name : names.values) {
        FUZZ_CHECK(!name.empty() && tidegate::is_utf8(name));
        for (std::string_view rest = name; !rest.empty();) {
            const std::size_t length = tidegate::utf8_length(rest);
            FUZZ_CHECK(!tidegate::is_hidden(tidegate::code_point(rest.substr(0, length))));
            FUZZ_CHECK(!is_ascii || length == 1);
            rest.remove_prefix(length);
        }
        FUZZ_CHECK(!is_ascii || name.find_first_of(" \"\\") == name.npos);
    }
}

// A name that is left out is reported.
void check_none_lost(const X509& certificate, const ClientCertificate& read) {
    std::size_t common_names = 0;
    const X509_NAME* const subject = X509_get_subject_name(&certificate);
    for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
        ++common_names;
    }
    FUZZ_CHECK(read.common_names.is_incomplete ==
               (read.common_names.values.size() != common_names));
    auto* const names = static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
    for (const int kind : kKinds) {
        const Names& of_kind = kind == GEN_URI   ? read.uris
                               : kind == GEN_DNS ? read.dns_names
                                                 : read.emails;
        std::size_t count = 0;
        for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
            if (sk_GENERAL_NAME_value(names, i)->type == kind) ++count;
        }
        if (names != nullptr) {
            FUZZ_CHECK(of_kind.is_incomplete == (of_kind.values.size() != count));
        } else {
            FUZZ_CHECK(of_kind.values.empty());
        }
    }
    GENERAL_NAMES_free(names);
}

void check_subject(const std::string& subject) {
    for (std::size_t i = 0; i < subject.size(); ++i) {
        FUZZ_CHECK(subject[i] >= ' ' && subject[i] <= '~' && subject[i] != '"');
        if (subject[i] != '\\') continue;
        FUZZ_CHECK(i + 2 < subject.size());
        FUZZ_CHECK(tidegate::hex_byte(subject[i + 1], subject[i + 2]) >= 0);
        i += 2;
    }
}

// The values of a line, with their quotes. `knows_escapes`: a reader for whom a backslash takes the
// next character with it.
std::vector<std::string> pairs_of(std::string_view line, bool knows_escapes) {
    std::vector<std::string> pairs(1);
    bool is_quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '"') is_quoted = !is_quoted;
        FUZZ_CHECK(is_quoted || line[i] != ',');
        if (!is_quoted && line[i] == ';') {
            pairs.emplace_back();
            continue;
        }
        pairs.back() += line[i];
        if (knows_escapes && line[i] == '\\' && i + 1 < line.size()) pairs.back() += line[++i];
    }
    FUZZ_CHECK(!is_quoted);
    return pairs;
}

void check_field(const ClientCertificate& read) {
    constexpr std::string_view kName = "X-Forwarded-Client-Cert: ";
    std::string line;
    tidegate::proxy::append_client_certificate(read, line);
    FUZZ_CHECK(line.starts_with(kName) && line.find('\r') == line.size() - 2);
    line = line.substr(kName.size(), line.size() - kName.size() - 2);
    const auto pairs = pairs_of(line, false);
    FUZZ_CHECK(pairs == pairs_of(line, true));
    FUZZ_CHECK(pairs.size() == 2 + read.uris.values.size() + read.dns_names.values.size());
    FUZZ_CHECK(pairs[0] == "Hash=" + read.sha256);
    FUZZ_CHECK(pairs[1] == "Subject=\"" + read.subject + '"');
}

// Exactly one name fits, and the user is that name.
void check_user(const ClientCertificate& read, Subject subject, const Names& names) {
    for (const std::string prefix : {"", "a", "spiffe://example.org/"}) {
        const auto user = tidegate::identity::user_of({subject, prefix}, read);
        if (user.fault != CredentialFault::none) {
            FUZZ_CHECK(user.name.empty());
            continue;
        }
        std::set<std::string> fitting;
        for (const std::string& name : names.values) {
            if (name.starts_with(prefix)) fitting.insert(name);
        }
        FUZZ_CHECK(!names.is_incomplete && fitting.size() == 1 && *fitting.begin() == user.name);
        FUZZ_CHECK(tidegate::identity::is_safe_user(user.name));
    }
}

void check(const X509& certificate) {
    const ClientCertificate read = tidegate::read_client_certificate(certificate);
    FUZZ_CHECK(read.sha256.empty() || read.sha256.size() == 64);
    check_subject(read.subject);
    check_names(read.common_names, false);
    for (const Names* names : {&read.uris, &read.dns_names, &read.emails}) {
        check_names(*names, true);
    }
    check_none_lost(certificate, read);
    check_field(read);
    check_user(read, Subject::common_name, read.common_names);
    check_user(read, Subject::uri, read.uris);
    check_user(read, Subject::dns, read.dns_names);
    check_user(read, Subject::email, read.emails);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const unsigned char* der = data;
    const CertificatePtr certificate(d2i_X509(nullptr, &der, static_cast<long>(size)));
    if (certificate != nullptr) check(*certificate);
    check(*certificate_of({reinterpret_cast<const char*>(data), size}));
    return 0;
}

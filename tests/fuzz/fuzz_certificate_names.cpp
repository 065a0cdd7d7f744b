// Names of certificates: normal as a plain reader of the grammar writes them, found as a look at
// each of them in turn finds them; a certificate with any bytes in place of its names gives none
// but normal ones. The first line is asked for, the others are stated.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <openssl/x509v3.h>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "fuzz_check.hpp"
#include "tls/certificate.hpp"

namespace {

using Name = std::optional<std::string>;

struct FreeOpenSsl {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
    void operator()(ASN1_OCTET_STRING* text) const { ASN1_OCTET_STRING_free(text); }
};

// The second opinion on names.
Name normal(const std::string& text, bool may_be_wildcard) {
    static const std::regex grammar(
        R"((\*\.)?((?:[A-Za-z0-9_-]{1,63}\.)*([A-Za-z0-9_-]{1,63}))\.?)");
    if (const auto address = tidegate::parse_ip(text)) return address->to_string();
    std::smatch parts;
    if (text.size() > 254 || !std::regex_match(text, parts, grammar)) return std::nullopt;
    const std::string prefix = parts[1].str();
    if (!prefix.empty() && !may_be_wildcard) return std::nullopt;
    const std::string last = parts[3].str();
    if (std::all_of(last.begin(), last.end(), tidegate::is_digit)) return std::nullopt;
    const std::string name = prefix + tidegate::to_lower(parts[2].str());
    if (name.size() > 253) return std::nullopt;
    return name;
}

// The second opinion on which of `stated` is meant.
Name meant(const std::vector<std::string>& stated, const std::string& asked) {
    for (const std::string& name : stated) {
        if (name == asked) return name;
    }
    for (const std::string& name : stated) {
        const bool is_wildcard = name.starts_with("*.") && asked.size() >= name.size();
        if (!is_wildcard || !asked.ends_with(name.substr(1))) continue;
        const std::string label = asked.substr(0, asked.size() - name.size() + 1);
        if (!label.empty() && label.find('.') == label.npos) return name;
    }
    return std::nullopt;
}

void check_look_up(const std::vector<std::string>& stated, const std::string& asked) {
    tidegate::CertificateNames names;
    std::vector<std::string> by_number;
    for (const std::string& name : stated) {
        const std::size_t number = names.add(name);
        FUZZ_CHECK(number <= by_number.size());
        if (number == by_number.size()) by_number.push_back(name);
        FUZZ_CHECK(by_number[number] == name);
        FUZZ_CHECK(names.size() == by_number.size());
    }
    const auto found = names.find(asked);
    const Name expected = meant(stated, asked);
    FUZZ_CHECK(found.has_value() == expected.has_value());
    if (found) FUZZ_CHECK(by_number[*found] == *expected);
}

void check_certificate(const std::string& bytes) {
    const std::unique_ptr<X509, FreeOpenSsl> certificate(X509_new());
    const std::unique_ptr<ASN1_OCTET_STRING, FreeOpenSsl> value(ASN1_OCTET_STRING_new());
    ASN1_OCTET_STRING_set(value.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                          static_cast<int>(bytes.size()));
    const std::unique_ptr<X509_EXTENSION, FreeOpenSsl> extension(
        X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, value.get()));
    FUZZ_CHECK(X509_add_ext(certificate.get(), extension.get(), -1) == 1);
    const auto names = tidegate::names_of(*certificate);
    for (const std::string& name : names) {
        FUZZ_CHECK(tidegate::normal_certificate_name(name) == name);
    }
    FUZZ_CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 2'048));
    check_certificate(text);
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    const Name asked = tidegate::normal_asked_name(line);
    FUZZ_CHECK(asked == normal(line, false));
    std::vector<std::string> stated;
    while (std::getline(lines, line)) {
        const Name name = tidegate::normal_certificate_name(line);
        FUZZ_CHECK(name == normal(line, true));
        if (!name) continue;
        FUZZ_CHECK(tidegate::normal_certificate_name(*name) == name);
        stated.push_back(*name);
    }
    if (asked) check_look_up(stated, *asked);
    return 0;
}

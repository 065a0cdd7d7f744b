#include "tls/certificate_names.hpp"

#include <algorithm>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/ascii.hpp"
#include "base/ip.hpp"
#include "tls/asn1.hpp"

namespace tidegate {

namespace {

constexpr std::size_t kNameBytesMax = 253;  // RFC 1035, as text and without the root's dot
constexpr std::size_t kLabelBytesMax = 63;

// Applications have names with `_`, although hosts ought not to.
bool is_label(std::string_view label) {
    return !label.empty() && label.size() <= kLabelBytesMax &&
           std::all_of(label.begin(), label.end(),
                       [](char c) { return is_alphanumeric(c) || c == '-' || c == '_'; });
}

// A name whose last label is a number is an address or nothing, or `*.0.2.1` were one.
bool is_host_name(std::string_view name) {
    if (name.size() > kNameBytesMax) return false;
    for (;;) {
        const std::size_t end = name.find('.');
        const std::string_view label = name.substr(0, end);
        if (!is_label(label)) return false;
        if (end == name.npos) return !std::all_of(label.begin(), label.end(), is_digit);
        name.remove_prefix(end + 1);
    }
}

std::string_view without_root(std::string_view name) {
    if (name.ends_with('.')) name.remove_suffix(1);
    return name;
}

std::optional<std::string> normal_host_name(std::string_view name) {
    if (!is_host_name(name)) return std::nullopt;
    return to_lower(std::string(name));
}

std::optional<std::string> normal_address(std::string_view bytes) {
    IpAddress address;
    if (bytes.size() != 4 && bytes.size() != address.bytes.size()) return std::nullopt;
    std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
    address.v4 = bytes.size() == 4;
    // An IPv6 address that is an IPv4 address has the latter's spelling.
    return normal_asked_name(address.to_string());
}

std::optional<std::string> normal_general_name(const GENERAL_NAME& name) {
    if (name.type == GEN_DNS) return normal_certificate_name(bytes_of(name.d.dNSName));
    if (name.type == GEN_IPADD) return normal_address(bytes_of(name.d.iPAddress));
    return std::nullopt;
}

}  // namespace

std::optional<std::string> normal_certificate_name(std::string_view name) {
    if (!name.starts_with("*.")) return normal_asked_name(name);
    auto parent = normal_host_name(without_root(name.substr(2)));
    // The asterisk counts as well.
    if (!parent || parent->size() + 2 > kNameBytesMax) return std::nullopt;
    return parent->insert(0, "*.");
}

std::optional<std::string> normal_asked_name(std::string_view name) {
    if (const auto address = parse_ip(name)) return address->to_string();
    return normal_host_name(without_root(name));
}

std::vector<std::string> names_of(const X509& certificate) {
    std::vector<std::string> names;
    const AlternativeNames stated = alternative_names(certificate);
    CertificateNames seen;
    for (int i = 0; i < sk_GENERAL_NAME_num(stated.list.get()); ++i) {
        auto name = normal_general_name(*sk_GENERAL_NAME_value(stated.list.get(), i));
        if (!name) continue;
        const std::size_t before = seen.size();
        if (seen.add(*name) == before) names.push_back(std::move(*name));
    }
    return names;
}

bool is_for(const X509& certificate, const std::string& name) {
    constexpr unsigned int kFlags =
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
    // OpenSSL caches in a certificate what it has read of its extensions.
    auto* const noted = const_cast<X509*>(&certificate);
    const bool fits = parse_ip(name)
                          ? X509_check_ip_asc(noted, name.c_str(), 0) == 1
                          : X509_check_host(noted, name.data(), name.size(), kFlags, nullptr) == 1;
    ERR_clear_error();
    return fits;
}

std::size_t CertificateNames::add(const std::string& name) {
    const std::size_t next = numbers_.size();
    return numbers_.try_emplace(name.starts_with('*') ? name.substr(1) : name, next).first->second;
}

std::optional<std::size_t> CertificateNames::find(const std::string& asked) const {
    auto found = numbers_.find(asked);
    if (found == numbers_.end()) {
        const std::size_t dot = asked.find('.');
        // No wildcard ends in a number, so that no address is found.
        if (dot == asked.npos) return std::nullopt;
        found = numbers_.find(std::string_view(asked).substr(dot));
    }
    if (found == numbers_.end()) return std::nullopt;
    return found->second;
}

}  // namespace tidegate

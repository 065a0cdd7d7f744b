// `tls` of something that is connected to. A file that could not be used is found when the
// configuration is read, not when the first connection is made.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/quote.hpp"
#include "base/timestamp.hpp"
#include "config/address.hpp"
#include "config/read_sections.hpp"
#include "config/referenced_file.hpp"
#include "tls/certificate.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

std::string shown(system_clock::time_point day) {
    const auto moment = std::max(day.time_since_epoch(), system_clock::duration::zero());
    return format_timestamp(std::chrono::duration_cast<std::chrono::seconds>(moment));
}

// A clock may be wrong, and an authority that has run out may not be the one that is needed.
void warn_about_time(const Value& value, const ReferencedFile& file, const X509& certificate) {
    const auto now = system_clock::now();
    const std::string which = "a certificate in " + quote(file.path);
    if (valid_until(certificate) < now) {
        value.warn(which + " has expired, on " + shown(valid_until(certificate)));
    } else if (valid_from(certificate) > now) {
        value.warn(which + " is not valid before " + shown(valid_from(certificate)));
    }
}

// The certificates that `value` names; none when they were reported to be broken.
std::vector<CertificatePtr> read_certificates(const Value& value, std::string_view example,
                                              std::string& pem) {
    auto file = read_referenced_file(value, example);
    if (!file) return {};
    auto certificates = parse_certificates(file->text);
    if (!certificates) {
        value.fault("the file " + quote(file->path) + " " + certificates.error());
        return {};
    }
    for (const CertificatePtr& one : *certificates) warn_about_time(value, *file, *one);
    pem = std::move(file->text);
    return std::move(*certificates);
}

void warn_if_world_readable(const Value& value, const ReferencedFile& file) {
    std::error_code ec;
    const fs::perms perms = fs::status(file.path, ec).permissions();
    if (ec || (perms & fs::perms::others_read) == fs::perms::none) return;
    value.warn(
        "every user of this machine may read the private key: remove the permission (`chmod o-r`) "
        "from " +
        quote(file.path));
}

PrivateKeyPtr read_key_file(const Value& value, std::string& pem) {
    auto file = read_referenced_file(value, "client.key");
    if (!file) return nullptr;
    auto key = parse_private_key(file->text);
    if (!key) {
        value.fault("the file " + quote(file->path) + " " + key.error());
        return nullptr;
    }
    warn_if_world_readable(value, *file);
    pem = std::move(file->text);
    return std::move(*key);
}

void read_own(const std::optional<Value>& certificate, const std::optional<Value>& key,
              TlsSettings& tls) {
    if (certificate && !key)
        certificate->fault(
            "`key` is missing: name the file with the private key of this certificate");
    if (key && !certificate)
        key->fault("`certificate` is missing: name the file with the certificate of this key");
    if (!certificate || !key) return;
    const auto chain = read_certificates(*certificate, "client.pem", tls.certificate);
    const auto own_key = read_key_file(*key, tls.key);
    if (chain.empty() || own_key == nullptr) return;
    if (!belong_together(*chain.front(), *own_key)) {
        key->fault("this key does not belong to the certificate (the first one in its file)");
    }
}

}  // namespace

std::string read_authorities(const Value& value) {
    std::string pem;
    read_certificates(value, "ca.pem", pem);
    return pem;
}

TlsSettings read_client_tls(const Value& value) {
    TlsSettings tls;
    Section section(value,
                    "a map: `{ca: ca.pem, certificate: client.pem, key: client.key, server_name: "
                    "redis.internal}`");
    const auto ca = section.find("ca");
    const auto certificate = section.find("certificate");
    const auto key = section.find("key");
    const auto server_name = section.find("server_name");
    section.refuse_others();

    if (ca) tls.ca = read_authorities(*ca);
    read_own(certificate, key, tls);
    if (!server_name) return tls;
    auto name = server_name->text("a host name such as `redis.internal`, or an IP address");
    if (name && !is_host(*name)) {
        server_name->fault(quote(*name) + " is not a host name or an IP address");
    } else if (name) {
        tls.server_name = std::move(*name);
    }
    return tls;
}

}  // namespace tidegate::config

// `tls` of a server that Tidegate connects to. A file that could not be used is found when the
// configuration is read, not when the first connection is made.
#include <utility>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/pem_files.hpp"
#include "config/read_sections.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::config {

namespace {

// Reports a key without a certificate and the reverse.
void read_own(const std::optional<Value>& certificate, const std::optional<Value>& key,
              TlsSettings& tls) {
    if (certificate && !key)
        certificate->fault(
            "`key` is missing: name the file with the private key of this certificate");
    if (key && !certificate)
        key->fault("`certificate` is missing: name the file with the certificate of this key");
    if (!certificate || !key) return;
    auto chain = read_certificate_file(*certificate, "client.pem");
    if (chain) {
        for (const auto& one : chain->certificates) {
            warn_about_time(*certificate, chain->path, *one);
        }
    }
    auto own_key = read_key_file(*key, "client.key");
    if (!chain || !own_key) return;
    if (!matches_key(*chain->certificates.front(), *own_key->key)) {
        key->fault("this key does not belong to the certificate (the first one in its file)");
    }
    tls.certificate = std::move(chain->pem);
    tls.key = std::move(own_key->pem);
}

std::string authorities_in(const Value& value) {
    auto file = read_certificate_file(value, "ca.pem");
    if (!file) return {};
    for (const auto& one : file->certificates) warn_about_time(value, file->path, *one);
    return std::move(file->pem);
}

// The keys that every `tls` of a connection to a server has.
Rows common_keys(std::string_view wanted, std::string_view name, const KeyText& ca,
                 const KeyText& server_name) {
    return Rows(wanted, name)
        .key("ca", kind::type("file"), ca)
        .key("certificate", kind::type("file"),
             {"PEM: the client certificate with its chain", "none"})
        .key("key", kind::type("file"),
             {"PEM: the private key of `certificate`, without password", "none"})
        .key("server_name", kind::type("text"), server_name);
}

// `host` is such a name as the server's certificate could have.
TlsSettings read_common(Section& section, const std::string& host) {
    TlsSettings tls;
    const auto ca = section.find("ca");
    const auto certificate = section.find("certificate");
    const auto key = section.find("key");
    const auto server_name = section.find("server_name");
    if (ca) tls.ca = authorities_in(*ca);
    read_own(certificate, key, tls);
    if (!server_name) return tls;
    auto name = server_name->text("a host name such as " + quote(host) + ", or an IP address");
    if (name && !is_host(*name)) {
        server_name->fault(quote(*name) + " is not a host name or an IP address");
    } else if (name) {
        tls.server_name = std::move(*name);
    }
    return tls;
}

void read_verify(Section& section, TlsSettings& tls) {
    const auto verify = section.find("verify");
    if (!verify) return;
    tls.verify = verify->toggle().value_or(true);
    if (tls.verify) return;
    verify->warn(
        "Tidegate takes any certificate: an attacker on the way to the upstream can read and "
        "change "
        "requests and answers. Name the authority that signs its certificate in `ca` instead");
    if (const auto ca = section.find("ca")) ca->warn("has no effect with `verify: off`");
}

}  // namespace

std::string read_authorities(const Value& value) {
    return authorities_in(value);
}

const Rows& redis_tls_keys() {
    static const auto keys = common_keys(
        "a map: `{ca: ca.pem, certificate: client.pem, key: client.key, server_name: "
        "redis.internal}`",
        "redis_tls",
        {"PEM: the authorities to trust, one certificate of the chain, or Redis's own",
         "the system's"},
        {"the name or address that the certificate must have, also sent as SNI", "the URL's host"});
    return keys;
}

const Rows& collector_tls_keys() {
    static const auto keys = common_keys(
        "a map: `{ca: ca.pem, certificate: client.pem, key: client.key, server_name: "
        "otel.internal}`",
        {},
        {"PEM: the authorities to trust, one certificate of the chain, or the collector's own",
         "the system's", "with `https://`, as all of `tls`"},
        {"the name or address that the certificate must have, also sent as SNI",
         "the host of `otlp`"});
    return keys;
}

const Rows& upstream_tls_keys() {
    static const auto keys =
        common_keys(
            "a map: `{ca: ca.pem, server_name: api.internal}`", {},
            {"PEM: the authorities to trust, one certificate of the chain, or the server's own",
             "the system's", "with an `https://` server, as all of `tls`"},
            {"the name or address that the certificates must have, also sent as SNI",
             "the host of each URL"})
            .key("verify", kind::toggle(),
                 {"`off`: any certificate is taken, for any name; `check` warns", "`on`"})
            .key("min_version", kind::type("tls_version"),
                 {"the oldest version of TLS: `1.2` or `1.3`", "`1.2`"});
    return keys;
}

TlsSettings read_client_tls(const Value& value, const Rows& keys, const std::string& host) {
    Section section(value, keys);
    TlsSettings tls = read_common(section, host);
    section.refuse_others();
    return tls;
}

TlsSettings read_upstream_tls(const Value& value) {
    const std::vector<Fault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    Section section(value, upstream_tls_keys());
    TlsSettings tls = read_common(section, "api.internal");
    read_verify(section, tls);
    if (const auto version = section.find("min_version")) read_tls_version(*version, tls);
    section.refuse_others();
    if (faults.size() == faults_before) {
        // OpenSSL checks more, such as the length of keys.
        if (const auto made = TlsClient::make(tls); !made) value.fault(made.error());
    }
    return tls;
}

}  // namespace tidegate::config

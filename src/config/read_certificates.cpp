// Certificates and keys: those that a listener shows, and those of connections to servers.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/file_work.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::config {

namespace {

using std::chrono::system_clock;

}  // namespace

std::string shown_moment(system_clock::time_point moment) {
    const auto since_epoch = std::max(moment.time_since_epoch(), system_clock::duration::zero());
    return format_timestamp(std::chrono::duration_cast<std::chrono::seconds>(since_epoch));
}

void warn_about_time(const Value& value, const std::string& path, const X509& certificate) {
    const auto now = system_clock::now();
    const Validity validity = validity_of(certificate);
    const std::string which = "a certificate in " + quote(path);
    if (validity.until < now) {
        value.warn(which + " has expired, on " + shown_moment(validity.until));
    } else if (validity.from > now) {
        value.warn(which + " is not valid before " + shown_moment(validity.from));
    }
}

std::optional<CertificateFile> read_certificate_file(const Value& value, std::string_view example) {
    auto file = read_referenced_file(value, example);
    if (!file) return std::nullopt;
    value.context().files.push_back(file->path);
    auto certificates = parse_certificates(file->text);
    if (!certificates) {
        value.fault("the file " + quote(file->path) + " " + certificates.error());
        return std::nullopt;
    }
    return CertificateFile{std::move(file->path), std::move(file->text), std::move(*certificates)};
}

void warn_if_world_readable(const Value& value, const std::string& path, std::string_view what) {
    namespace fs = std::filesystem;
    std::error_code ec;
    const FileWait wait(path);
    const fs::perms perms = fs::status(path, ec).permissions();
    if (ec || (perms & fs::perms::others_read) == fs::perms::none) return;
    value.warn("every user of this machine may read the " + std::string(what) +
               ": remove the permission (`chmod o-r`) from " + quote(path));
}

namespace {

// Warns when every user of the machine may read it.
std::optional<KeyFile> read_key_file(const Value& value, std::string_view example) {
    auto file = read_referenced_file(value, example);
    if (!file) return std::nullopt;
    value.context().files.push_back(file->path);
    auto key = parse_private_key(file->text);
    if (!key) {
        value.fault("the file " + quote(file->path) + " " + key.error());
        return std::nullopt;
    }
    warn_if_world_readable(value, file->path, "private key");
    return KeyFile{std::move(file->path), std::move(file->text), std::move(*key)};
}

}  // namespace

// The certificates that a listener shows. The reader finds what clients would refuse, so that no
// client has to.

namespace {

using std::chrono::days;

constexpr std::size_t kCertificatesMax = 10'000;
constexpr std::size_t kNamesMax = TlsServerSettings::kNamesMax;

struct Pair {
    Value certificate;  // where the file is named
    Value key;
    CertificateFile chain;
    KeyFile own_key;
    std::optional<KeyType> type{};             // nothing: a kind that is refused
    std::vector<std::string> written_names{};  // normal
    std::vector<std::string> names{};          // these and those that it states; normal, each once

    const X509& leaf() const { return *chain.certificates.front(); }
};

// Those of the system; reads them when the first chain needs them, which can take long.
class AuthoritiesOnDemand {
  public:
    // Null: the system has none.
    const SystemAuthorities* get() {
        if (!read_) read_ = SystemAuthorities::read();
        return *read_ ? (*read_)->get() : nullptr;
    }

  private:
    std::optional<Result<std::shared_ptr<const SystemAuthorities>, std::string>> read_;
};

std::vector<std::string> read_names(const Value& value) {
    constexpr ListRule kNames{"a name or a list of names: `[example.com, \"*.example.com\"]`",
                              "names", kNamesMax};
    std::vector<std::string> names;
    for (const Value& item : value.one_or_more(kNames)) {
        const auto text = item.text("a name such as `example.com`");
        if (!text) continue;
        auto name = normal_certificate_name(*text);
        if (!name) {
            item.fault(quote(*text) +
                       " is not a name that a client can ask for: write `example.com`, or "
                       "`\"*.example.com\"` for all names with one label more (in other alphabets "
                       "as `xn--...`)");
            continue;
        }
        const std::string shown = quote(*name);
        add_once(item, shown, std::move(*name), names);
    }
    return names;
}

std::string time_left(system_clock::duration left) {
    const auto whole = std::chrono::floor<days>(left).count();
    if (whole == 0) return "in less than a day";
    return "in " + std::to_string(whole) + (whole == 1 ? " day" : " days");
}

void judge_time(const Value& value, const CertificateFile& file, system_clock::time_point now) {
    const Validity validity = validity_of(*file.certificates.front());
    const auto [from, until] = validity;
    const std::string which = "the certificate in " + quote(file.path);
    if (from > now) {
        value.fault(which + " is not valid before " + shown_moment(from) +
                    ", and clients refuse it until then: wait, or correct the clock of this "
                    "machine");
    } else if (until < now) {
        const std::string expired =
            which + " has expired, on " + shown_moment(until) + ", and clients refuse it: renew it";
        if (value.context().occasion == Occasion::reload) {
            value.warn(expired);
        } else {
            value.fault(expired);
        }
    } else if (validity.ends_soon(now)) {
        value.warn(which + " expires " + time_left(until - now) + ", on " + shown_moment(until) +
                   ": renew it");
    }
}

void judge_key(const Value& value, const CertificateFile& file, const CertificateKey& key) {
    const std::string which = "the certificate in " + quote(file.path);
    switch (key.fault) {
        case CertificateKey::Fault::none:
            return;
        case CertificateKey::Fault::bits:
            return value.fault(which + " has an RSA key of " + std::to_string(key.bits) +
                               " bits, which clients refuse: make one of at least " +
                               std::to_string(kRsaBitsMin) +
                               " bits, or an ECDSA key on the curve P-256");
        case CertificateKey::Fault::curve:
            return value.fault(which + " has a key on the curve " + quote(key.curve) +
                               ", which clients refuse: make one on P-256, P-384 or P-521");
        case CertificateKey::Fault::type:
            return value.fault(which +
                               " has a key of a kind that clients refuse: make an ECDSA key on "
                               "the curve P-256, or an RSA key");
    }
}

void judge_chain(const Value& value, const CertificateFile& file,
                 AuthoritiesOnDemand& authorities) {
    const auto& chain = file.certificates;
    for (std::size_t i = 1; i < chain.size(); ++i) {
        warn_about_time(value, file.path, *chain[i]);
    }
    for (std::size_t i = 1; i < chain.size(); ++i) {
        if (has_issued(*chain[i], *chain[i - 1])) continue;
        const CertificateFacts one = facts_of(*chain[i - 1]);
        value.warn("in " + quote(file.path) + ", the certificate of " + quote(one.subject) +
                   " is not followed by that of its issuer, " + quote(one.issuer) +
                   ", and clients may refuse it: put the certificates in this order");
        return;
    }
    const CertificateFacts last = facts_of(*chain.back());
    if (last.is_self_signed) return;
    const SystemAuthorities* const known = authorities.get();
    if (known == nullptr || known->have_issuer_of(*chain.back())) return;
    value.warn(
        "the chain in " + quote(file.path) + " is not complete: append the certificate of " +
        quote(last.issuer) +
        (last.issuer_location.empty() ? "" : ", which is at " + quote(last.issuer_location)) +
        ". ACME clients write the whole chain to `fullchain.pem`. For an authority of your own, "
        "append its root: this machine does not know it");
}

void judge_names(const Value& value, const CertificateFile& file,
                 const std::vector<std::string>& stated) {
    if (!stated.empty()) return;
    value.warn("the certificate in " + quote(file.path) +
               " has no subject alternative name, and clients refuse it: make one with the names "
               "of your site (`-addext subjectAltName=DNS:example.com`)");
}

// The name, or the place in its own file, of the certificate that `key` belongs to; ends a message.
std::string owner_of(const Pair& pair, const std::vector<Pair>& pairs) {
    const auto& chain = pair.chain.certificates;
    for (std::size_t i = 1; i < chain.size(); ++i) {
        if (!matches_key(*chain[i], *pair.own_key.key)) continue;
        return ", but to certificate " + std::to_string(i + 1) + " there: put that one first";
    }
    for (const Pair& other : pairs) {
        if (!matches_key(other.leaf(), *pair.own_key.key)) continue;
        return ", but to " + other.certificate.name();
    }
    return {};
}

void judge_keys(const std::vector<Pair>& pairs) {
    for (const Pair& pair : pairs) {
        if (matches_key(pair.leaf(), *pair.own_key.key)) continue;
        pair.key.fault("this key does not belong to the first certificate in " +
                       quote(pair.chain.path) + owner_of(pair, pairs));
    }
}

// Tidegate could not know which of two is meant.
void judge_names_together(const Value& value, const std::vector<Pair>& pairs) {
    std::map<std::pair<std::string_view, KeyType>, const Pair*> owners;
    for (const Pair& pair : pairs) {
        if (!pair.type) continue;
        const Pair* rival = nullptr;
        std::string_view name;
        for (const std::string& one : pair.names) {
            const auto [owner, is_new] = owners.try_emplace({one, *pair.type}, &pair);
            if (is_new || rival != nullptr) continue;
            rival = owner->second;
            name = one;
        }
        if (rival == nullptr) continue;
        pair.certificate.fault(quote(name) + " has an " + std::string(name_of(*pair.type)) +
                               " certificate already, " + rival->certificate.name() +
                               ": keep one of them");
    }
    if (owners.size() > kNamesMax) {
        value.fault("the certificates have " + std::to_string(owners.size()) +
                    " names: a listener can have " + std::to_string(kNamesMax));
    }
}

void warn_about_kinds(const Value& value, const std::vector<Pair>& pairs) {
    const auto is_ed25519 = [](const Pair& pair) { return pair.type == KeyType::ed25519; };
    if (pairs.empty() || !std::all_of(pairs.begin(), pairs.end(), is_ed25519)) return;
    value.warn(
        "every certificate has an Ed25519 key, which browsers refuse: add one with an ECDSA key on "
        "the curve P-256");
}

// These rows belong to an item of `certificates`.
const Rows& certificate_keys() {
    static const auto keys =
        Rows("a map: `{certificate: site.pem, key: site.key}`")
            .key("certificate", kind::type("file"),
                 {"PEM: the certificate, then those of its issuers, each behind the one that it "
                  "has issued",
                  "required", "1 MiB"})
            .required("`certificate: site.pem`")
            .key("key", kind::type("file"),
                 {"PEM: its private key, without password", "required",
                  "RSA from 2048 bits, ECDSA on P-256, P-384, P-521, Ed25519"})
            .required("`key: site.key`")
            .key(
                "names", kind::one_or_more(kind::type("text")),
                {"further names whose clients get this certificate: `example.com`, "
                 "`\"*.example.com\"` for one label more",
                 "none", "10,000 names of a listener; one certificate for a name and kind of key"});
    return keys;
}

std::optional<Pair> read_pair(Section& section, AuthoritiesOnDemand& authorities) {
    const auto certificate = section.need("certificate", "`certificate: site.pem`");
    const auto key = section.need("key", "`key: site.key`");
    std::vector<std::string> names;
    if (const auto written = section.find("names")) names = read_names(*written);
    std::optional<CertificateFile> chain;
    std::optional<KeyFile> own_key;
    if (certificate) chain = read_certificate_file(*certificate, "site.pem");
    if (key) own_key = read_key_file(*key, "site.key");
    if (!chain || !own_key) return std::nullopt;

    judge_time(*certificate, *chain, system_clock::now());
    const CertificateKey shown = key_of(*chain->certificates.front());
    std::vector<std::string> stated = names_of(*chain->certificates.front());
    judge_key(*certificate, *chain, shown);
    judge_names(*certificate, *chain, stated);
    judge_chain(*certificate, *chain, authorities);
    Pair pair{*certificate, *key, std::move(*chain), std::move(*own_key)};
    pair.type = shown.type;
    pair.names = std::move(stated);
    for (const std::string& name : names) {
        if (std::find(pair.names.begin(), pair.names.end(), name) != pair.names.end()) continue;
        pair.names.push_back(name);
    }
    pair.written_names = std::move(names);
    return pair;
}

std::vector<Pair> read_pairs(Section& tls) {
    constexpr ListRule kPairs{"a list: `[{certificate: site.pem, key: site.key}]`", "certificates",
                              kCertificatesMax,
                              "the list is empty: a listener with `tls` needs a certificate"};
    std::vector<Pair> pairs;
    AuthoritiesOnDemand authorities;
    const auto list = tls.find("certificates");
    bool is_short = false;
    for (const std::string_view key : {"certificate", "key", "names"}) {
        is_short = tls.find(key).has_value() || is_short;
    }
    if (list && is_short) {
        list->fault(
            "the listener has `certificates`, and `certificate`, `key` or `names` beside it: move "
            "these into an item of `certificates`");
    } else if (list) {
        for (const Value& item : list->one_or_more(kPairs)) {
            Section section(item, certificate_keys());
            auto pair = read_pair(section, authorities);
            section.refuse_others();
            if (pair) pairs.push_back(std::move(*pair));
        }
    } else if (is_short) {
        if (auto pair = read_pair(tls, authorities)) pairs.push_back(std::move(*pair));
    } else if (tls.value().is_map()) {
        tls.value().fault(
            "the certificate is missing: write `certificate: site.pem, key: site.key`");
    }
    return pairs;
}

}  // namespace

Keys<TlsServerSettings> listener_certificate_keys() {
    return Keys<TlsServerSettings>("a map: `{certificate: site.pem, key: site.key}`")
        .key("certificates", kind::one_or_more(kind::map(certificate_keys()), {1, 10'000}),
             {"a map `{certificate, key, names}`, or a list of these", "one is required",
              "1 to 10,000"})
        .key("certificate", kind::type("file"),
             {"of a single certificate: what each item of `certificates` has", "",
              "not beside `certificates`"})
        .key("key", kind::type("file"),
             {"of a single certificate: what each item of `certificates` has", "",
              "not beside `certificates`"})
        .key("names", kind::one_or_more(kind::type("text")),
             {"of a single certificate: what each item of `certificates` has", "",
              "not beside `certificates`"});
}

std::vector<ServerCertificate> read_server_certificates(Section& tls) {
    std::vector<Pair> pairs = read_pairs(tls);
    judge_keys(pairs);
    judge_names_together(tls.value(), pairs);
    warn_about_kinds(tls.value(), pairs);
    std::vector<ServerCertificate> certificates;
    certificates.reserve(pairs.size());
    for (Pair& pair : pairs) {
        certificates.push_back({std::move(pair.chain.pem), std::move(pair.own_key.pem),
                                std::move(pair.written_names), std::move(pair.chain.path)});
    }
    return certificates;
}

// `tls` of a server that Tidegate connects to. A file that could not be used is found when the
// configuration is read, not when the first connection is made.

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
    const std::vector<ConfigFault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    Section section(value, keys);
    TlsSettings tls = read_common(section, host);
    if (&keys == &upstream_tls_keys()) {
        read_verify(section, tls);
        if (const auto version = section.find("min_version")) read_tls_version(*version, tls);
    }
    section.refuse_others();
    if (faults.size() == faults_before) {
        // OpenSSL checks more, such as the length of keys.
        if (const auto made = TlsClient::make(tls); !made) value.fault(made.error());
    }
    return tls;
}

}  // namespace tidegate::config

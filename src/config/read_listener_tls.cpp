// `tls`, `redirect` and `http` of a listener, and certificates of clients.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "tls/certificate.hpp"
#include "tls/client_auth.hpp"
#include "tls/tls_server.hpp"

namespace tidegate::config {

namespace {

constexpr std::uint16_t kPortOfHttps = 443;
constexpr std::int64_t kTargetPortMax = 65'535;
constexpr std::int64_t kSecondsOfYear = std::int64_t{365} * 86'400;
constexpr std::int64_t kHstsYearsMax = 10;
constexpr std::int64_t kClientDepthMax = 16;

// `1y`, or a duration of whole seconds.
std::optional<std::int64_t> hsts_seconds(std::string_view text) {
    if (text.ends_with('y') && !text.ends_with("day")) {
        const auto years = parse_decimal(text.substr(0, text.size() - 1));
        if (!years || *years > kHstsYearsMax) return std::nullopt;
        return *years * kSecondsOfYear;
    }
    using std::chrono::seconds;
    const auto duration = parse_duration(text);
    if (!duration || *duration % seconds{1} != seconds{0}) return std::nullopt;
    return std::chrono::duration_cast<seconds>(*duration).count();
}

void read_hsts(const Value& value, Listen& listen) {
    if (value.is_off()) return;
    const auto text = value.text(
        "only the duration, such as `1y`, or `off` (an upstream can send `includeSubDomains` and "
        "`preload` itself, with `hsts: off`)");
    if (!text) return;
    const auto seconds = hsts_seconds(*text);
    if (!seconds || *seconds < 1 || *seconds > kHstsYearsMax * kSecondsOfYear) {
        const bool lacks_unit = parse_decimal(*text).value_or(0) > 0;
        value.fault(quote(*text) +
                    " is not a duration of whole seconds from `1s` to `10y`, such as `1y` or "
                    "`180day`, nor `off`" +
                    (lacks_unit ? ": add the unit, " + quote(*text + "s") : ""));
        return;
    }
    if (listen.face != Face::proxy) {
        value.fault("only with `face: proxy`: browsers do not use a listener of another face");
        return;
    }
    listen.hsts = std::chrono::seconds{*seconds};
}

void read_ticket_keys(const Value& value, TlsServerSettings& settings) {
    auto file = read_referenced_file(value, "ticket.keys");
    if (!file) return;
    value.context().files.push_back(file->path);
    const std::size_t bytes = file->text.size();
    const std::size_t count = bytes / TicketKeys::kKeyBytes;
    if (bytes % TicketKeys::kKeyBytes != 0 || count == 0 || count > TicketKeys::kKeysMax) {
        value.fault("the file " + quote(file->path) + " has " + std::to_string(bytes) +
                    " bytes: it holds one to four keys of 80 bytes each, the newest first. Make "
                    "one with `openssl rand -out ticket.keys 80`");
        return;
    }
    warn_if_world_readable(value, file->path, "ticket keys");
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < count; ++i) {
        auto key = file->text.substr(i * TicketKeys::kKeyBytes, TicketKeys::kKeyBytes);
        if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
            value.fault("the file " + quote(file->path) + " holds a key twice");
            return;
        }
        keys.push_back(std::move(key));
    }
    settings.ticket_keys = std::move(keys);
}

HttpVersions versions_of(const Listen& listen) {
    if (!listen.takes_http2) return HttpVersions::http1;
    return listen.takes_http1 ? HttpVersions::both : HttpVersions::http2;
}

// Reads `client_auth`, `client_ca`, `client_crl` and `client_depth` of a listener's `tls`.

using std::chrono::system_clock;

constexpr std::chrono::hours kNextListIsNear{24};

void judge_list(const Value& value, const std::string& path, const RevocationListFacts& list,
                system_clock::time_point now) {
    const std::string which = "the list of " + quote(list.issuer) + " in " + quote(path);
    if (list.signature == RevocationListFacts::Signature::bad) {
        value.fault(which + " is not signed by the authority of this name in `client_ca`");
    } else if (list.signature == RevocationListFacts::Signature::of_stranger) {
        value.warn(which + " has no effect: `client_ca` does not have this authority");
    } else if (list.from > now) {
        value.warn(which + " is not valid before " + shown_moment(list.from) +
                   ": Tidegate refuses the clients of this authority until then");
    } else if (list.until && *list.until < now) {
        value.warn(which + " has expired, on " + shown_moment(*list.until) +
                   ": Tidegate refuses the clients of this authority until the file has its next "
                   "list");
    } else if (list.until && *list.until - now < kNextListIsNear) {
        value.warn(which + " expires on " + shown_moment(*list.until) +
                   ", and then Tidegate refuses the clients of this authority: get its next list");
    }
}

// With `client_crl`, Tidegate refuses clients of an authority that has no list.
void warn_about_uncovered(const Value& value, const std::string& path,
                          std::span<const RevocationListFacts> lists,
                          std::span<const CertificatePtr> authorities) {
    for (const CertificatePtr& authority : authorities) {
        const CertificateFacts facts = facts_of(*authority);
        const auto is_of_it = [&](const RevocationListFacts& list) {
            return list.issuer == facts.subject;
        };
        if (!facts.is_authority || std::any_of(lists.begin(), lists.end(), is_of_it)) continue;
        value.warn("there is no list of " + quote(facts.subject) + " in " + quote(path) +
                   ": Tidegate refuses the clients of this authority; append its list");
    }
}

std::string read_lists(const Value& value, std::span<const CertificatePtr> authorities) {
    auto file = read_referenced_file(value, "clients.crl", kListBytesMax);
    if (!file) return {};
    value.context().files.push_back(file->path);
    const auto lists = parse_revocation_lists(file->text);
    if (!lists) {
        value.fault("the file " + quote(file->path) + " " + lists.error());
        return {};
    }
    // If `client_ca` has a fault, no list could be matched with its authority.
    if (authorities.empty()) return {};
    std::vector<RevocationListFacts> all;
    for (const RevocationListPtr& list : *lists) {
        all.push_back(facts_of(*list, authorities));
        judge_list(value, file->path, all.back(), system_clock::now());
    }
    warn_about_uncovered(value, file->path, all, authorities);
    return std::move(file->text);
}

std::vector<CertificatePtr> read_client_ca(const Value& value, std::string& pem) {
    auto file = read_certificate_file(value, "clients-ca.pem");
    if (!file) return {};
    for (const CertificatePtr& one : file->certificates) {
        warn_about_time(value, file->path, *one);
        const CertificateFacts facts = facts_of(*one);
        if (facts.is_authority) continue;
        value.warn("the certificate of " + quote(facts.subject) + " in " + quote(file->path) +
                   " is not that of an authority, so it admits no client but the one that has this "
                   "certificate: name the authority that signs your clients' certificates");
    }
    pem = std::move(file->pem);
    return std::move(file->certificates);
}

// Judges a setting of client certificates beside `client_auth: off`. Without `client_auth` it is a
// fault, as the operator may believe that the listener asks for certificates.
void report_idle(const std::optional<Value>& mode, const Value& idle) {
    if (mode) return idle.warn("has no effect with `client_auth: off`");
    idle.fault(
        "`client_auth` is missing: write `client_auth: require` to admit only clients with a "
        "certificate, or `client_auth: optional`");
}

ClientAuthSettings read_client_auth(Section& tls) {
    ClientAuthSettings settings;
    const auto mode = tls.find("client_auth");
    const auto ca = tls.find("client_ca");
    const auto crl = tls.find("client_crl");
    const auto depth = tls.find("client_depth");
    if (mode && !mode->is_off()) {
        const auto chosen = mode->choice<ClientAuth>({{"off", ClientAuth::off},
                                                      {"optional", ClientAuth::optional},
                                                      {"require", ClientAuth::require}});
        if (!chosen) return settings;
        settings.mode = *chosen;
    }
    if (depth) {
        const auto issuers = depth->integer({0, kClientDepthMax});
        settings.depth = static_cast<int>(issuers.value_or(settings.depth));
    }
    if (settings.mode == ClientAuth::off) {
        for (const auto& idle : {ca, crl, depth}) {
            if (idle) report_idle(mode, *idle);
        }
        return settings;
    }
    std::vector<CertificatePtr> authorities;
    if (ca) {
        authorities = read_client_ca(*ca, settings.ca);
    } else {
        mode->fault(
            "`client_ca` is missing: write the file with the authorities that sign the "
            "certificates "
            "of your clients, `client_ca: clients-ca.pem`");
    }
    if (crl) settings.crl = read_lists(*crl, authorities);
    return settings;
}

void read_tls_settings(const Value& value, Listen& listen) {
    const std::vector<ConfigFault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    TlsServerSettings& settings = listen.tls.emplace();
    Section section = listener_tls_keys().read(value, settings);
    settings.certificates = read_server_certificates(section);
    settings.http = versions_of(listen);
    settings.client_auth = read_client_auth(section);
    if (const auto hsts = section.find("hsts")) read_hsts(*hsts, listen);
    if (faults.size() != faults_before) return;
    // OpenSSL refuses more than the checks above, such as weak signatures.
    if (const auto made = parse_credentials(settings); !made) value.fault(made.error());
}

// Judges the listener's other keys that say whether clients speak https.
void check_beside_tls(Section& listener, Listen& listen) {
    if (const auto proto = listener.find("forwarded_proto")) {
        if (listen.is_https) {
            proto->warn("has no effect: clients of a listener with `tls` speak https");
        } else {
            proto->fault("clients of a listener with `tls` speak https: remove this key");
        }
    }
    listen.is_https = true;
}

void read_https(const Value& value, Listen&) {
    value.choice<bool>({{"https", true}});
}

// `https`, or a map with the port that clients reach it at.
const Keys<Listen>& redirect_keys() {
    static const auto keys =
        Keys<Listen>()
            .own("to", kind::word({"https"}), read_https,
                 {"`https`", "required", "the only choice"})
            .required("`to: https`")
            .integer("port", &Listen::redirect_port, {1, kTargetPortMax},
                     {"where clients reach `https`", "that of the listener with `tls`"})
            .live(Live::next_request);
    return keys;
}

void read_target(const Value& value, Listen& listen, bool& has_port) {
    if (!value.is_map()) return read_https(value, listen);
    has_port = redirect_keys().read(value, listen).find("port").has_value();
}

void check_beside_redirect(Section& listener, const Value& value, const Listen& listen) {
    if (const auto tls = listener.find("tls"); tls && !tls->is_off()) {
        value.fault("clients of a listener with `tls` speak https already: keep one of both");
    } else if (listen.face != Face::proxy) {
        value.fault("only with `face: proxy`: a gateway or a program follows no redirect");
    } else if (listen.is_https) {
        value.fault(
            "with `forwarded_proto: https`, clients speak https already, and would be sent here "
            "again: keep one of both");
    }
}

// Browsers do not speak HTTP/2 in the clear.
void warn_about_lone_http2(Section& listener, const Listen& listen) {
    const auto http = listener.find("http");
    if (listen.takes_http1 || !http) return;
    http->warn("browsers speak HTTP/2 with TLS only, so this listener redirects none: add `http1`");
}

// The port of the listener that a redirect leads to; nothing: no listener has `tls`. Of several
// listeners, the one at 443, the default port of https; else the first.
struct Target {
    std::uint16_t port = 0;
    bool is_inherited = false;
    bool is_guess = false;
};

std::optional<Target> find_target(const Config& config) {
    std::optional<Target> target;
    for (const Listen& listen : config.listen) {
        if (!listen.tls || listen.face != Face::proxy) continue;
        const std::uint16_t port = listen.address.port;
        if (port == kPortOfHttps) return Target{port};
        if (!target) {
            target = Target{port, listen.address.is_inherited()};
        } else if (target->port != port) {
            target->is_guess = true;
        }
    }
    return target;
}

}  // namespace

// Clients have to speak something else at such an address.
std::string why_tls_needs_restart(const ConfigChange& change) {
    std::string shown;
    for (const Listen& listen : change.next.listen) {
        const auto is_other = [&](const Listen& one) {
            return one.address == listen.address && one.tls.has_value() != listen.tls.has_value();
        };
        const auto& running = change.running.listen;
        if (std::none_of(running.begin(), running.end(), is_other)) continue;
        shown += (shown.empty() ? "" : ", ") + quote(listen.address.to_string());
    }
    return shown.empty() ? "" : "`listen`: `tls` of " + shown + " cannot be turned on or off";
}

const Keys<TlsServerSettings>& listener_tls_keys() {
    static const auto keys =
        listener_certificate_keys()
            .word<UnknownNames>(
                "unknown_names", &TlsServerSettings::unknown_names,
                {{"first", UnknownNames::first}, {"refuse", UnknownNames::refuse}},
                {"for clients that ask for no name, or for one that no certificate has: `first` "
                 "shows the first certificate, `refuse` ends the handshake",
                 "`first`"})
            .own("min_version", kind::type("tls_version"), read_tls_version<TlsServerSettings>,
                 {"the oldest version of TLS: `1.2` or `1.3`", "`1.2`"})
            .key("client_auth",
                 kind::any({kind::type("off"), kind::fixed({"optional", "require"}),
                            kind::type("variable")}),
                 {"whether Tidegate asks clients for a certificate: `off`, `optional` (but a "
                  "certificate that is not valid ends the handshake) or `require`",
                  "`off`"})
            .key("client_ca", kind::type("file"),
                 {"PEM: the authorities that sign clients' certificates",
                  "required with `client_auth`", "1 MiB"})
            .key("client_crl", kind::type("file"),
                 {"PEM: lists of revoked certificates, one for each authority in `client_ca`",
                  "none", "16 MiB"})
            .key("client_depth", kind::integer({0, kClientDepthMax}),
                 {"how many issuers may stand between a client's certificate and its authority",
                  "`4`", "0 to 16"})
            .own("ticket_keys", kind::type("file"), read_ticket_keys,
                 {"a file with the keys of session tickets, [the same on all "
                  "replicas](tls.md#tickets-across-replicas); the first encrypts",
                  "Tidegate makes one every 8 hours", "1 to 4 keys of 80 bytes"})
            .key("hsts", kind::off_or(kind::type("long_duration")),
                 {"how long browsers use only `https` for this host (`Strict-Transport-Security`): "
                  "a duration, or years such as `1y`",
                  "`off`", "1 s to 10 y, whole seconds; only of `proxy`"})
            .live(Live::next_request);
    return keys;
}

KeyKind redirect_kind() {
    return kind::any({kind::fixed({"https"}), kind::map(redirect_keys()), kind::type("variable")});
}

namespace {

constexpr std::string_view kNamesOfHttp2[] = {"http2",  "http/2", "http2.0", "http/2.0",
                                              "HTTP/2", "h2c",    "2",       "2.0"};

}  // namespace

std::optional<bool> read_http_version(const Value& item) {
    for (const std::string_view name : kNamesOfHttp2) {
        if (!item.is(name)) continue;
        item.fault("unknown value " + quote(name) +
                   "; did you mean `h2`? Allowed here: `h2` or `http1`");
        return std::nullopt;
    }
    return item.choice<bool>({{"h2", true}, {"http1", false}}, {"h3", "http3"});
}

void read_http_versions(Section& listener, Listen& listen) {
    constexpr ListRule kVersions{"a protocol or a list of them: `[h2, http1]`", "protocols", 4,
                                 "the list is empty: clients need a protocol, `[h2, http1]`"};
    const auto http = listener.find("http");
    if (!http) return;
    std::vector<bool> found;
    for (const Value& item : http->one_or_more(kVersions)) {
        if (const auto is_http2 = read_http_version(item)) {
            add_once(item, *is_http2 ? "`h2`" : "`http1`", *is_http2, found);
        }
    }
    if (found.empty()) return;
    listen.takes_http1 = std::find(found.begin(), found.end(), false) != found.end();
    listen.takes_http2 = std::find(found.begin(), found.end(), true) != found.end();
}

std::optional<Value> read_listener_tls(Section& section, const std::optional<Address>& address,
                                       Listen& listen) {
    const auto tls = section.find("tls");
    const auto redirect = section.find("redirect");
    const bool has_tls = tls && !tls->is_off();
    listen.takes_http2 = has_tls;  // where `http` is not written
    if (listen.face == Face::envoy_grpc) {
        listen.takes_http2 = true;
        listen.takes_http1 = false;
    }
    read_http_versions(section, listen);
    if (listen.face == Face::envoy_grpc && (listen.takes_http1 || !listen.takes_http2)) {
        section.find("http")->fault("gRPC needs HTTP/2: write `http: h2`, or remove this key");
    }
    if (redirect) check_beside_redirect(section, *redirect, listen);
    if (has_tls) {
        if (address && address->is_unix()) {
            tls->fault(
                "a Unix socket does not leave this machine and needs no TLS: listen on an address, "
                "or remove this key");
        }
        check_beside_tls(section, listen);
        read_tls_settings(*tls, listen);
    }
    if (!redirect) return std::nullopt;
    listen.redirects = true;
    warn_about_lone_http2(section, listen);
    bool has_port = false;
    read_target(*redirect, listen, has_port);
    return has_port ? std::nullopt : redirect;
}

void settle_redirect(const Value& redirect, const Config& config, Listen& listen) {
    // A listener with a fault may be the target.
    if (!redirect.context().faults.empty()) return;
    const auto target = find_target(config);
    if (!target) {
        redirect.fault(
            "no listener has `tls`: add one, `{address: 443, tls: {certificate: site.pem, key: "
            "site.key}}`. If a balancer in front ends TLS, write the port that clients use there: "
            "`redirect: {to: https, port: 443}`");
        return;
    }
    if (target->is_inherited) {
        redirect.fault(
            "the socket with `tls` is one that systemd passes: write the port that clients use, "
            "`redirect: {to: https, port: 443}`");
        return;
    }
    if (target->port == 0) {
        redirect.fault(
            "the listener with `tls` has port 0, which lets the system choose: write the port that "
            "clients use, `redirect: {to: https, port: 443}`");
        return;
    }
    listen.redirect_port = target->port;
    if (!target->is_guess) return;
    const std::string port = std::to_string(target->port);
    redirect.warn(
        "several listeners have `tls`, none of them at port 443: Tidegate sends clients to " +
        port +
        ", the port of the first one. Write the port that you mean: `redirect: {to: https, "
        "port: " +
        port + "}`");
}

bool Config::asks_for_certificates() const {
    return std::any_of(listen.begin(), listen.end(), [](const Listen& one) {
        return one.tls && one.tls->client_auth.mode != ClientAuth::off;
    });
}

}  // namespace tidegate::config

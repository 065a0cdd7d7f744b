#include <sys/stat.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "listener_files.hpp"

// Client certificates, redirects, and other settings beside `tls` of a listener.
namespace tidegate::config_listener_test {

using test::has;
using test::kDay;
using test::listener_of;
using test::ListenerFiles;
using test::only;

namespace {

const std::string kOwn = "certificate: site.pem, key: site.key";
const std::string kTls = "tls: {" + kOwn + "}";

struct ClientFiles : ListenerFiles {
    ClientFiles() {
        add("site");
        write("ca.pem", authority.pem());
    }

    std::string said_of_list(const std::string& pem) const {
        write("clients.crl", pem);
        const auto loaded =
            load(kOwn + ", client_auth: require, client_ca: ca.pem, client_crl: clients.crl");
        CHECK((loaded.config != nullptr) == loaded.errors.empty());
        return only(loaded.errors.empty() ? loaded.warnings : loaded.errors);
    }

    test::Certificate authority =
        test::make_site_certificate({.subject = "clients", .is_authority = true});
};

}  // namespace

TEST_CASE("client auth: it needs authorities, and authorities need it") {
    const ClientFiles files;
    CHECK(has(only(files.load(kOwn + ", client_auth: require").errors),
              "listen.tls.client_auth: `client_ca` is missing"));
    CHECK(has(only(files.load(kOwn + ", client_ca: ca.pem").errors),
              "listen.tls.client_ca: `client_auth` is missing"));
    const auto off = files.load(kOwn + ", client_auth: off, client_ca: ca.pem");
    CHECK(listener_of(off).tls->client_auth == ClientAuthSettings{});
    CHECK(has(only(off.warnings), "client_ca: has no effect with `client_auth: off`"));
    CHECK_FALSE(off.config->asks_for_certificates());
}

TEST_CASE("client auth: a certificate that is no authority's cannot verify clients") {
    const ClientFiles files;
    const auto loaded = files.load(kOwn + ", client_auth: require, client_ca: site.pem");
    listener_of(loaded);
    CHECK(has(only(loaded.warnings), "the certificate of `CN=site` in `"));
}

TEST_CASE("client auth: a list of revoked certificates is judged as clients will be") {
    const ClientFiles files;
    const auto list = [&](long from, long to) {
        return test::make_empty_revocation_list(files.authority, {from, to});
    };
    CHECK(files.said_of_list(list(-kDay, 7 * kDay)) == "0");
    CHECK(has(files.said_of_list(list(-7 * kDay, -kDay)), "the list of `CN=clients` in `"));
    CHECK(has(files.said_of_list(list(-7 * kDay, -kDay)), "has expired, on 20"));
    CHECK(has(files.said_of_list(list(-7 * kDay, kDay - 60)), "get its next list"));
    CHECK(has(files.said_of_list(list(kDay, 7 * kDay)), "is not valid before 20"));

    const auto stranger =
        test::make_site_certificate({.subject = "stranger", .is_authority = true});
    CHECK(has(files.said_of_list(list(-kDay, 7 * kDay) +
                                 test::make_empty_revocation_list(stranger, {-kDay, 7 * kDay})),
              "the list of `CN=stranger` in `"));
    CHECK(has(files.said_of_list(
                  test::make_empty_revocation_list(files.authority, {-kDay, 7 * kDay}, &stranger)),
              "is not signed by the authority of this name"));
    CHECK(has(files.said_of_list("nothing"), "holds no revocation list"));
    CHECK(has(files.said_of_list("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"),
              "holds a revocation list that cannot be read"));
}

TEST_CASE("client auth: an authority without a list beside others' lists is warned about") {
    const ClientFiles files;
    const auto other = test::make_site_certificate({.subject = "other", .is_authority = true});
    files.write("ca.pem", files.authority.pem() + other.pem());
    const std::string own = test::make_empty_revocation_list(files.authority, {-kDay, 7 * kDay});
    CHECK(has(files.said_of_list(own), "there is no list of `CN=other` in `"));
    CHECK(files.said_of_list(own + test::make_empty_revocation_list(other, {-kDay, 7 * kDay})) ==
          "0");
}

TEST_CASE("client auth: an authority with a new key is known by both") {
    const ClientFiles files;
    const auto renewed = test::make_site_certificate({.subject = "clients", .is_authority = true});
    files.write("ca.pem", files.authority.pem() + renewed.pem());
    CHECK(files.said_of_list(test::make_empty_revocation_list(renewed, {-kDay, 7 * kDay})) == "0");
}

TEST_CASE("client certificates: users and forwarding have no effect unless clients are asked") {
    const ClientFiles files;
    const std::string more =
        "identity: {user: [{client_certificate: {subject: san_uri, prefix: "
        "\"spiffe://example.org/\"}}]}\nforwarding: {client_certificate: on}\n";
    const auto asked = files.load(kOwn + ", client_auth: optional, client_ca: ca.pem", more);
    listener_of(asked);
    CHECK(asked.warnings.empty());
    CHECK(asked.config->forwarding.client_certificate);
    REQUIRE(asked.config->user_methods.size() == 1);
    const auto& method =
        dynamic_cast<const identity::CertificateMethod&>(*asked.config->user_methods[0].how);
    CHECK(method.subject == identity::CertificateMethod::Subject::uri);
    CHECK(method.prefix == "spiffe://example.org/");

    const auto unasked = files.load(kOwn, more);
    listener_of(unasked);
    REQUIRE(unasked.warnings.size() == 2);
    CHECK(has(unasked.warnings[0].message,
              "identity.user[0].client_certificate: has no effect: no listener asks"));
    CHECK(has(unasked.warnings[1].message,
              "forwarding.client_certificate: has no effect: no listener asks"));
}

TEST_CASE("client certificates: a prefix that ends within the host is warned about") {
    const ClientFiles files;
    const auto said = [&](const std::string& method) {
        return only(files
                        .load(kOwn + ", client_auth: require, client_ca: ca.pem",
                              "identity: {user: [{client_certificate: {" + method + "}}]}\n")
                        .warnings);
    };
    CHECK(has(said("subject: san_uri, prefix: \"spiffe://example.org\""),
              "that of `spiffe://example.org.example` fits as well: write "
              "`spiffe://example.org/`"));
    CHECK(has(said("subject: san_uri, prefix: \"https://example.org:443\""),
              "write `https://example.org:443/`"));
    for (const std::string prefix : {"spiffe://example.org/", "spiffe://example.org/a", "spiffe://",
                                     "urn:example", "https://example.org?"}) {
        CAPTURE(prefix);
        CHECK(said("subject: san_uri, prefix: \"" + prefix + "\"") == "0");
    }
    CHECK(said("subject: CN, prefix: a") == "0");
    CHECK(said("subject: sha256") == "0");
}

TEST_CASE("redirect: clients are sent to the listener with tls, at 443 if one is there") {
    const ClientFiles files;
    const auto redirect = [&](const std::string& others, const std::string& how = "https") {
        return files.load_listen("[{address: 127.0.0.1:80, redirect: " + how + "}" + others + "]");
    };
    const std::string first = ", {address: 127.0.0.1:8443, " + kTls + "}";
    const auto one = listener_of(redirect(first));
    CHECK(one.redirects);
    CHECK_FALSE(one.is_https);
    CHECK(one.redirect_port == 8443);
    const auto usual = redirect(first + ", {address: 127.0.0.1:443, " + kTls + "}");
    CHECK(listener_of(usual).redirect_port == 443);
    CHECK(usual.warnings.empty());
    const auto guess = redirect(first + ", {address: 127.0.0.1:9443, " + kTls + "}");
    CHECK(listener_of(guess).redirect_port == 8443);
    CHECK(has(only(guess.warnings), "Tidegate sends clients to 8443, the port of the first one"));

    // What clients see may be another port than what is listened at.
    CHECK(listener_of(redirect(first, "{to: https, port: 443}")).redirect_port == 443);
    CHECK(listener_of(redirect("", "{to: https, port: 443}")).redirects);
    CHECK(has(only(redirect("").errors), "listen[0].redirect: no listener has `tls`"));
    CHECK(has(only(redirect(", {address: 127.0.0.1:0, " + kTls + "}").errors),
              "has port 0, which lets the system choose"));
}

TEST_CASE("redirect: not where clients speak https already, nor for gateways") {
    const ClientFiles files;
    const auto said = [&](const std::string& settings) {
        return only(files
                        .load_listen("[{address: 127.0.0.1:80, " + settings +
                                     "}, {address: " + "127.0.0.1:443, " + kTls + "}]")
                        .errors);
    };
    CHECK(has(said("redirect: https, " + kTls), "clients of a listener with `tls` speak https"));
    CHECK(has(said("redirect: https, forwarded_proto: https"), "would be sent here again"));
    CHECK(has(said("redirect: https, face: check"), "only with `face: proxy`"));
}

TEST_CASE("listener tls: it goes with faces and PROXY headers, and not with Unix sockets") {
    const ClientFiles files;
    const auto load = [&](const std::string& settings) {
        return files.load_listen("{address: \"127.0.0.1:443\", " + settings + ", " + kTls + "}");
    };
    CHECK(listener_of(load("face: check")).is_https);
    CHECK(listener_of(load("face: forward_auth, dialect: nginx")).tls);
    CHECK(listener_of(load("proxy_protocol: {from: 127.0.0.1}")).tls);
    CHECK(has(only(load("forwarded_proto: http").errors), "speak https: remove this key"));
    CHECK(has(only(load("forwarded_proto: https").warnings), "forwarded_proto: has no effect"));
    CHECK(has(only(files.load_listen("{address: \"unix:/run/t.sock\", " + kTls + "}").errors),
              "a Unix socket does not leave this machine"));
    CHECK(has(only(files
                       .load_listen("{address: 127.0.0.1:443, face: check, tls: {" + kOwn +
                                    ", hsts: 1y}}")
                       .errors),
              "hsts: only with `face: proxy`"));
    CHECK(files.load(kOwn, "timeouts: {tls_handshake: 1s}\n").warnings.empty());
}

// `tls` of a listener: how it is read, and how certificates are judged.

using test::Wanted;

namespace {

const std::string kShort = "certificate: site.pem, key: site.key";

// The warning about a self-signed certificate like this, on a start.
std::string fault_of(const Wanted& wanted) {
    const ListenerFiles files;
    files.add("site", wanted);
    const auto loaded = files.load(kShort);
    CHECK(loaded.config == nullptr);
    return only(loaded.errors);
}

std::string warning_of(const Wanted& wanted) {
    const ListenerFiles files;
    files.add("site", wanted);
    const auto loaded = files.load(kShort);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    return only(loaded.warnings);
}

}  // namespace

TEST_CASE("listener tls: a certificate and its key are enough") {
    const ListenerFiles files;
    const auto own = files.add("site");
    const auto loaded = files.load(kShort);
    const auto listen = listener_of(loaded);
    CHECK(loaded.warnings.empty());
    REQUIRE(listen.tls.has_value());
    REQUIRE(listen.tls->certificates.size() == 1);
    CHECK(listen.tls->certificates[0].certificate == own.pem());
    CHECK(listen.tls->certificates[0].key == own.key_pem());
    CHECK(listen.tls->certificates[0].names.empty());
    CHECK(listen.tls->certificates[0].file == files.path("site.pem"));
    CHECK(listen.is_https);
    CHECK(listen.hsts.count() == 0);
    CHECK_FALSE(listen.redirects);
    TlsServerSettings rest = *listen.tls;
    rest.certificates.clear();
    CHECK(rest == TlsServerSettings{});
}

TEST_CASE("listener tls: a list of one is the short form") {
    const ListenerFiles files;
    files.add("site");
    const auto one = listener_of(files.load(kShort));
    CHECK(listener_of(files.load("certificates: {" + kShort + "}")) == one);
    CHECK(listener_of(files.load("certificates: [{" + kShort + "}]")) == one);
    CHECK_FALSE(listener_of(files.load_listen("{address: 127.0.0.1:1, tls: off}")).tls);
}

TEST_CASE("listener tls: all keys are read, names in lower case without the root's dot") {
    const ListenerFiles files;
    files.add("site");
    files.add("rsa", {.key = "RSA-2048"});
    files.add("ca", {.subject = "clients", .is_authority = true});
    files.write("ticket.keys", std::string(80, 'a') + std::string(80, 'b'));
    const auto loaded = files.load(
        "certificates: [{certificate: site.pem, key: site.key, names: [WWW.Site.Example., "
        "\"*.b.example\", site.example]}, {certificate: rsa.pem, key: rsa.key, names: c.example}], "
        "unknown_names: refuse, min_version: 1.3, client_auth: optional, client_ca: ca.pem, "
        "client_depth: 2, ticket_keys: ticket.keys, hsts: 2y");
    const auto listen = listener_of(loaded);
    CHECK(loaded.warnings.empty());
    REQUIRE(listen.tls->certificates.size() == 2);
    CHECK(listen.tls->certificates[0].names ==
          std::vector<std::string>{"www.site.example", "*.b.example", "site.example"});
    CHECK(listen.tls->certificates[1].names == std::vector<std::string>{"c.example"});
    CHECK(listen.tls->unknown_names == UnknownNames::refuse);
    CHECK(listen.tls->min_version == TlsVersion::tls_1_3);
    CHECK(listen.tls->client_auth.mode == ClientAuth::optional);
    CHECK(has(listen.tls->client_auth.ca, "BEGIN CERTIFICATE"));
    CHECK(listen.tls->client_auth.depth == 2);
    CHECK(listen.tls->ticket_keys ==
          std::vector<std::string>{std::string(80, 'a'), std::string(80, 'b')});
    CHECK(listen.hsts == std::chrono::seconds{2 * 31'536'000});
    CHECK(loaded.config->asks_for_certificates());
}

TEST_CASE("listener tls: every file that a listener or an upstream names is to be watched, once") {
    const ListenerFiles files;
    files.add("site");
    files.add("ca", {.is_authority = true});
    files.write("ticket.keys", std::string(80, 'a'));
    const auto loaded =
        files.load(kShort + ", client_auth: require, client_ca: ca.pem, ticket_keys: ticket.keys",
                   "upstreams: {api: {servers: [https://a], tls: {ca: ca.pem}}}\n");
    listener_of(loaded);
    CHECK(loaded.config->files ==
          std::vector<std::string>{files.path("ca.pem"), files.path("site.key"),
                                   files.path("site.pem"), files.path("ticket.keys")});
}

TEST_CASE("listener tls: a certificate that has expired stops a start, and not a reload") {
    const Wanted old{.validity = {-90 * kDay, -kDay}};
    const std::string said = fault_of(old);
    CHECK(said.starts_with("4:22: listen.tls.certificate: the certificate in `"));
    CHECK(has(said, "has expired, on 20"));
    CHECK(has(said, "clients refuse it: renew it"));
    const ListenerFiles files;
    files.add("site", old);
    const auto again = files.load(kShort, "", config::Occasion::reload);
    CHECK(again.errors.empty());
    CHECK(has(only(again.warnings), "has expired, on 20"));
}

TEST_CASE("listener tls: a certificate that is not valid yet is a fault, on a reload as well") {
    const Wanted early{.validity = {kDay, 90 * kDay}};
    CHECK(has(fault_of(early), "is not valid before 20"));
    const ListenerFiles files;
    files.add("site", early);
    CHECK(files.load(kShort, "", config::Occasion::reload).errors.size() == 1);
}

TEST_CASE(
    "listener tls: an expiring certificate is reported two weeks before, with the days left") {
    const auto ending = [](long life, long left) {
        return warning_of({.validity = {left - life, left}});
    };
    CHECK(ending(90 * kDay, 15 * kDay) == "0");
    CHECK(has(ending(90 * kDay, 13 * kDay + 3'600), "expires in 13 days, on 20"));
    CHECK(has(ending(90 * kDay, kDay + 3'600), "expires in 1 day, on 20"));
    CHECK(has(ending(90 * kDay, 3'600), "expires in less than a day, on 20"));
    // One for six days is new with five left.
    CHECK(ending(6 * kDay, 5 * kDay) == "0");
    CHECK(has(ending(6 * kDay, kDay + 3'600), "expires in 1 day"));
}

TEST_CASE("listener tls: keys that clients refuse are faults") {
    CHECK(has(fault_of({.key = "RSA-1024"}), "has an RSA key of 1024 bits, which clients refuse"));
    CHECK(has(fault_of({.key = "secp256k1"}), "has a key on the curve `secp256k1`"));
    CHECK(has(fault_of({.key = "P-224"}), "has a key on the curve `secp224r1`"));
    CHECK(has(fault_of({.key = "ED448"}), "has a key of a kind that clients refuse"));
    for (const std::string key : {"P-256", "P-384", "P-521"}) {
        CHECK(warning_of({.key = key}) == "0");
    }
    CHECK(has(warning_of({.key = "ED25519"}), "Ed25519 key, which browsers refuse"));
}

TEST_CASE("listener tls: a certificate without a name is one that no client takes") {
    CHECK(has(warning_of({.names = ""}), "has no subject alternative name, and clients refuse it"));
    CHECK(warning_of({.names = "IP:192.0.2.1"}) == "0");
}

TEST_CASE("listener tls: a key of another certificate is named with the one that it belongs to") {
    const ListenerFiles files;
    files.add("site");
    const auto other = files.add("other", {.names = "DNS:other.example"});
    const std::string swapped =
        "certificates: [{certificate: site.pem, key: other.key}, {certificate: other.pem, key: "
        "site.key}]";
    const auto loaded = files.load(swapped);
    REQUIRE(loaded.errors.size() == 2);
    CHECK(has(loaded.errors[0].message, "certificates[0].key: this key does not belong to"));
    CHECK(has(loaded.errors[0].message, "but to listen.tls.certificates[1].certificate"));
    CHECK(has(loaded.errors[1].message, "but to listen.tls.certificates[0].certificate"));

    const auto issuer = test::make_site_certificate({.is_authority = true});
    const auto leaf = test::make_site_certificate({.issuer = &issuer});
    files.write("late.pem", issuer.pem() + leaf.pem());
    files.write("late.key", leaf.key_pem());
    CHECK(has(only(files.load("certificate: late.pem, key: late.key").errors),
              "but to certificate 2 there: put that one first"));
    CHECK(has(only(files.load("certificate: site.pem, key: late.key").errors),
              "this key does not belong to the first certificate in `"));
}

TEST_CASE("listener tls: one name has one certificate of each kind of key") {
    const ListenerFiles files;
    files.add("site", {.names = "DNS:a.example,DNS:b.example"});
    files.add("rsa", {.names = "DNS:a.example", .key = "RSA-2048"});
    files.add("ec", {.names = "DNS:c.example,DNS:B.example"});
    const auto pair = [](const std::string& name, const std::string& more = "") {
        return "{certificate: " + name + ".pem, key: " + name + ".key" + more + "}";
    };
    listener_of(files.load("certificates: [" + pair("site") + ", " + pair("rsa") + "]"));
    CHECK(only(files.load("certificates: [" + pair("site") + ", " + pair("ec") + "]").errors) ==
          "4:78: listen.tls.certificates[1].certificate: `b.example` has an ECDSA certificate "
          "already, listen.tls.certificates[0].certificate: keep one of them");
    CHECK(has(only(files
                       .load("certificates: [" + pair("rsa") + ", " +
                             pair("rsa", ", names: [z.example]") + "]")
                       .errors),
              "`a.example` has an RSA certificate already"));
    // Written names are names.
    files.add("other", {.names = "DNS:d.example"});
    CHECK(has(only(files
                       .load("certificates: [" + pair("site") + ", " +
                             pair("other", ", names: [A.example.]") + "]")
                       .errors),
              "`a.example` has an ECDSA certificate already"));
}

TEST_CASE("listener tls: a chain that lacks an issuer or its order is warned about") {
    const ListenerFiles files;
    const auto root = test::make_site_certificate({.subject = "root", .is_authority = true});
    const auto middle =
        test::make_site_certificate({.subject = "middle", .issuer = &root, .is_authority = true});
    const Wanted leaf{.issuer = &middle, .issuer_location = "http://ca.example/middle.der"};
    // The machine knows an authority, which is another one.
    files.write("system.pem", test::make_site_certificate({.is_authority = true}).pem());
    ::setenv("SSL_CERT_FILE", files.path("system.pem").c_str(), 1);

    files.add("site", leaf);
    const std::string said = only(files.load(kShort).warnings);
    CHECK(has(said,
              "is not complete: append the certificate of `CN=middle`, which is at "
              "`http://ca.example/middle.der`"));
    files.add("site", leaf, middle.pem());
    CHECK(has(only(files.load(kShort).warnings), "append the certificate of `CN=root`"));
    files.add("site", leaf, middle.pem() + root.pem());
    CHECK(only(files.load(kShort).warnings) == "0");
    files.add("site", leaf, root.pem() + middle.pem());
    CHECK(has(only(files.load(kShort).warnings),
              "the certificate of `CN=site` is not followed by that of its issuer, `CN=middle`"));

    files.write("system.pem", root.pem());
    files.add("site", leaf, middle.pem());
    CHECK(only(files.load(kShort).warnings) == "0");

    // On a machine that knows no authority at all, there is no warning about a missing one.
    ::setenv("SSL_CERT_FILE", files.path("none.pem").c_str(), 1);
    ::setenv("SSL_CERT_DIR", "/nonexistent", 1);
    files.add("site", leaf);
    CHECK(only(files.load(kShort).warnings) == "0");
    ::unsetenv("SSL_CERT_DIR");
    ::unsetenv("SSL_CERT_FILE");
}

TEST_CASE("listener tls: an issuer in the chain that has expired is warned about") {
    const ListenerFiles files;
    const auto issuer =
        test::make_site_certificate({.validity = {-9 * kDay, -kDay}, .is_authority = true});
    files.add("site", {.issuer = &issuer}, issuer.pem());
    CHECK(has(only(files.load(kShort).warnings), "a certificate in `"));
}

TEST_CASE("listener tls: secrets that others may read are warned about") {
    const ListenerFiles files;
    files.add("site");
    files.write("ticket.keys",
                std::string(240, 'a').replace(0, 80, 80, 'b').replace(80, 80, 80, 'c'));
    const std::string tls = kShort + ", ticket_keys: ticket.keys";
    CHECK(listener_of(files.load(tls)).tls->ticket_keys.size() == 3);
    REQUIRE(::chmod(files.path("site.key").c_str(), 0644) == 0);
    CHECK(has(only(files.load(tls).warnings), "may read the private key"));
    REQUIRE(::chmod(files.path("site.key").c_str(), 0600) == 0);
    REQUIRE(::chmod(files.path("ticket.keys").c_str(), 0644) == 0);
    CHECK(has(only(files.load(tls).warnings), "may read the ticket keys"));
}

TEST_CASE("listener tls: ticket keys are one to four of 80 bytes, no two the same") {
    const ListenerFiles files;
    files.add("site");
    for (const std::size_t size : {0, 48, 79, 81, 400}) {
        files.write("ticket.keys", std::string(size, 'a'));
        const std::string said = only(files.load(kShort + ", ticket_keys: ticket.keys").errors);
        CHECK(has(said, " has " + std::to_string(size) +
                            " bytes: it holds one to four keys of 80 "
                            "bytes each"));
        CHECK(has(said, "`openssl rand -out ticket.keys 80`"));
    }
    files.write("ticket.keys", std::string(160, 'a'));
    CHECK(has(only(files.load(kShort + ", ticket_keys: ticket.keys").errors), "a key twice"));
}

TEST_CASE("listener tls: hsts is a duration of whole seconds, and years are one of its units") {
    const ListenerFiles files;
    files.add("site");
    const auto seconds = [&](const std::string& hsts) {
        return listener_of(files.load(kShort + ", hsts: " + hsts)).hsts.count();
    };
    CHECK(seconds("off") == 0);
    CHECK(seconds("1y") == 31'536'000);
    CHECK(seconds("180day") == 15'552'000);
    CHECK(seconds("5min") == 300);
    for (const std::string wrong : {"0s", "11y", "0y", "100ms", "y", "1.5y", "31536000"}) {
        CHECK(has(only(files.load(kShort + ", hsts: " + wrong).errors),
                  "is not a duration of whole seconds from `1s` to `10y`"));
    }
    CHECK(has(only(files.load(kShort + ", hsts: 31536000").errors), "add the unit, `31536000s`"));
    CHECK(has(only(files.load(kShort + ", hsts: {max_age: 1y}").errors),
              "found a map; expected only the duration, such as `1y`"));
    const auto twice =
        files.load(kShort + ", hsts: 1y",
                   "response: {extra_headers: {X-A: b, strict-transport-security: max-age=1}}\n");
    CHECK(
        has(only(twice.warnings), "response.extra_headers: `Strict-Transport-Security` is added"));
}

// Listeners behind a balancer: `proxy_protocol`, `forwarded_proto` and the time for the header.

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

config::Loaded loaded(const std::string& text) {
    auto all = config::load_text(text, "t");
    CAPTURE(text);
    for (const auto& error : all.errors) FAIL_CHECK(error.to_string());
    REQUIRE(all.config != nullptr);
    return all;
}

config::Listen listener(const std::string& listen) {
    return loaded("listen: " + listen + "\n" + kUpstream).config->listen.at(0);
}

}  // namespace

TEST_CASE("proxy_protocol: only the networks in `from` may send the header") {
    const auto listen =
        listener("{address: 10.0.0.7:8081, proxy_protocol: {from: [10.0.0.0/8, \"fd00::/8\"]}}");
    REQUIRE(listen.proxy_protocol.has_value());
    for (const std::string peer : {"10.0.0.1", "10.255.255.255", "fd00::1"}) {
        CHECK(listen.proxy_protocol->admits(parse_ip(peer)));
    }
    for (const std::string peer : {"11.0.0.1", "127.0.0.1", "fe80::1"}) {
        CHECK_FALSE(listen.proxy_protocol->admits(parse_ip(peer)));
    }
    CHECK(listener("{address: 10.0.0.7:8081, proxy_protocol: {from: 10.0.0.0/8}}").proxy_protocol);
}

TEST_CASE("proxy_protocol: a listener has none unless it says so") {
    CHECK_FALSE(listener("8080").proxy_protocol);
    CHECK_FALSE(listener("{address: 8080}").proxy_protocol);
    CHECK_FALSE(listener("{address: 8080, proxy_protocol: off}").proxy_protocol);
    CHECK_FALSE(listener("{address: \"unix:/run/t.sock\", proxy_protocol: off}").proxy_protocol);
}

TEST_CASE("proxy_protocol: at a Unix socket every peer that can connect may send it") {
    for (const std::string how : {"on", "{}"}) {
        const auto listen =
            listener("{address: \"unix:/run/t.sock\", proxy_protocol: " + how + "}");
        REQUIRE(listen.proxy_protocol.has_value());
        CHECK(listen.proxy_protocol->admits(std::nullopt));
    }
}

TEST_CASE("proxy_protocol: upstreams get https as the scheme where the balancer ends TLS") {
    CHECK_FALSE(listener("8080").is_https);
    CHECK_FALSE(listener("{address: 8080, forwarded_proto: http}").is_https);
    CHECK(listener("{address: 8080, forwarded_proto: https}").is_https);
    CHECK(listener("{address: 8080, forwarded_proto: https, proxy_protocol: {from: 10.0.0.1}}")
              .is_https);
}

TEST_CASE("proxy_protocol: the header has 5 seconds unless tls_handshake says otherwise") {
    const std::string listen = "listen: {address: 8080, proxy_protocol: {from: 10.0.0.1}}\n";
    CHECK(loaded(kUpstream).config->timeouts.tls_handshake == std::chrono::seconds{5});
    const auto own = loaded(listen + "timeouts: {tls_handshake: 300ms}\n" + kUpstream);
    CHECK(own.config->timeouts.tls_handshake == std::chrono::milliseconds{300});
    CHECK(own.warnings.empty());
}

TEST_CASE("proxy_protocol: gateways and programs that ask may come through a balancer") {
    const std::string listen =
        "listen: {address: \"127.0.0.1:8181\", proxy_protocol: {from: 127.0.0.1}, from: "
        "10.0.0.0/8, ";
    for (const std::string face : {"face: forward_auth, dialect: nginx", "face: check"}) {
        const auto all = loaded(listen + face + "}\nlimits: [9/h]\n");
        CHECK(all.config->listen.at(0).proxy_protocol.has_value());
        CHECK_FALSE(all.config->listen.at(0).admits(parse_ip("127.0.0.1")));
    }
}

}  // namespace tidegate::config_listener_test

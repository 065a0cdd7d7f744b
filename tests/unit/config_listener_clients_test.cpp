// Client certificates, redirects, and other settings beside `tls` of a listener.
#include <string>

#include "listener_files.hpp"

namespace tidegate::config_listener_clients_test {

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
    const auto& method = std::get<identity::CertificateMethod>(asked.config->user_methods[0].how);
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

}  // namespace tidegate::config_listener_clients_test

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tls/tls_client.hpp"
#include "unit/tls_server_world.hpp"

namespace tidegate::tls_server_test {

namespace {

using test::Authority;
using test::Certificate;
using test::ClientHello;
using test::KeyKind;
using test::Meeting;
using test::shown;
using Shown = std::vector<ServerCertificate>;

constexpr int kVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

bool has_group(const std::string& group) {
    SSL_CTX* const scratch = SSL_CTX_new(TLS_client_method());
    const bool is_set = SSL_CTX_set1_groups_list(scratch, group.c_str()) == 1;
    SSL_CTX_free(scratch);
    ERR_clear_error();
    return is_set;
}

// A listener whose certificates are in the order in which they are added.
struct Listener {
    const Certificate& add(KeyKind kind, const std::string& names) {
        made.push_back(std::make_unique<Certificate>(authority.issue(kind, names)));
        settings.certificates.push_back(shown("file " + std::to_string(made.size()), *made.back()));
        return *made.back();
    }
    TlsServer server() const { return {test::credentials_of(settings), test::new_ticket_keys()}; }

    Authority authority;
    std::vector<std::unique_ptr<Certificate>> made;
    TlsServerSettings settings;
};

TEST_CASE("tls server: the certificate is that of the name, else of the wildcard, else the first") {
    Listener listener;
    const Certificate& first = listener.add(KeyKind::p256, "DNS:first.example");
    const Certificate& wildcard = listener.add(KeyKind::p256, "DNS:*.b.example");
    const Certificate& exact = listener.add(KeyKind::p256, "DNS:api.b.example,DNS:c.example");
    listener.settings.certificates[1].names = {"more.example"};
    const TlsServer server = listener.server();
    for (const int version : kVersions) {
        const auto shows = [&](const std::string& name, const Certificate& expected) {
            const Meeting meeting(server.connection(), {.name = name, .version = version});
            CAPTURE(name);
            CHECK(meeting.is_shaken());
            CHECK(meeting.was_shown(expected));
        };
        shows("first.example", first);
        shows("api.b.example", exact);
        shows("API.B.example.", exact);
        shows("c.example", exact);
        shows("www.b.example", wildcard);
        shows("more.example", wildcard);
        shows("a.www.b.example", first);
        shows("b.example", first);
        shows("unknown.example", first);
        shows("192.0.2.1", first);
        shows("not a name", first);
        shows("", first);
    }
}

TEST_CASE("tls server: a client that sends no name gets the certificate for an address") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const Certificate& address = listener.add(KeyKind::p256, "DNS:b.example,IP:192.0.2.1");
    for (const UnknownNames rule : {UnknownNames::first, UnknownNames::refuse}) {
        listener.settings.unknown_names = rule;
        const TlsServer server = listener.server();
        CHECK(Meeting(server.connection(), {}).was_shown(address));
        // Some clients send it, although they ought not to.
        CHECK(Meeting(server.connection(), {.name = "192.0.2.1"}).was_shown(address));
    }
}

TEST_CASE("tls server: unknown names are refused by an alert where the settings say so") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const Certificate& b = listener.add(KeyKind::rsa, "DNS:*.b.example");
    listener.settings.unknown_names = UnknownNames::refuse;
    const TlsServer server = listener.server();
    for (const int version : kVersions) {
        for (const std::string name : {"c.example", "b.example", "", "192.0.2.1"}) {
            CAPTURE(name);
            const Meeting meeting(server.connection(), {.name = name, .version = version});
            CHECK_FALSE(meeting.is_shaken());
            CHECK(meeting.client_error() == SSL_R_TLSV1_UNRECOGNIZED_NAME);
        }
        const Meeting known(server.connection(), {.name = "x.b.example", .version = version});
        CHECK(known.was_shown(b));
    }
}

TEST_CASE("tls server: of several certificates for a name, ECDSA where the client can") {
    Listener listener;
    const Certificate& first_rsa = listener.add(KeyKind::rsa, "DNS:a.example");
    const Certificate& b_rsa = listener.add(KeyKind::rsa, "DNS:b.example");
    const Certificate& first_ec = listener.add(KeyKind::p384, "DNS:a.example");
    const Certificate& b_ec = listener.add(KeyKind::p256, "DNS:b.example");
    const TlsServer server = listener.server();
    const auto shows = [&](ClientHello hello, const Certificate& first, const Certificate& b) {
        for (const std::string name : {"a.example", "b.example", "unknown.example"}) {
            CAPTURE(name);
            hello.name = name;
            const Meeting meeting(server.connection(), hello);
            CHECK(meeting.is_shaken());
            CHECK(meeting.was_shown(name == "b.example" ? b : first));
        }
    };
    const std::string both = "RSA-PSS+SHA256:RSA+SHA256:ECDSA+SHA256:ECDSA+SHA384";
    for (const int version : kVersions) {
        CAPTURE(version);
        shows({.version = version}, first_ec, b_ec);
        shows({.version = version, .signatures = both}, first_ec, b_ec);
        shows({.version = version, .signatures = "RSA-PSS+SHA256:RSA+SHA256"}, first_rsa, b_rsa);
        shows({.version = version, .signatures = "ECDSA+SHA256:ECDSA+SHA384"}, first_ec, b_ec);
    }
    // In TLS 1.2, the client's list of ciphers counts, too.
    shows({.version = TLS1_2_VERSION, .ciphers = "ECDHE-RSA-AES128-GCM-SHA256"}, first_rsa, b_rsa);
    shows({.version = TLS1_2_VERSION,
           .ciphers = "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"},
          first_ec, b_ec);
    // In TLS 1.3, a signature has a curve.
    const Meeting curve(server.connection(), {.name = "a.example",
                                              .version = TLS1_3_VERSION,
                                              .signatures = "ECDSA+SHA256:RSA-PSS+SHA256"});
    CHECK(curve.was_shown(first_rsa));
}

TEST_CASE("tls server: a name has no certificates but its own") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const Certificate& b = listener.add(KeyKind::rsa, "DNS:b.example");
    const Certificate& c = listener.add(KeyKind::ed25519, "DNS:c.example");
    const TlsServer server = listener.server();
    for (const int version : kVersions) {
        CHECK(Meeting(server.connection(), {.name = "b.example", .version = version}).was_shown(b));
        CHECK(Meeting(server.connection(), {.name = "c.example", .version = version}).was_shown(c));
        const Meeting meeting(
            server.connection(),
            {.name = "b.example", .version = version, .signatures = "ECDSA+SHA256"});
        CHECK_FALSE(meeting.is_shaken());
        CHECK(meeting.client_error() == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE);
    }
}

TEST_CASE("tls server: a certificate is shown with its chain, lent or not") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    listener.add(KeyKind::p256, "DNS:b.example");
    for (auto& one : listener.settings.certificates) one.certificate += listener.authority.pem();
    const TlsServer server = listener.server();
    CHECK(Meeting(server.connection(), {.name = "a.example"}).chain_size() == 2);
    CHECK(Meeting(server.connection(), {.name = "b.example"}).chain_size() == 2);
}

TEST_CASE("tls server: versions before the oldest are refused") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const auto is_refused = [&](int version) {
        const Meeting meeting(listener.server().connection(), {.version = version});
        if (meeting.is_shaken()) return false;
        CHECK(meeting.client_error() == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
        return true;
    };
    CHECK(is_refused(TLS1_VERSION));
    CHECK(is_refused(TLS1_1_VERSION));
    CHECK_FALSE(is_refused(TLS1_2_VERSION));
    CHECK_FALSE(is_refused(TLS1_3_VERSION));
    listener.settings.min_version = TlsVersion::tls_1_3;
    CHECK(is_refused(TLS1_2_VERSION));
    CHECK_FALSE(is_refused(TLS1_3_VERSION));
}

TEST_CASE("tls server: ciphers have forward secrecy and authenticate, in the server's order") {
    Listener listener;
    listener.add(KeyKind::rsa, "DNS:a.example");
    const TlsServer server = listener.server();
    const auto agreed = [&](const std::string& ciphers) {
        const Meeting meeting(server.connection(), {.version = TLS1_2_VERSION, .ciphers = ciphers});
        return meeting.is_shaken() ? meeting.cipher() : "";
    };
    for (const std::string weak :
         {"AES128-GCM-SHA256", "AES256-SHA", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA",
          "ECDHE-RSA-AES128-SHA256", "AECDH-AES128-SHA", "ECDHE-RSA-NULL-SHA"}) {
        CAPTURE(weak);
        CHECK(agreed(weak).empty());
    }
    CHECK(agreed("ALL") == "ECDHE-RSA-AES128-GCM-SHA256");
    CHECK(agreed("ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256") ==
          "ECDHE-RSA-AES128-GCM-SHA256");
    CHECK(agreed("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305") ==
          "ECDHE-RSA-AES128-GCM-SHA256");
    // It comes first from clients that have no AES in hardware.
    CHECK(agreed("ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256") ==
          "ECDHE-RSA-CHACHA20-POLY1305");
}

TEST_CASE("tls server: of TLS 1.3, three suites in the server's order") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const TlsServer server = listener.server();
    const auto agreed = [&](const std::string& suites) {
        const Meeting meeting(server.connection(), {.version = TLS1_3_VERSION, .suites = suites});
        return meeting.is_shaken() ? meeting.cipher() : "";
    };
    const std::string small = "TLS_AES_128_GCM_SHA256";
    const std::string large = "TLS_AES_256_GCM_SHA384";
    const std::string chacha = "TLS_CHACHA20_POLY1305_SHA256";
    for (const std::string& one : {small, large, chacha}) CHECK(agreed(one) == one);
    CHECK(agreed(large + ":" + small) == small);
    CHECK(agreed(large + ":" + chacha + ":" + small) == small);
    CHECK(agreed(chacha + ":" + small) == chacha);
    CHECK(agreed("TLS_AES_128_CCM_SHA256").empty());
}

TEST_CASE("tls server: keys are agreed upon over X25519, P-256 or P-384") {
    Listener listener;
    listener.add(KeyKind::rsa, "DNS:a.example");
    const TlsServer server = listener.server();
    for (const int version : kVersions) {
        const auto agrees = [&](const std::string& groups) {
            return Meeting(server.connection(), {.version = version, .groups = groups}).is_shaken();
        };
        for (const std::string group : {"X25519", "P-256", "P-384", "P-521:P-384"}) {
            CAPTURE(group);
            CHECK(agrees(group));
        }
        for (const std::string group : {"P-521", "X448"}) CHECK_FALSE(agrees(group));
    }
    CHECK_FALSE(Meeting(server.connection(), {.version = TLS1_3_VERSION, .groups = "ffdhe2048"})
                    .is_shaken());
}

TEST_CASE("tls server: where OpenSSL has post-quantum key exchange, clients that offer it get it") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const TlsServer server = listener.server();
    for (const std::string hybrid : {"X25519MLKEM768", "SecP256r1MLKEM768"}) {
        CAPTURE(hybrid);
        if (!has_group(hybrid)) continue;
        CHECK(Meeting(server.connection(), {.version = TLS1_3_VERSION, .groups = hybrid})
                  .is_shaken());
        const Meeting both(server.connection(),
                           {.version = TLS1_3_VERSION, .groups = hybrid + ":X25519"});
        CHECK(both.is_shaken());
        CHECK(SSL_get_negotiated_group(both.client()) != NID_X25519);
    }
    // Clients without it are served as before.
    const Meeting older(server.connection(), {.version = TLS1_3_VERSION, .groups = "X25519"});
    CHECK(older.is_shaken());
    CHECK(SSL_get_negotiated_group(older.client()) == NID_X25519);
}

TEST_CASE(
    "tls client: where OpenSSL has post-quantum key exchange, Tidegate offers it to servers") {
    TlsSettings settings;
    settings.verify = false;
    const auto client = TlsClient::make(settings);
    REQUIRE(client);
    const TlsPtr tls = (*client)->connection_to("a.example");
    BIO* const sent = BIO_new(BIO_s_mem());
    SSL_set_bio(tls.get(), BIO_new(BIO_s_mem()), sent);
    CHECK(SSL_connect(tls.get()) < 0);
    ERR_clear_error();
    // The first message has the public key of each group that the client expects the server to
    // take.
    constexpr std::size_t kMlKem768Bytes = 1184;
    CHECK((BIO_ctrl_pending(sent) > kMlKem768Bytes) == has_group("X25519MLKEM768"));
}

TEST_CASE("tls server: signatures with old hashes are not made") {
    Listener listener;
    listener.add(KeyKind::rsa, "DNS:a.example");
    const TlsServer server = listener.server();
    for (const std::string old : {"RSA+SHA1", "RSA+SHA224"}) {
        CHECK_FALSE(Meeting(server.connection(), {.version = TLS1_2_VERSION, .signatures = old})
                        .is_shaken());
    }
    CHECK(Meeting(server.connection(), {.version = TLS1_2_VERSION, .signatures = "RSA+SHA512"})
              .is_shaken());
}

TEST_CASE("tls server: a client cannot negotiate again") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const TlsServer server = listener.server();
    Meeting meeting(server.connection(), {.version = TLS1_2_VERSION});
    REQUIRE(meeting.is_shaken());
    REQUIRE(SSL_renegotiate(meeting.client()) == 1);
    SSL_do_handshake(meeting.client());
    meeting.peer().flush();
    std::string text(100, '\0');
    meeting.channel().note_arrival(false);
    CHECK(meeting.channel().read(text).status == TlsChannel::Status::wants_read);
    ERR_clear_error();
    meeting.peer().heard();
    CHECK(ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
}

TEST_CASE("tls server: a connection outlives it") {
    Listener listener;
    listener.add(KeyKind::p256, "DNS:a.example");
    const Certificate& b = listener.add(KeyKind::p256, "DNS:b.example");
    TlsPtr connection = listener.server().connection();
    Meeting meeting(std::move(connection), {.name = "b.example"});
    CHECK(meeting.is_shaken());
    CHECK(meeting.was_shown(b));
    CHECK(meeting.tickets() == 1);
}

constexpr int kProtocolVersions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
const std::string kH2 = "\x02h2";
const std::string kH11 = "\x08http/1.1";
const std::string kH10 = "\x08http/1.0";
const std::string kRefused = "refused";

struct HttpListener {
    explicit HttpListener(HttpVersions http) {
        TlsServerSettings settings;
        settings.certificates = {shown("a.pem", authority.issue("DNS:a.example"))};
        settings.http = http;
        credentials = test::credentials_of(settings);
    }
    TlsServer server() const { return {credentials, tickets}; }

    Authority authority;
    std::shared_ptr<const ServerCredentials> credentials;
    std::shared_ptr<TicketKeys> tickets = test::new_ticket_keys();
};

// The protocol, as both sides have it; empty: none was named. Or kRefused, by the alert for that.
std::string agreed(const TlsServer& server, ClientHello hello) {
    const std::string offered = hello.protocols;
    Meeting meeting(server.connection(), std::move(hello));
    CAPTURE(offered);
    if (!meeting.is_shaken()) {
        CHECK(meeting.client_error() == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
        CHECK(meeting.channel().sent_alert() == SSL_AD_NO_APPLICATION_PROTOCOL);
        return kRefused;
    }
    CHECK(meeting.channel().sent_alert() == 0);
    CHECK(meeting.channel().speaks_http2() == (meeting.protocol() == "h2"));
    return meeting.protocol();
}

// Calls `check` with what a client of each version of TLS gets that offers `protocols`.
template <class Check>
void in_each_version(HttpVersions http, Check check) {
    const HttpListener listener(http);
    const TlsServer server = listener.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        check([&](const std::string& protocols) {
            return agreed(server, {.version = version, .protocols = protocols});
        });
    }
}

TEST_CASE("tls server: clients that offer HTTP/2 get it, wherever they put it") {
    in_each_version(HttpVersions::both, [](const auto& agreed_on) {
        CHECK(agreed_on(kH2) == "h2");
        CHECK(agreed_on(kH2 + kH11) == "h2");
        CHECK(agreed_on(kH11 + kH2) == "h2");
        CHECK(agreed_on("\x03xyz" + kH2) == "h2");
    });
}

TEST_CASE("tls server: clients without HTTP/2 get HTTP/1, also those that offer nothing") {
    in_each_version(HttpVersions::both, [](const auto& agreed_on) {
        CHECK(agreed_on("").empty());
        CHECK(agreed_on(kH11) == "http/1.1");
        CHECK(agreed_on(kH10 + kH11) == "http/1.1");
        CHECK(agreed_on(kH10) == "http/1.0");
    });
}

TEST_CASE("tls server: a listener of HTTP/1 does not speak HTTP/2") {
    in_each_version(HttpVersions::http1, [](const auto& agreed_on) {
        CHECK(agreed_on("").empty());
        CHECK(agreed_on(kH2 + kH11) == "http/1.1");
        CHECK(agreed_on(kH10) == "http/1.0");
        CHECK(agreed_on(kH2) == kRefused);
        CHECK(agreed_on("\x03xyz" + kH2) == kRefused);
    });
}

TEST_CASE("tls server: a listener of HTTP/2 refuses all others, also those that offer nothing") {
    in_each_version(HttpVersions::http2, [](const auto& agreed_on) {
        CHECK(agreed_on(kH2) == "h2");
        CHECK(agreed_on(kH11 + kH2) == "h2");
        CHECK(agreed_on("") == kRefused);
        CHECK(agreed_on(kH11) == kRefused);
    });
}

TEST_CASE("tls server: clients that offer none of the listener's protocols are refused") {
    for (const HttpVersions http : {HttpVersions::both, HttpVersions::http1, HttpVersions::http2}) {
        in_each_version(http, [](const auto& agreed_on) {
            for (const std::string other : {"\x04smtp", "\x09http/1.1x", "\x03h2c", "\x02H2"}) {
                CHECK(agreed_on(other) == kRefused);
            }
        });
    }
}

TEST_CASE("tls server: a session that is resumed agrees on a protocol of its own") {
    const HttpListener both(HttpVersions::both);
    const TlsServer server = both.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        const Meeting first(server.connection(), {.version = version, .protocols = kH2});
        REQUIRE(first.is_shaken());
        const TlsSessionPtr session = first.session();
        const auto resumed = [&](const std::string& protocols) {
            Meeting meeting(server.connection(),
                            {.version = version, .protocols = protocols, .session = session.get()});
            REQUIRE(meeting.is_shaken());
            CHECK(meeting.is_resumed());
            CHECK(meeting.channel().speaks_http2() == (meeting.protocol() == "h2"));
            return meeting.protocol();
        };
        CHECK(resumed(kH2) == "h2");
        CHECK(resumed(kH11) == "http/1.1");
        CHECK(resumed("").empty());
    }
}

TEST_CASE("tls server: a ticket does not lead around a listener's protocols") {
    const HttpListener both(HttpVersions::both);
    HttpListener later(HttpVersions::http2);
    later.tickets = both.tickets;
    const TlsServer before = both.server();
    const TlsServer after = later.server();
    for (const int version : kProtocolVersions) {
        CAPTURE(version);
        const Meeting first(before.connection(), {.version = version, .protocols = kH11});
        REQUIRE(first.is_shaken());
        const TlsSessionPtr session = first.session();
        const auto resumed = [&](const std::string& protocols) {
            return agreed(after,
                          {.version = version, .protocols = protocols, .session = session.get()});
        };
        CHECK(resumed(kH2) == "h2");
        CHECK(resumed(kH11) == kRefused);
        CHECK(resumed("") == kRefused);
    }
}

TEST_CASE("tls server: HTTP/2 needs no server name") {
    const HttpListener listener(HttpVersions::http2);
    const TlsServer server = listener.server();
    CHECK(agreed(server, {.protocols = kH2}) == "h2");
    CHECK(agreed(server, {.name = "a.example", .protocols = kH2}) == "h2");
}

TlsServerSettings settings_of(Shown certificates) {
    TlsServerSettings settings;
    settings.certificates = std::move(certificates);
    return settings;
}

std::string fault_of(const TlsServerSettings& settings) {
    const auto parsed = parse_credentials(settings);
    return parsed ? "" : parsed.error();
}

std::string fault_of(Shown certificates) {
    return fault_of(settings_of(std::move(certificates)));
}

TEST_CASE("server credentials: files that hold the wrong thing are named") {
    const Authority authority;
    const auto made = authority.issue("DNS:a.example");
    const auto other = authority.issue("DNS:a.example");
    CHECK(fault_of(Shown{}) == "a listener with `tls` needs a certificate");
    CHECK(fault_of(Shown{{"", made.key_pem(), {}, "a.pem"}}) ==
          "the file `a.pem` holds no certificate (PEM: `-----BEGIN CERTIFICATE-----`)");
    CHECK(fault_of(Shown{{made.pem(), made.pem(), {}, "a.pem"}}) ==
          "the file of the key for `a.pem` holds no private key (PEM: `-----BEGIN PRIVATE "
          "KEY-----`)");
    CHECK(fault_of(Shown{{made.pem(), other.key_pem(), {}, "a.pem"}}) ==
          "the key for `a.pem` does not belong to the certificate (the first one in the file)");
    CHECK(fault_of(Shown{{authority.pem() + made.pem(), made.key_pem(), {}, "a.pem"}}) ==
          "the key for `a.pem` does not belong to the certificate (the first one in the file)");
}

TEST_CASE("server credentials: keys that are too weak, or not for TLS, are refused") {
    const Authority authority;
    const auto with = [&](KeyKind kind) {
        return fault_of(Shown{shown("a.pem", authority.issue(kind, "DNS:a.example"))});
    };
    CHECK(with(KeyKind::short_rsa) ==
          "the key for `a.pem` has only 1024 bits: RSA needs at least 2048");
    CHECK(with(KeyKind::secp256k1) ==
          "the key for `a.pem` has a curve that TLS does not have: make a key of P-256");
    for (const KeyKind kind : {KeyKind::p256, KeyKind::p384, KeyKind::rsa, KeyKind::ed25519}) {
        CHECK(with(kind).empty());
    }
}

TEST_CASE("server credentials: two certificates for a name need keys of two types") {
    const Authority authority;
    const auto ec = authority.issue(KeyKind::p256, "DNS:a.example,DNS:b.example");
    const auto rsa = authority.issue(KeyKind::rsa, "DNS:a.example,DNS:b.example");
    const auto ec_too = authority.issue(KeyKind::p384, "DNS:c.example,DNS:B.example");
    const auto wildcard = authority.issue(KeyKind::p256, "DNS:*.example,DNS:*.a.example");
    CHECK(fault_of(Shown{shown("ec.pem", ec), shown("rsa.pem", rsa), shown("w.pem", wildcard)})
              .empty());
    CHECK(fault_of(Shown{shown("ec.pem", ec), shown("rsa.pem", rsa), shown("too.pem", ec_too)}) ==
          "two certificates for `b.example` have keys of one type (ECDSA): those in `ec.pem` and "
          "`too.pem`");
    CHECK(fault_of(Shown{shown("w.pem", wildcard), shown("ec.pem", ec, {"*.A.example"})}) ==
          "two certificates for `*.a.example` have keys of one type (ECDSA): those in `w.pem` and "
          "`ec.pem`");
    // Two findings about one certificate are reported once.
    CHECK(fault_of(Shown{shown("ec.pem", ec, {"a.example", "x.example", "X.example."})}).empty());
}

TEST_CASE("server credentials: a certificate that no client can ask for is refused") {
    const Authority authority;
    const auto named = authority.issue("DNS:a.example");
    const auto nameless = authority.issue("");
    const std::string fault =
        "the certificate in `n.pem` has no subject alternative name, so that no client can ask for "
        "it: give it `names`";
    CHECK(fault_of(Shown{shown("a.pem", named), shown("n.pem", nameless)}) == fault);
    CHECK(fault_of(Shown{shown("a.pem", named), shown("n.pem", nameless, {"b.example"})}).empty());
    auto first = settings_of({shown("n.pem", nameless)});
    CHECK(fault_of(first).empty());
    first.unknown_names = UnknownNames::refuse;
    CHECK(fault_of(first) == fault);
    CHECK(fault_of(Shown{shown("a.pem", named, {"b c"})}) ==
          "`b c`, a name for `a.pem`, is no host name");
}

TEST_CASE("server credentials: at most 10,000 names in all") {
    const Authority authority;
    std::vector<std::string> names;
    for (std::size_t i = 1; i < TlsServerSettings::kNamesMax; ++i) {
        names.push_back("n" + std::to_string(i) + ".example");
    }
    const auto made = authority.issue("DNS:a.example");
    CHECK(fault_of(Shown{shown("a.pem", made, names)}).empty());
    const auto other = authority.issue("DNS:b.example");
    CHECK(fault_of(Shown{shown("a.pem", made, names), shown("b.pem", other)}) ==
          "the certificates have more than 10000 names in all: spread them over several listeners");
}

TEST_CASE("server credentials: ticket keys have 80 bytes, and there are at most 4") {
    const Authority authority;
    auto settings = settings_of({shown("a.pem", authority.issue("DNS:a.example"))});
    settings.ticket_keys = {std::string(80, 'x'), std::string(48, 'x')};
    CHECK(fault_of(settings) == "a key of `ticket_keys` has 48 bytes: it needs 80");
    settings.ticket_keys.assign(5, std::string(80, 'x'));
    CHECK(fault_of(settings) == "`ticket_keys` has 5 keys: at most 4 are allowed");
    settings.ticket_keys.pop_back();
    CHECK(fault_of(settings).empty());
}

TEST_CASE("server credentials: the files, names and types that they hold can be shown") {
    const Authority authority;
    const auto credentials = test::credentials_of(
        settings_of({shown("a.pem", authority.issue(KeyKind::rsa, "DNS:A.example"), {"*.b."}),
                     shown("c.pem", authority.issue("DNS:c.example"))}));
    REQUIRE(credentials->pairs().size() == 2);
    const auto& first = credentials->pairs().front();
    CHECK(first.file == "a.pem");
    CHECK(first.names == std::vector<std::string>{"a.example", "*.b"});
    CHECK(name_of(first.type) == "RSA");
    CHECK(name_of(credentials->pairs().back().type) == "ECDSA");
}

}  // namespace

}  // namespace tidegate::tls_server_test

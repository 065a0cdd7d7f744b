// Whole handshakes: which clients a listener accepts, which it refuses, which resume, and what it
// knows of a client by its certificate.
#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "client_certificates.hpp"
#include "tls/client_auth.hpp"
#include "unit/client_auth_world.hpp"

namespace tidegate::tls_client_auth_test {

namespace {

using namespace std::chrono_literals;
using std::chrono::system_clock;
using test::Certificate;
using test::Client;
using test::ContextPtr;
using test::kVersions;
using test::listener;
using test::make_authority;
using test::make_certificate;
using test::make_revocation_list;
using test::visit;
using test::Wish;
using test::World;
using Texts = std::vector<std::string>;

TEST_CASE(
    "client_auth: a client with a certificate of an authority is accepted, and its names known") {
    const World world;
    for (const int version : kVersions) {
        for (const ClientAuth mode : {ClientAuth::require, ClientAuth::optional}) {
            const auto seen = visit(world.settings(mode), {&world.alice, {}, version});
            CHECK(seen.is_accepted);
            CHECK(seen.fault.empty());
            REQUIRE(seen.certificate.has_value());
            CHECK(seen.certificate->subject == "CN=alice");
        }
    }
}

TEST_CASE("client_auth: a client without a certificate is accepted where that is optional") {
    const World world;
    for (const int version : kVersions) {
        const Client nobody{.version = version};
        const auto seen = visit(world.settings(ClientAuth::optional), nobody);
        CHECK(seen.is_accepted);
        CHECK_FALSE(seen.certificate.has_value());
        CHECK_FALSE(visit(world.settings(ClientAuth::require), nobody).is_accepted);
    }
}

TEST_CASE("client_auth: with `off` no client is asked, and no certificate counts") {
    const World world;
    const auto seen = visit(ClientAuthSettings{}, {&world.alice});
    CHECK(seen.is_accepted);
    CHECK_FALSE(seen.certificate.has_value());
}

TEST_CASE("client_auth: a certificate that fails ends the handshake, also where it is optional") {
    const World world;
    const Certificate stranger = make_authority("stranger");
    const Certificate mallory = make_certificate({}, &stranger);
    const Certificate impostor_root = make_authority("root");
    const Certificate forged = make_certificate({}, &impostor_root);
    const Certificate expired = make_certificate({.validity = {-3'600, -60}}, &world.root);
    const Certificate early = make_certificate({.validity = {60, 3'600}}, &world.root);
    const Certificate server = make_certificate({.usage = "serverAuth"}, &world.root);
    const Certificate client = make_certificate({.usage = "clientAuth"}, &world.root);
    const Certificate own = make_certificate({});
    const Certificate below_alice = make_certificate({}, &world.alice);
    for (const int version : kVersions) {
        for (const ClientAuth mode : {ClientAuth::require, ClientAuth::optional}) {
            const auto fault_of = [&](const Certificate& one,
                                      std::vector<const Certificate*> chain = {}) {
                const auto seen = visit(world.settings(mode), {&one, std::move(chain), version});
                CHECK(seen.is_accepted == seen.fault.empty());
                CHECK(seen.certificate.has_value() == seen.is_accepted);
                return std::string(seen.fault);
            };
            CHECK(fault_of(client) == "");
            CHECK(fault_of(expired) == "certificate has expired");
            CHECK(fault_of(early) == "certificate is not yet valid");
            CHECK(fault_of(server) == "unsuitable certificate purpose");
            CHECK(fault_of(mallory) != "");
            CHECK(fault_of(mallory, {&stranger}) != "");
            CHECK(fault_of(forged) != "");
            CHECK(fault_of(own) != "");
            // A client's certificate is not an authority.
            CHECK(fault_of(below_alice, {&world.alice}) != "");
        }
    }
}

TEST_CASE("client_auth: depth is how many intermediates may be between") {
    const World world;
    const Certificate lower = make_authority("lower", &world.middle);
    const Certificate carol = make_certificate({}, &lower);
    ClientAuthSettings settings = world.settings();
    const auto accepts = [&](int depth, const Client& client) {
        settings.depth = depth;
        return visit(settings, client).is_accepted;
    };
    const Client by_two{&carol, {&lower, &world.middle}};
    CHECK(accepts(2, by_two));
    CHECK_FALSE(accepts(1, by_two));
    CHECK(accepts(1, {&world.bob, {&world.middle}}));
    CHECK_FALSE(accepts(0, {&world.bob, {&world.middle}}));
    CHECK(accepts(0, {&world.alice}));
    // A client that does not send its intermediates.
    CHECK_FALSE(accepts(4, {&world.bob}));
}

TEST_CASE("client_auth: an authority without its issuer verifies only certificates below it") {
    const World world;
    const ClientAuthSettings middle{ClientAuth::require, world.middle.pem(), "", 4};
    CHECK(visit(middle, {&world.bob}).is_accepted);
    CHECK_FALSE(visit(middle, {&world.alice}).is_accepted);
    CHECK_FALSE(visit(middle, {&world.alice, {&world.root}}).is_accepted);
    // A client's own certificate as an authority is for that client alone.
    const ClientAuthSettings alice{ClientAuth::require, world.alice.pem(), "", 4};
    CHECK(visit(alice, {&world.alice}).is_accepted);
    CHECK_FALSE(visit(alice, {&world.bob, {&world.middle}}).is_accepted);
    // With its issuer, an intermediate completes chains.
    const ClientAuthSettings both{ClientAuth::require, world.root.pem() + world.middle.pem(), "",
                                  4};
    CHECK(visit(both, {&world.bob}).is_accepted);
    CHECK(visit(both, {&world.alice}).is_accepted);
}

TEST_CASE(
    "client_auth: a revoked certificate is refused, and so is one below a revoked authority") {
    const World world;
    const std::string of_root = make_revocation_list(world.root, {});
    const std::string of_middle = make_revocation_list(world.middle, {});
    const std::string without_alice = make_revocation_list(world.root, {&world.alice});
    const std::string without_middle = make_revocation_list(world.root, {&world.middle});
    const std::string without_bob = make_revocation_list(world.middle, {&world.bob});
    const Client alice{&world.alice};
    const Client bob{&world.bob, {&world.middle}};
    const auto fault_of = [&](const std::string& crl, const Client& client) {
        const auto seen = visit(world.settings(ClientAuth::optional, crl), client);
        CHECK(seen.is_accepted == seen.fault.empty());
        return std::string(seen.fault);
    };
    CHECK(fault_of(of_root, alice) == "");
    CHECK(fault_of(without_alice, alice) == "certificate revoked");
    CHECK(fault_of(of_root + of_middle, bob) == "");
    CHECK(fault_of(of_root + without_bob, bob) == "certificate revoked");
    CHECK(fault_of(without_middle + of_middle, bob) == "certificate revoked");
    // A client is refused whose issuer, or that one's issuer, has no list.
    CHECK(fault_of(of_root, bob) == "unable to get certificate CRL");
    CHECK(fault_of(of_middle, bob) == "unable to get certificate CRL");
    CHECK(fault_of(of_middle, alice) == "unable to get certificate CRL");
    CHECK(visit(world.settings(ClientAuth::optional, of_middle), {}).is_accepted);
}

TEST_CASE("client_auth: a stale list refuses the clients that it covers, and no others") {
    const World world;
    const std::string stale = make_revocation_list(world.middle, {}, {-3'600, -60});
    const std::string early = make_revocation_list(world.middle, {}, {60, 3'600});
    const std::string fresh = make_revocation_list(world.middle, {});
    const std::string of_root = make_revocation_list(world.root, {});
    const Client bob{&world.bob, {&world.middle}};
    const auto fault_of = [&](const std::string& crl, const Client& client) {
        return std::string(visit(world.settings(ClientAuth::require, crl), client).fault);
    };
    CHECK(fault_of(of_root + stale, bob) == "CRL has expired");
    CHECK(fault_of(of_root + stale, {&world.alice}) == "");
    CHECK(fault_of(of_root + early, bob) == "CRL is not yet valid");
    CHECK(fault_of(of_root + stale + fresh, bob) == "");
    CHECK(fault_of(make_revocation_list(world.root, {}, {-3'600, -60}) + fresh, bob) ==
          "CRL has expired");
}

TEST_CASE("client_auth: a list that the issuer has not signed is none") {
    const World world;
    const Certificate other = make_authority("root");
    const auto seen =
        visit(world.settings(ClientAuth::require, make_revocation_list(other, {})), {&world.alice});
    CHECK_FALSE(seen.is_accepted);
}

TEST_CASE("client_auth: lists hold for chains that end at an intermediate without its issuer") {
    const World world;
    const auto fault_of = [&](const std::string& ca, const std::string& crl) {
        const ClientAuthSettings settings{ClientAuth::require, ca, crl, 4};
        return std::string(visit(settings, {&world.bob, {&world.middle}}).fault);
    };
    const std::string of_middle = make_revocation_list(world.middle, {});
    const std::string without_bob = make_revocation_list(world.middle, {&world.bob});
    CHECK(fault_of(world.middle.pem(), of_middle) == "");
    CHECK(fault_of(world.middle.pem(), without_bob) == "certificate revoked");
    CHECK(fault_of(world.middle.pem(), make_revocation_list(world.root, {})) ==
          "unable to get certificate CRL");
    // The root beside it revokes it, also where another one is alone.
    const std::string without_middle = make_revocation_list(world.root, {&world.middle});
    const std::string both = world.root.pem() + world.middle.pem();
    CHECK(fault_of(both, without_middle + of_middle) == "certificate revoked");
    const Certificate elsewhere = make_authority("elsewhere");
    const Certificate alone = make_authority("alone", &elsewhere);
    CHECK(fault_of(both + alone.pem(), without_middle + of_middle) == "certificate revoked");
    CHECK(fault_of(both + alone.pem(), make_revocation_list(world.root, {}) + of_middle) == "");
}

TEST_CASE(
    "client_auth: clients get the names of the authorities, each once, unless there are too many") {
    const World world;
    const Certificate again = make_authority("root");
    const auto named = [](const std::string& ca) {
        const ContextPtr context = listener({ClientAuth::optional, ca, "", 4});
        return sk_X509_NAME_num(SSL_CTX_get_client_CA_list(context.get()));
    };
    CHECK(named(world.root.pem() + again.pem() + world.middle.pem()) == 2);
    std::string many;
    for (int i = 0; i < 10; ++i) {
        Wish wish{.subject = {}};
        wish.is_authority = true;
        for (int part = 0; part < 30; ++part) {
            wish.subject.emplace_back("OU", std::string(60, 'a') + std::to_string(i));
        }
        many += make_certificate(wish).pem();
    }
    CHECK(named(many) <= 0);
    CHECK(visit({ClientAuth::require, many + world.root.pem(), "", 4}, {&world.alice}).is_accepted);
}

TEST_CASE("client_auth: a chain of more than 32 KiB is not read") {
    const World world;
    Wish wish;
    for (int i = 0; i < 1'500; ++i) wish.names.emplace_back(GEN_DNS, std::string(40, 'a'));
    const Certificate large = make_certificate(wish, &world.root);
    CHECK_FALSE(visit(world.settings(), {&large}).is_accepted);
}

TEST_CASE("client_auth: a file that cannot be used is reported with its key") {
    const World world;
    const auto fault_of = [](const ClientAuthSettings& settings) {
        const auto auth = parse_client_auth(settings);
        REQUIRE_FALSE(auth.has_value());
        return auth.error();
    };
    CHECK(
        fault_of({ClientAuth::optional, "", "", 4}).starts_with("client_ca holds no certificate"));
    CHECK(fault_of({ClientAuth::require, world.root.key_pem(), "", 4})
              .starts_with("client_ca holds no certificate"));
    CHECK(fault_of(world.settings(ClientAuth::require, world.root.pem()))
              .starts_with("client_crl holds no revocation list"));
    std::string cut = make_revocation_list(world.root, {});
    cut.resize(cut.size() / 2);
    CHECK(fault_of(world.settings(ClientAuth::require, cut)) ==
          "client_crl holds a revocation list that cannot be read");
}

// Has `context` verify as if it were so much earlier.
void turn_clock(SSL_CTX* context, std::chrono::seconds back) {
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(context), std::time(nullptr) - back.count());
}

TEST_CASE("client_auth: a client resumes, and is still known by its certificate") {
    const World world;
    const std::string crl = make_revocation_list(world.root, {});
    for (const int version : kVersions) {
        for (const ClientAuth mode : {ClientAuth::require, ClientAuth::optional}) {
            const ContextPtr context = listener(world.settings(mode, crl));
            const Client alice{&world.alice, {}, version};
            const auto first = visit(context.get(), alice);
            REQUIRE(first.is_accepted);
            CHECK_FALSE(first.is_resumed);
            auto next = visit(context.get(), alice, first.session);
            CHECK(next.is_accepted);
            CHECK(next.is_resumed);
            REQUIRE(next.certificate.has_value());
            CHECK(next.certificate->sha256 == first.certificate->sha256);
            // The ticket of a resumed connection works as well, and with another worker.
            next = visit(world.settings(mode, crl), alice, next.session);
            CHECK(next.is_resumed);
            CHECK(next.certificate.has_value());
        }
        const ContextPtr optional = listener(world.settings(ClientAuth::optional));
        const Client nobody{.version = version};
        const auto first = visit(optional.get(), nobody);
        const auto next = visit(optional.get(), nobody, first.session);
        CHECK(next.is_resumed);
        CHECK_FALSE(next.certificate.has_value());
    }
}

TEST_CASE("client_auth: after a change of authorities, lists, mode or depth no ticket resumes") {
    const World world;
    const std::string before = make_revocation_list(world.root, {});
    const std::string after = make_revocation_list(world.root, {&world.alice});
    const Certificate other = make_authority("other");
    for (const int version : kVersions) {
        const Client alice{&world.alice, {}, version};
        const ClientAuthSettings settings = world.settings(ClientAuth::require, before);
        const auto session = [&] { return visit(settings, alice).session; };
        CHECK(visit(settings, alice, session()).is_resumed);

        auto seen = visit(world.settings(ClientAuth::require, after), alice, session());
        CHECK_FALSE(seen.is_accepted);
        CHECK(seen.fault == "certificate revoked");
        ClientAuthSettings changed = settings;
        changed.ca = other.pem();
        CHECK_FALSE(visit(changed, alice, session()).is_accepted);
        const auto is_new_to = [&](const ClientAuthSettings& one) {
            seen = visit(one, alice, session());
            return seen.is_accepted && !seen.is_resumed;
        };
        CHECK(is_new_to({settings.mode, settings.ca + other.pem(), settings.crl, 4}));
        CHECK(is_new_to(
            {settings.mode, settings.ca, settings.crl + make_revocation_list(other, {}), 4}));
        CHECK(is_new_to({ClientAuth::optional, settings.ca, settings.crl, 4}));
        CHECK(is_new_to({settings.mode, settings.ca, settings.crl, 3}));
        // A different spelling is no change.
        ClientAuthSettings same = settings;
        same.ca = "the root:\n" + same.ca + "\n";
        CHECK(visit(same, alice, session()).is_resumed);
        // A ticket from a listener that asked for no certificate does not help either.
        const auto open = visit(ClientAuthSettings{}, Client{.version = version});
        CHECK_FALSE(visit(settings, Client{.version = version}, open.session).is_accepted);
    }
}

TEST_CASE("client_auth: a client whose certificate has expired since does not resume") {
    const World world;
    const Certificate expired = make_certificate({.validity = {-7'000, -60}}, &world.root);
    for (const int version : kVersions) {
        const ContextPtr context = listener(world.settings());
        const Client client{&expired, {}, version};
        turn_clock(context.get(), 1h);
        const auto first = visit(context.get(), client);
        REQUIRE(first.is_accepted);
        auto next = visit(context.get(), client, first.session);
        CHECK(next.is_accepted);
        CHECK_FALSE(next.is_resumed);
        turn_clock(context.get(), 0s);
        next = visit(context.get(), client, first.session);
        CHECK_FALSE(next.is_accepted);
        CHECK(next.fault == "certificate has expired");
    }
}

TEST_CASE("client_auth: a client whose list has become stale since does not resume") {
    const World world;
    const std::string crl = make_revocation_list(world.root, {}, {-7'000, -60});
    for (const int version : kVersions) {
        const ContextPtr context = listener(world.settings(ClientAuth::require, crl));
        const Client client{&world.alice, {}, version};
        turn_clock(context.get(), 1h);
        const auto first = visit(context.get(), client);
        REQUIRE(first.is_accepted);
        turn_clock(context.get(), 0s);
        const auto next = visit(context.get(), client, first.session);
        CHECK_FALSE(next.is_accepted);
        CHECK(next.fault == "CRL has expired");
    }
}

TEST_CASE("client_auth: a ticket holds as long as the first of chain and lists") {
    const World world;
    const auto now = std::chrono::system_clock::now();
    const auto holds = [&](const Certificate& one, std::vector<const Certificate*> chain,
                           std::chrono::seconds later, const std::string& crl = "") {
        const auto seen = visit(world.settings(ClientAuth::require, crl), {&one, std::move(chain)});
        REQUIRE(seen.is_accepted);
        return may_resume(seen.kept.get(), ClientAuth::require, now + later);
    };
    const Certificate brief = make_certificate({.validity = {-60, 600}}, &world.root);
    CHECK(holds(brief, {}, 590s));
    CHECK_FALSE(holds(brief, {}, 610s));
    Wish wish{.subject = {{"CN", "passing"}}};
    wish.validity = {-60, 300};
    wish.is_authority = true;
    const Certificate passing = make_certificate(wish, &world.root);
    const Certificate dave = make_certificate({}, &passing);
    CHECK(holds(dave, {&passing}, 290s));
    CHECK_FALSE(holds(dave, {&passing}, 310s));
    const std::string crl = make_revocation_list(world.root, {}, {-60, 100});
    CHECK(holds(brief, {}, 90s, crl));
    CHECK_FALSE(holds(brief, {}, 110s, crl));
    // A session without a certificate is for listeners that do not require one.
    const auto nobody = visit(world.settings(ClientAuth::optional), {});
    CHECK(may_resume(nobody.kept.get(), ClientAuth::optional, now));
    CHECK_FALSE(may_resume(nobody.kept.get(), ClientAuth::require, now));
}

TEST_CASE("client_auth: a broken ticket, and one of other keys, leads to a whole handshake") {
    const World world;
    for (const int version : kVersions) {
        const ContextPtr context = listener(world.settings());
        const Client alice{&world.alice, {}, version};
        const auto first = visit(context.get(), alice);
        std::array<unsigned char, 80> others{9};
        SSL_CTX_set_tlsext_ticket_keys(context.get(), others.data(), others.size());
        const auto next = visit(context.get(), alice, first.session);
        CHECK(next.is_accepted);
        CHECK_FALSE(next.is_resumed);
        CHECK(visit(context.get(), alice, next.session).is_resumed);
    }
}

std::vector<RevocationListPtr> lists_of(const std::string& pem) {
    auto lists = parse_revocation_lists(pem);
    REQUIRE(lists.has_value());
    return std::move(*lists);
}

std::vector<CertificatePtr> parsed(const std::vector<const Certificate*>& certificates) {
    std::string pem;
    for (const Certificate* one : certificates) pem += one->pem();
    auto all = parse_certificates(pem);
    REQUIRE(all.has_value());
    return std::move(*all);
}

TEST_CASE("revocation_list: a file without one, or with a broken one, has a fault of its own") {
    const Certificate root = make_authority("root");
    const std::string pem = make_revocation_list(root, {});
    CHECK(lists_of("a list:\n" + pem + "\n" + pem).size() == 2);
    for (const std::string& text : {std::string(), root.pem()}) {
        CHECK(parse_revocation_lists(text).error() ==
              "holds no revocation list (PEM: `-----BEGIN X509 CRL-----`)");
    }
    for (const std::string& text : {pem.substr(0, pem.size() / 2), pem + pem.substr(0, 99)}) {
        CHECK(parse_revocation_lists(text).error() ==
              "holds a revocation list that cannot be read");
    }
}

TEST_CASE("revocation_list: it has its issuer, its date, and when the next one is due") {
    using namespace std::chrono_literals;
    const Certificate root = make_authority("root");
    const auto now = system_clock::now();
    const auto facts = facts_of(*lists_of(make_revocation_list(root, {}, {-60, 60})).front(), {});
    CHECK(facts.issuer == "CN=root");
    CHECK(facts.from > now - 2min);
    CHECK(facts.from < now);
    REQUIRE(facts.until.has_value());
    CHECK(*facts.until > now);
    CHECK(*facts.until < now + 2min);
}

TEST_CASE("revocation_list: its signature is held to all authorities of its name") {
    using Signature = RevocationListFacts::Signature;
    const Certificate root = make_authority("root");
    const Certificate renewed = make_authority("root");
    const Certificate stranger = make_authority("stranger");
    const auto lists = lists_of(make_revocation_list(root, {}));
    const auto judged = [&](const std::vector<const Certificate*>& authorities) {
        return facts_of(*lists.front(), parsed(authorities)).signature;
    };
    CHECK(judged({&stranger, &root}) == Signature::good);
    CHECK(judged({&renewed, &root}) == Signature::good);
    CHECK(judged({&root, &renewed}) == Signature::good);
    CHECK(judged({&renewed}) == Signature::bad);
    CHECK(judged({&stranger}) == Signature::of_stranger);
    CHECK(facts_of(*lists.front(), {}).signature == Signature::of_stranger);
}

TEST_CASE("revocation_list: the next update is that of the issuer whose list ends first") {
    const Certificate root = make_authority("root");
    const Certificate middle = make_authority("middle", &root);
    const auto now = system_clock::now();
    const auto minutes = [&](const std::string& pem) {
        const auto next = next_update(lists_of(pem));
        REQUIRE(next.has_value());
        return std::chrono::round<std::chrono::minutes>(*next - now).count();
    };
    const std::string of_root = make_revocation_list(root, {}, {-60, 1'800});
    const std::string of_middle = make_revocation_list(middle, {}, {-60, 1'200});
    const std::string newer = make_revocation_list(middle, {}, {-60, 3'600});
    CHECK(minutes(of_root) == 30);
    CHECK(minutes(of_root + of_middle) == 20);
    CHECK(minutes(of_root + of_middle + newer) == 30);
    CHECK(minutes(make_revocation_list(root, {}, {-3'600, -1'800})) == -30);
    CHECK_FALSE(next_update({}).has_value());
}

ClientCertificate read_of(const Wish& wish) {
    return read_client_certificate(*make_certificate(wish).certificate);
}

std::string subject_of_name(const std::string& common_name) {
    return read_of({.subject = {{"CN", common_name}}}).subject;
}

TEST_CASE("client_certificate: it has its digest, its subject and every name in order") {
    const auto made = make_certificate({.subject = {{"O", "Acme"}, {"CN", "alice"}, {"CN", "al"}},
                                        .names = {{GEN_URI, "spiffe://example.org/b"},
                                                  {GEN_DNS, "b.example"},
                                                  {GEN_URI, "spiffe://example.org/a"},
                                                  {GEN_EMAIL, "alice@example.org"},
                                                  {GEN_DNS, "A.example"}}});
    const auto read = read_client_certificate(*made.certificate);
    CHECK(read.subject == "CN=al,CN=alice,O=Acme");
    CHECK(read.common_names.values == Texts{"alice", "al"});
    CHECK(read.uris.values == Texts{"spiffe://example.org/b", "spiffe://example.org/a"});
    CHECK(read.dns_names.values == Texts{"b.example", "a.example"});
    CHECK(read.emails.values == Texts{"alice@example.org"});
    for (const auto* names : {&read.common_names, &read.uris, &read.dns_names, &read.emails}) {
        CHECK_FALSE(names->is_incomplete);
    }
    CHECK(read.sha256.size() == 64);
    CHECK(read.sha256.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK(read.sha256 == read_client_certificate(*made.certificate).sha256);
    CHECK(read.sha256 != read_of({}).sha256);
}

TEST_CASE("client_certificate: one without any names has none") {
    const auto read = read_of({.subject = {}});
    CHECK(read.subject.empty());
    CHECK(read.common_names.values.empty());
    CHECK_FALSE(read.common_names.is_incomplete);
    CHECK_FALSE(read.uris.is_incomplete);
}

TEST_CASE(
    "client_certificate: a name that a reader could take for another is left out, and reported") {
    using namespace std::string_literals;
    for (const std::string& bad :
         {"alice\0.evil"s, "a\nb"s, "a\x7f"s, "\xff"s, ""s, "a\xe2\x80\xae"s, "a\xc2\xad"s}) {
        const auto read = read_of({.subject = {{"CN", "good"}, {"CN", bad}}});
        CAPTURE(bad);
        CHECK(read.common_names.values == Texts{"good"});
        CHECK(read.common_names.is_incomplete);
        CHECK_FALSE(read.uris.is_incomplete);
    }
    for (const std::string& bad : {"a\0b"s, "a\rb"s, "a b"s, "a\"b"s, "a\\b"s, "\xc3\xa9"s, ""s}) {
        const auto read = read_of({.names = {{GEN_URI, "x:y"}, {GEN_URI, bad}, {GEN_DNS, bad}}});
        CAPTURE(bad);
        CHECK(read.uris.values == Texts{"x:y"});
        CHECK(read.uris.is_incomplete);
        CHECK(read.dns_names.values.empty());
        CHECK(read.dns_names.is_incomplete);
        CHECK_FALSE(read.emails.is_incomplete);
        CHECK_FALSE(read.common_names.is_incomplete);
    }
}

TEST_CASE("client_certificate: alternative names that cannot be read are no names") {
    auto made = make_certificate({});
    auto* const broken = ASN1_OCTET_STRING_new();
    ASN1_OCTET_STRING_set(broken, reinterpret_cast<const unsigned char*>("\x30\x05"), 2);
    X509_EXTENSION* const extension =
        X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, broken);
    X509_add_ext(made.certificate.get(), extension, -1);
    X509_EXTENSION_free(extension);
    ASN1_OCTET_STRING_free(broken);
    const auto read = read_client_certificate(*made.certificate);
    CHECK(read.uris.is_incomplete);
    CHECK(read.dns_names.is_incomplete);
    CHECK(read.emails.is_incomplete);
    CHECK_FALSE(read.common_names.is_incomplete);
}

TEST_CASE("client_certificate: a subject is ASCII and escapes in hex alone") {
    using namespace std::string_literals;
    CHECK(subject_of_name("a,O=b") == "CN=a\\2CO=b");
    CHECK(subject_of_name("a\";URI=x") == "CN=a\\22\\3BURI=x");
    CHECK(subject_of_name("a\\") == "CN=a\\5C");
    CHECK(subject_of_name("a\\2C") == "CN=a\\5C2C");
    CHECK(subject_of_name(" #a ") == "CN=\\20#a\\20");
    CHECK(subject_of_name("#a") == "CN=\\23a");
    CHECK(subject_of_name("a+b<c>") == "CN=a\\2Bb\\3Cc\\3E");
    CHECK(subject_of_name("\xc3\xa9\r\n") == "CN=\\C3\\A9\\0D\\0A");
    CHECK(subject_of_name("a\0b"s) == "CN=a\\00b");
}

}  // namespace

}  // namespace tidegate::tls_client_auth_test

// Whole handshakes: which clients a listener accepts, and which it refuses.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "unit/client_auth_world.hpp"

namespace tidegate::tls_client_auth_test {

namespace {

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

}  // namespace

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

}  // namespace tidegate::tls_client_auth_test

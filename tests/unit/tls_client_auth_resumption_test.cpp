// Whole handshakes: which clients resume, and which are verified anew.
#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include "unit/client_auth_world.hpp"

namespace tidegate::tls_client_auth_resumption_test {

namespace {

using namespace std::chrono_literals;
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

// Has `context` verify as if it were so much earlier.
void turn_clock(SSL_CTX* context, std::chrono::seconds back) {
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(context), std::time(nullptr) - back.count());
}

}  // namespace

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

}  // namespace tidegate::tls_client_auth_resumption_test

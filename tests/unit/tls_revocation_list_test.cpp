#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "client_certificates.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::tls_revocation_list_test {

namespace {

using std::chrono::system_clock;
using test::Certificate;
using test::make_authority;
using test::make_revocation_list;

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

}  // namespace

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

}  // namespace tidegate::tls_revocation_list_test

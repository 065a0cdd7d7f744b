// Who the user is by the certificate that the client shows.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/explain.hpp"

namespace tidegate::cli::explain_certificate_test {
namespace {

using Outcome = Explanation::Method::Outcome;
using identity::CertificateMethod;

constexpr std::string_view kYaml =
    "listen: [{address: 127.0.0.1:8080}, {address: 127.0.0.1:8081, face: forward_auth,"
    " from: [127.0.0.1], dialect: forwarded}]\n"
    "upstream: http://127.0.0.1:3000\nlimits: [10/s]\n";

Explanation explained(std::optional<ClientCertificate> certificate, Face face = Face::proxy) {
    const config::Loaded loaded = config::load_text(std::string(kYaml), "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    // Of the configuration's listeners, none asks for certificates.
    std::const_pointer_cast<config::Config>(loaded.config)
        ->user_methods.push_back(
            {"mtls", CertificateMethod{CertificateMethod::Subject::uri, "spiffe://example.org/"}});
    ExplainQuestion question;
    question.from = parse_ip("127.0.0.1");
    question.face = face;
    question.certificate = std::move(certificate);
    if (face == Face::forward_auth) {
        question.fields = {"X-Forwarded-Method: GET", "X-Forwarded-Uri: /",
                           "X-Forwarded-Host: api.example", "X-Forwarded-For: 203.0.113.7"};
    }
    return explain(loaded.config, question, [](const auto&) { FAIL("there are no keys"); });
}

ClientCertificate with_uris(std::vector<std::string> uris) {
    ClientCertificate certificate;
    certificate.uris.values = std::move(uris);
    return certificate;
}

}  // namespace

TEST_CASE("explain: a certificate names the user, and one that does not fit is refused") {
    const auto good = explained(with_uris({"spiffe://example.org/a"}));
    REQUIRE(good.methods.size() == 1);
    CHECK(good.methods[0].text == "client_certificate san_uri");
    CHECK(good.methods[0].outcome == Outcome::valid);
    REQUIRE(good.user);
    CHECK(good.user->name == "mtls:spiffe://example.org/a");
    const auto bad = explained(with_uris({"spiffe://example.org/a", "spiffe://example.org/b"}));
    CHECK(bad.methods[0].outcome == Outcome::refused);
    CHECK(bad.methods[0].fault == "certificate: not exactly one name that fits");
    CHECK(bad.refusal == 401);
    const auto none = explained(std::nullopt);
    CHECK(none.methods[0].outcome == Outcome::absent);
    CHECK(none.refusal == 0);
}

TEST_CASE("explain: the certificate of a gateway names no user") {
    const auto told = explained(with_uris({"spiffe://example.org/a"}), Face::forward_auth);
    CHECK(told.refusal == 0);
    CHECK(told.methods[0].outcome == Outcome::absent);
    CHECK_FALSE(told.user);
}

}  // namespace tidegate::cli::explain_certificate_test

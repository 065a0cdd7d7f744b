#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ask/challenges.hpp"

namespace tidegate::ask::challenges_test {
namespace {

using identity::Authentication;
using identity::CredentialFault;
using identity::UserMethod;

std::string challenges(const std::vector<UserMethod>& methods, std::uint32_t guilty,
                       CredentialFault fault = CredentialFault::signature) {
    Authentication authentication;
    authentication.result = Authentication::Result::refused;
    authentication.method = guilty;
    authentication.fault = fault;
    std::string out;
    append_challenges(methods, authentication, out);
    return out;
}

const UserMethod kToken{"", identity::JwtMethod{}};
const UserMethod kBasic{"", identity::BasicMethod{}};
const UserMethod kHeader{"", identity::HeaderMethod{"x-user-id", ""}};

TEST_CASE("challenges: each configured method has a challenge") {
    UserMethod cookie_token{"", identity::JwtMethod{}};
    std::get<identity::JwtMethod>(cookie_token.how).cookie = "sid";
    CHECK(challenges({kToken,
                      {"", identity::ApiKeyMethod{"x-api-key", nullptr}},
                      kBasic,
                      kHeader,
                      {"", identity::CookieMethod{"session"}},
                      cookie_token},
                     2) ==
          "WWW-Authenticate: Bearer realm=\"tidegate\"\r\n"
          "WWW-Authenticate: ApiKey realm=\"tidegate\", header=\"x-api-key\"\r\n"
          "WWW-Authenticate: Basic realm=\"tidegate\", charset=\"UTF-8\"\r\n"
          "WWW-Authenticate: Cookie realm=\"tidegate\", cookie=\"session\"\r\n"
          "WWW-Authenticate: JWT realm=\"tidegate\", cookie=\"sid\"\r\n");
}

TEST_CASE("challenges: the challenge of a refused token has the reason") {
    CHECK(challenges({kToken}, 0) ==
          "WWW-Authenticate: Bearer realm=\"tidegate\", error=\"invalid_token\", "
          "error_description=\"The credentials are not valid.\"\r\n");
    CHECK(challenges({kToken}, 0, CredentialFault::expired).find("has expired") !=
          std::string::npos);
    CHECK(challenges({kToken, kBasic}, 1, CredentialFault::wrong_password).find("invalid_token") ==
          std::string::npos);
}

TEST_CASE("challenges: without a right signature the reason is always the same") {
    for (const CredentialFault fault :
         {CredentialFault::malformed, CredentialFault::unsafe_user, CredentialFault::foreign_space,
          CredentialFault::not_json, CredentialFault::critical_extension,
          CredentialFault::algorithm, CredentialFault::unknown_key, CredentialFault::signature,
          CredentialFault::unknown_secret, CredentialFault::wrong_password}) {
        CHECK(public_reason(fault) == "The credentials are not valid.");
    }
}

TEST_CASE("challenges: there is a challenge even if only trusted peers name users") {
    CHECK(challenges({kHeader}, 0) == "WWW-Authenticate: Tidegate realm=\"tidegate\"\r\n");
}

}  // namespace
}  // namespace tidegate::ask::challenges_test

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "identity/counted_claims.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity::counted_claims_test {
namespace {

using Texts = std::vector<std::string>;

TEST_CASE("claims: each has its identifier at its position, an absent one has none") {
    const std::string packed = pack_claims(Texts{"tenant", "https://example.com/org", "plan"},
                                           Texts{"acme", "", "a b"}, "");
    CHECK(claim_identifier(packed, 0) == "claim:tenant=acme");
    CHECK(claim_identifier(packed, 1).empty());
    CHECK(claim_identifier(packed, 2) == "claim:plan=a b");
    CHECK(claim_identifier(packed, 3).empty());
    CHECK(claim_identifier("", 0).empty());
    CHECK(pack_claims(Texts{"a", "b"}, Texts{"", ""}, "idp").empty());
    CHECK(pack_claims({}, {}, "").empty());
}

TEST_CASE("claims: a value of any length or letters makes an identifier that is safe and bounded") {
    const Texts names(kCountedClaimsMax, std::string(kClaimNameBytesMax, 'n'));
    const Texts values(kCountedClaimsMax, std::string(8'000, '{'));
    const std::string packed = pack_claims(names, values, "space");
    CHECK(packed.size() <= 1 + (1 + kIdentifierBytesMax) * kCountedClaimsMax);
    const auto last = claim_identifier(packed, kCountedClaimsMax - 1);
    CHECK(last.starts_with("claim:#"));
    CHECK(last == claim_identifier(packed, 0));
    const std::string odd = pack_claims(Texts{"t"}, Texts{std::string("a\n{}%\xc3\xa9\0b", 9)}, "");
    CHECK(claim_identifier(odd, 0) == "claim:t=a%0A%7B%7D%25%C3%A9%00b");
}

TEST_CASE("claims: a namespace keeps the values of two issuers apart") {
    const std::string packed = pack_claims(Texts{"tenant"}, Texts{"acme"}, "idp");
    CHECK(claim_identifier(packed, 0) == "claim:tenant=idp:acme");
}

TEST_CASE("claims: a name in a key may be a URL; what separates keys is escaped") {
    const auto read = [](std::string_view written) {
        const auto name = parse_claim_name(written);
        return name ? *name : "refused: " + name.error();
    };
    for (const std::string name :
         {"tenant", "https://example.com/tenant", "urn:x:y", "a{b}", "#"}) {
        CHECK(read(name) == name);
        std::string written;
        append_claim_name(name, written);
        CHECK(written == name);
    }
    CHECK(read("a%2Bb%7Cc%25d") == "a+b|c%d");
    std::string written;
    append_claim_name("a+b|c%d", written);
    CHECK(written == "a%2Bb%7Cc%25d");
    CHECK(read("a%20b").starts_with("refused: in the name of a claim, write `%25` for `%`"));
    for (const std::string name : {"", "a b", "a=b", "\xc3\xa9", "a\n"}) {
        CAPTURE(name);
        CHECK(read(name).find("cannot be the name of a claim in a key") != std::string::npos);
    }
    CHECK(read(std::string(kClaimNameBytesMax, 'a')).size() == kClaimNameBytesMax);
    CHECK(read(std::string(kClaimNameBytesMax + 1, 'a')) ==
          "refused: the name of a claim has at most 256 bytes");
}

}  // namespace
}  // namespace tidegate::identity::counted_claims_test

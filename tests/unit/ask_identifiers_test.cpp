// The names of what identifiers are made of, and what their values are.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "ask/identifiers.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::identifiers_test {

TEST_CASE("identifiers: a part is known by its text and by no other") {
    using Kind = limit::KeyPart::Kind;
    const std::vector<limit::KeyPart> parts{
        {.kind = Kind::ip, .name = {}},
        {.kind = Kind::user, .name = {}},
        {.kind = Kind::header, .name = "x-tenant"},
        {.kind = Kind::header, .name = "tenant"},
        {.kind = Kind::query, .name = "x-tenant"},
        {.kind = Kind::constant, .name = "user"},
        {.kind = Kind::claim, .name = "org id"},
    };
    for (const limit::KeyPart& part : parts) {
        for (const limit::KeyPart& other : parts) {
            CAPTURE(part_text(part));
            CAPTURE(part_text(other));
            CHECK(is_part_text(part_text(part), other) == (&part == &other));
        }
        for (const std::string_view text : {"", "header", "header:", "header:x", ":x-tenant"}) {
            CHECK_FALSE(is_part_text(text, part));
        }
    }
}

TEST_CASE("identifiers: white space around a value makes no other, and a blank value is none") {
    struct Kind {
        std::string key;
        std::string path;  // `$` stands for the value, percent-encoded
        std::string fields;
        bool is_encoded;
        std::string counted;  // empty: a hash
    };
    const std::vector<Kind> kinds{
        {"header:x-tenant", "/a/b", "X-Tenant: $", false, "header:x-tenant=acme"},
        {"query:tenant", "/a/b?tenant=$", "", true, "query:tenant=acme"},
        {"path:tenant", "/a/$", "", true, "path:tenant=acme"},
        {"header:x-tenant+path:tenant", "/a/b", "X-Tenant: $", false,
         "20:header:x-tenant=acme+13:path:tenant=b"},
        {"header:x-api-key", "/a/b", "X-Api-Key: $", false, ""},
        {"query:token", "/a/b?token=$", "", true, ""},
        {"cookie:sid", "/a/b", "Cookie: sid=$", true, ""},
    };
    struct Blank {
        std::string bytes;
        std::string encoded;
    };
    const std::vector<Blank> blanks{{"\xc2\xa0", "%C2%A0"},
                                    {"\xe3\x80\x80", "%E3%80%80"},
                                    {"\xef\xbb\xbf", "%EF%BB%BF"},
                                    {"\t", "%09"}};
    for (const Kind& kind : kinds) {
        World world(
            "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
            "policies: {p: {key: ['" +
            kind.key +
            "'], on_missing: skip, limits: [1/s]}}\n"
            "routes: [{match: {path: '/a/{tenant}'}, policies: [p]}]\n");
        const auto identifiers = [&](const std::string& value) {
            const auto with = [&](std::string text) {
                const std::size_t at = text.find('$');
                return at == std::string::npos ? text : text.replace(at, 1, value);
            };
            const std::string field = kind.fields.empty() ? "" : with(kind.fields) + "\r\n";
            Request request(world,
                            "GET " + with(kind.path) + " HTTP/1.1\r\nHost: a\r\n" + field + "\r\n");
            CHECK(request.decide() == Fault::none);
            return request.identifiers();
        };
        CAPTURE(kind.key);
        const std::string plain = identifiers("acme");
        if (!kind.counted.empty()) CHECK(plain == "p=" + kind.counted + " ");
        for (const Blank& one : blanks) {
            const std::string& blank = kind.is_encoded ? one.encoded : one.bytes;
            CAPTURE(blank);
            CHECK(identifiers("acme" + blank) == plain);
            CHECK(identifiers(blank + "acme" + blank + blank) == plain);
            CHECK(identifiers(blank).empty());
        }
    }
}

}  // namespace tidegate::ask::identifiers_test

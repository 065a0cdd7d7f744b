#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/utf8.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity::identifier_test {

namespace {

std::string user(std::string_view name) {
    std::string out = "<";
    append_user_identifier(name, out);
    return out.substr(1);
}

std::string ip(std::string_view text, int prefix) {
    std::string out;
    append_ip_identifier(parse_scoped_ip(text).value(), prefix, out);
    return out;
}

TEST_CASE("identifier: an address is counted by itself, or by its network") {
    CHECK(ip("203.0.113.7", 32) == "ip:203.0.113.7");
    CHECK(ip("203.0.113.7", 24) == "ip:203.0.113.0/24");
    CHECK(ip("203.0.113.7", 30) == "ip:203.0.113.4/30");
    CHECK(ip("::ffff:203.0.113.7", 24) == "ip:203.0.113.0/24");
    CHECK(ip("2001:db8:1:2:3:4:5:6", 64) == "ip:2001:db8:1:2::/64");
    CHECK(ip("2001:db8:1:2ff:3:4:5:6", 56) == "ip:2001:db8:1:200::/56");
    CHECK(ip("2001:db8::7", 128) == "ip:2001:db8::7");
    CHECK(ip("2001:db8::7", 64) == ip("2001:DB8:0:0:ffff::", 64));
}

TEST_CASE("identifier: the same address on two links is two clients") {
    CHECK(ip("fe80::1%eth0", 64) == "ip:fe80::/64");
    CHECK(ip("fe80::1%eth0", 128) == "ip:fe80::1");
    CHECK(ip("fe80:2222:3333:4444:5555:6666:7777:8888%123456789012345", 127).size() <=
          kIdentifierBytesMax);
}

TEST_CASE("identifier: a plain user is itself") {
    CHECK(user("alice") == "user:alice");
    CHECK(user("alice@example.com") == "user:alice@example.com");
    CHECK(user("a b:c/#~") == "user:a b:c/#~");
}

TEST_CASE("identifier: characters that would not survive a key or a log are encoded") {
    CHECK(user("{a}") == "user:%7Ba%7D");
    CHECK(user("100%") == "user:100%25");
    CHECK(user("a\r\nb\x7f") == "user:a%0D%0Ab%7F");
    CHECK(user("\xc3\xa9") == "user:%C3%A9");
    CHECK(user(std::string_view("a\0b", 3)) == "user:a%00b");
    CHECK(user("#a#") == "user:%23a#");
}

TEST_CASE("identifier: a long user is hashed and cannot be forged by name") {
    // The longest that fits, and one more.
    CHECK(user(std::string(123, 'a')) == "user:" + std::string(123, 'a'));
    const std::string hashed = user(std::string(124, 'a'));
    CHECK(hashed.size() == 6 + 64);
    CHECK(hashed.starts_with("user:#"));
    CHECK(user(hashed.substr(5)) != hashed);
    CHECK(user(std::string(1'000'000, 'a')) ==
          "user:#cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    // Encoding counts: 42 characters that need three bytes each are too many.
    CHECK(user(std::string(41, '{')).size() == 5 + 123);
    CHECK(user(std::string(42, '{')).starts_with("user:#"));
}

TEST_CASE("identifier: different users have different identifiers") {
    const std::set<std::string> identifiers = {
        user("a"),     user("%61"), user("#"),    user("%23"),
        user("{"),     user("%7B"), user("%7b"),  user("%257B"),
        user("a\x01"), user(""),    user("a%01"), user(std::string(200, 'a')),
        user("A"),     user(" a"),  user("a "),   user(std::string(201, 'a'))};
    CHECK(identifiers.size() == 16);
}

std::string named(std::string_view name, std::string_view value) {
    std::string out;
    append_named_identifier("header", name, value, out);
    return out;
}

std::string joined(const std::vector<std::string>& parts) {
    const std::vector<std::string_view> views(parts.begin(), parts.end());
    std::string out;
    append_joined_identifier(views, out);
    return out;
}

TEST_CASE("identifier: a value is kept apart from the name it stands under") {
    CHECK(named("x-tenant", "acme") == "header:x-tenant=acme");
    CHECK(named("x", "a=b") == "header:x=a=b");
    CHECK(named("x", "{a}%\n.") == "header:x=%7Ba%7D%25%0A.");
    CHECK(named("#x", "a") == "header:%23x=a");
    const std::string hashed = named("x-tenant", std::string(200, 'a'));
    CHECK(hashed.starts_with("header:#"));
    CHECK(hashed.size() == 8 + 64);
    CHECK(hashed != named("x-tenanu", std::string(200, 'a')));
    CHECK(named("x", std::string(128 - 9, 'a')).size() == 128);
    CHECK(named("x", std::string(128 - 8, 'a')).starts_with("header:#"));
}

TEST_CASE("identifier: a long name with an empty value stays within the bound") {
    // `header:`, 120 bytes and `=` are 128; one byte more is hashed.
    CHECK(named(std::string(120, 'n'), "").size() == kIdentifierBytesMax);
    CHECK(named(std::string(121, 'n'), "").size() == 8 + 64);
}

TEST_CASE("identifier: a secret is nowhere in its identifier") {
    std::string out;
    append_secret_identifier("header", "authorization", "hush", out);
    CHECK(out.starts_with("header:authorization=#"));
    CHECK(out.size() == 22 + 64);
    CHECK(out.find("hush") == std::string::npos);
}

TEST_CASE("identifier: joined parts carry their lengths, and are hashed when long") {
    CHECK(joined({"ip:10.0.0.1", "route:a"}) == "11:ip:10.0.0.1+7:route:a");
    CHECK(joined({"a:1+3:b:2"}) != joined({"a:1", "b:2"}));
    const std::string longer = joined({std::string(100, 'a'), std::string(100, 'b')});
    CHECK(longer.size() == 65);
    CHECK(longer.front() == '#');
    CHECK(longer != joined({std::string(100, 'a'), std::string(100, 'c')}));
}

TEST_CASE("identifier: white space around a value makes no other identifier") {
    const auto all = [](const std::string& value) {
        std::vector<std::string> made(3);
        append_named_identifier("header", "x-tenant", value, made[0]);
        append_secret_identifier("cookie", "sid", value, made[1]);
        append_named_identifier("claim", "org", value, made[2]);
        return made;
    };
    const std::vector<std::string> plain = all("acme");
    CHECK(plain[0] == "header:x-tenant=acme");
    for (const std::string blank :
         {" ", "\t", "\xc2\xa0", "\xe3\x80\x80", "\xef\xbb\xbf", "\xa0"}) {
        CAPTURE(blank);
        const auto same = [&](std::size_t kind, const std::string& value) {
            CHECK(all(value)[kind] == plain[kind]);
        };
        for (std::size_t kind = 0; kind < 3; ++kind) {
            same(kind, blank + "acme");
            same(kind, "acme" + blank);
            same(kind, blank + blank + "acme" + blank);
        }
        CHECK(all("ac" + blank + "me")[0] != plain[0]);
    }
}

TEST_CASE("identifier: no two different inputs give one identifier") {
    std::mt19937 random(20261121);
    const std::string letters = "ab=+:#%{0123\x01\xff,|";
    const auto text = [&](std::size_t most) {
        std::string out;
        for (std::size_t left = random() % (most + 1); left > 0; --left) {
            out += letters[random() % letters.size()];
        }
        return out;
    };
    const auto name = [&] {
        std::string out = text(3);
        std::erase(out, '=');
        return out;
    };
    std::map<std::string, std::vector<std::string>> seen;
    for (int i = 0; i < 20'000; ++i) {
        const std::size_t most = i % 50 == 0 ? 300 : 4;
        std::vector<std::string> input;
        std::vector<std::string> parts;
        for (std::size_t left = 1 + random() % 3; left > 0; --left) {
            const std::string value = text(most);
            std::string part;
            if (random() % 2 == 0) {
                input.insert(input.end(), {"user", value});
                append_user_identifier(value, part);
            } else {
                const std::string field = name();
                input.insert(input.end(),
                             {"header", field, std::string(without_outer_blanks(value))});
                append_named_identifier("header", field, value, part);
            }
            parts.push_back(part);
        }
        const std::string identifier = parts.size() == 1 ? parts[0] : joined(parts);
        CHECK(identifier.size() <= kIdentifierBytesMax);
        const auto [entry, fresh] = seen.try_emplace(identifier, input);
        CHECK_MESSAGE(entry->second == input, identifier);
        for (const char c : identifier) {
            CHECK((c >= ' ' && c <= '~' && c != '{' && c != '}'));
        }
    }
    CHECK(seen.size() > 5'000);
}

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

TEST_CASE("names: a user is 1 to 256 bytes of UTF-8 without controls") {
    CHECK(is_safe_user("a"));
    CHECK(is_safe_user("alice@example.com"));
    CHECK(is_safe_user("https://idp.example/users/7 {x}%"));
    CHECK(is_safe_user("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
    CHECK(is_safe_user(std::string(256, 'a')));

    CHECK(!is_safe_user(""));
    CHECK(!is_safe_user(std::string(257, 'a')));
    for (const std::string_view text : {"a\nb", "\ra", "a\t", "\x1b[2J", "\x7f", "\xc2\x85", "\xff",
                                        "\xc0\xaf", "\xed\xa0\x80", "a\xc3", "\xc2\x80"}) {
        CAPTURE(text);
        CHECK(!is_safe_user(text));
    }
    CHECK(!is_safe_user(std::string_view("a\0b", 3)));
}

TEST_CASE("names: a user has no blank at either end, where a field's value or a reader loses it") {
    CHECK(is_safe_user("al ice"));
    CHECK(is_safe_user("\u5c71\u7530\u3000\u592a\u90ce"));
    for (const std::string_view text : {" alice", "alice ", " ", "alice\u00a0", "\u3000alice",
                                        "alice\u2003", "\u2800", "alice\u202f", "\u1680alice"}) {
        CAPTURE(text);
        CHECK(!is_safe_user(text));
    }
}

TEST_CASE("names: a user has no character that a reader does not see, or that turns the text") {
    for (const std::string_view hidden :
         {"\u200b",     "\u200c",     "\u200d",    "\u200e",     "\u200f",     "\u202a",
          "\u202b",     "\u202c",     "\u202d",    "\u202e",     "\u2028",     "\u2029",
          "\u2066",     "\u2067",     "\u2068",    "\u2069",     "\ufeff",     "\u00ad",
          "\u034f",     "\u061c",     "\u115f",    "\u1160",     "\u17b4",     "\u180b",
          "\u180e",     "\u2060",     "\u2064",    "\u206f",     "\u3164",     "\ufe00",
          "\ufe0f",     "\uffa0",     "\ufff9",    "\U0001bca0", "\U0001d173", "\U000e0001",
          "\U000e0061", "\U000e007f", "\U000e0100"}) {
        CAPTURE(hidden);
        CHECK(!is_safe_user("ali" + std::string(hidden) + "ce"));
        CHECK(!is_safe_user(std::string(hidden) + "alice"));
        CHECK(!is_safe_user("alice" + std::string(hidden)));
    }
    // Their neighbours are seen.
    for (const std::string_view shown :
         {"\u00ac", "\u00ae", "\u0350", "\u061b", "\u2010", "\u2027", "\u2030", "\u2070", "\ufe10",
          "\ufefc", "\ufffc", "\U0001f600", "e\u0301", "\u00e9", "\u05d0\u05d1", "\u0627\u0628"}) {
        CAPTURE(shown);
        CHECK(is_safe_user("ali" + std::string(shown)));
    }
}

TEST_CASE("names: a tier is named as tiers are in the configuration") {
    CHECK(is_tier_name("pro"));
    CHECK(is_tier_name("Pro-2_b.c"));
    CHECK(is_tier_name(std::string(64, 'a')));
    CHECK(!is_tier_name(""));
    CHECK(!is_tier_name(std::string(65, 'a')));
    for (const std::string_view text : {"a b", "a/b", "a:b", "\xc3\xa9", "a\n", "a,b", "{a}"}) {
        CAPTURE(text);
        CHECK(!is_tier_name(text));
    }
}

TEST_CASE("keyed_digest: the same text has the same name, however it is cut, on every thread") {
    const KeyedDigest digest;
    const auto name = digest.of({"abcdef"});
    CHECK(digest.of({"abcdef"}) == name);
    CHECK(digest.of({"abc", "", "def"}) == name);
    KeyedDigest::Value elsewhere{};
    std::thread([&] { elsewhere = digest.of({"abcdef"}); }).join();
    CHECK(elsewhere == name);
}

TEST_CASE("keyed_digest: other texts have other names") {
    const KeyedDigest digest;
    const std::string text(8'192, 'a');
    for (std::size_t at = 0; at < text.size(); at += 97) {
        std::string other = text;
        other[at] = 'b';
        CHECK(digest.of({other}) != digest.of({text}));
    }
    CHECK(digest.of({"a"}) != digest.of({std::string_view("a\0", 2)}));
    CHECK(digest.of({""}) != digest.of({std::string_view("\0", 1)}));
}

TEST_CASE("keyed_digest: each has a key of its own") {
    CHECK(KeyedDigest().of({"abc"}) != KeyedDigest().of({"abc"}));
}

TEST_CASE("keyed_digest: two of one thread do not disturb each other") {
    const KeyedDigest one;
    const KeyedDigest two;
    const auto first = one.of({"abc"});
    two.of({"def"});
    CHECK(one.of({"abc"}) == first);
}

}  // namespace

}  // namespace tidegate::identity::identifier_test

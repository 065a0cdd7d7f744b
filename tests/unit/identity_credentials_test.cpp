#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity/basic.hpp"
#include "identity/credentials.hpp"

namespace tidegate::identity::credentials_test {
namespace {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

http::Fields fields_of(const Pairs& pairs) {
    http::Fields fields;
    for (const auto& [name, value] : pairs) fields.push_back({http::field_name(name), name, value});
    return fields;
}

std::string shown(const Credential& credential) {
    switch (credential.state) {
        case Credential::State::absent:
            return "(absent)";
        case Credential::State::malformed:
            return "(malformed)";
        case Credential::State::twice:
            return "(twice)";
        case Credential::State::present:
            return std::string(credential.text);
    }
    return "?";
}

std::string bearer(std::string_view value) {
    return shown(
        find_secret(fields_of({{"Host", "a"}, {"Authorization", value}}), "authorization"));
}

std::string basic(std::string_view value) {
    return shown(find_basic(fields_of({{"AUTHORIZATION", value}})));
}

std::string key(const Pairs& pairs) {
    return shown(find_secret(fields_of(pairs), "x-api-key"));
}

std::string cookie(const Pairs& pairs) {
    return shown(find_cookie(fields_of(pairs), "SID"));
}

std::string cookie(std::string_view value) {
    return cookie(Pairs{{"Cookie", value}});
}

// base64 in another way than the code under test: bit by bit.
std::string base64(std::string_view bytes) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bits;
    for (const char c : bytes)
        for (int i = 7; i >= 0; --i)
            bits += (static_cast<unsigned char>(c) >> i & 1) != 0 ? '1' : '0';
    while (bits.size() % 6 != 0) bits += '0';
    std::string text;
    for (std::size_t at = 0; at < bits.size(); at += 6)
        text += kDigits[std::stoul(bits.substr(at, 6), nullptr, 2)];
    while (text.size() % 4 != 0) text += '=';
    return text;
}

std::string login(std::string_view text) {
    BasicLogin read;
    switch (read.read(text)) {
        case CredentialFault::none:
            return std::string(read.user()) + " / " + std::string(read.password());
        case CredentialFault::unsafe_user:
            return "(unsafe)";
        default:
            return "(malformed)";
    }
}

std::string login_of(std::string_view user_and_password) {
    return login(base64(user_and_password));
}

TEST_CASE("credentials: a bearer token is what follows the scheme") {
    CHECK(bearer("Bearer mF_9.B5f-4.1JqM") == "mF_9.B5f-4.1JqM");  // RFC 6750 section 2.1
    CHECK(bearer("bEARER mF_9.B5f-4.1JqM") == "mF_9.B5f-4.1JqM");
    CHECK(bearer("Bearer    aA0-._~+/==") == "aA0-._~+/==");
}

TEST_CASE("credentials: another scheme, no field and an empty one are absent") {
    CHECK(bearer("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == "(absent)");
    CHECK(bearer("Bearers abc") == "(absent)");
    CHECK(bearer("Bear er") == "(absent)");
    CHECK(bearer("Digest username=\"Mufasa\", realm=\"x\"") == "(absent)");
    CHECK(bearer("") == "(absent)");
    CHECK(basic("Bearer mF_9.B5f-4.1JqM") == "(absent)");
    CHECK(basic("=garbage") == "(absent)");
    CHECK(basic("Basic+YTpi") == "(absent)");
    CHECK(shown(find_basic({})) == "(absent)");
    CHECK(shown(find_secret({}, "authorization")) == "(absent)");
    CHECK(shown(find_basic(fields_of({{"Proxy-Authorization", "Basic YTpi"}}))) == "(absent)");
}

TEST_CASE("credentials: what a lenient server might take for a bearer token is malformed") {
    for (const std::string_view value :
         {"Bearer", "Bearer\tabc", "Bearer,abc", "Bearer=abc", "Bearer/abc", "Bearer \tabc",
          "Bearer abc def", "Bearer abc,def", "Bearer abc, Basic YTpi", "Bearer \"abc\"",
          "Bearer =", "Bearer a=b", "Bearer a=b=", "Bearer abc\x80", "Bearer:abc",
          "Bearer realm=\"x\"", "Bearer abc;"}) {
        CHECK_MESSAGE(bearer(value) == "(malformed)", value);
    }
}

TEST_CASE("credentials: a credential may be so long and no longer") {
    const std::string longest(kSecretBytesMax, 'a');
    CHECK(bearer("Bearer " + longest) == longest);
    CHECK(bearer("Bearer " + longest + "a") == "(malformed)");
    CHECK(key({{"x-api-key", longest}}) == longest);
    CHECK(key({{"x-api-key", longest + "a"}}) == "(malformed)");
    CHECK(cookie("SID=" + longest) == longest);
    CHECK(cookie("SID=" + longest + "a") == "(malformed)");
}

TEST_CASE("credentials: a cookie is counted by what servers decode its value to") {
    std::string room;
    const auto counted = [&](std::string_view value) {
        return std::string(counted_cookie_value(value, room));
    };
    CHECK(counted("abc") == "abc");
    for (const std::string_view same : {"%61bc", "a%62c", "ab%63", "%61%62%63"}) {
        CHECK_MESSAGE(counted(same) == "abc", same);
    }
    CHECK(counted("a%2Fb%2fc") == "a/b/c");
    CHECK(counted("%C3%A9") == "\xc3\xa9");
    // A `+` is one for Express and a space for Rack; `%2B` is a `+` for both.
    for (const std::string_view same : {"a+b", "a%2Bb", "a%2bb", "a%20b"}) {
        CHECK_MESSAGE(counted(same) == "a b", same);
    }
    for (const std::string_view same : {"ab%C2%A0", "%E3%80%80ab", "+ab%09", "%20ab%EF%BB%BF"}) {
        CHECK_MESSAGE(counted(same) == "ab", same);
    }
    CHECK(counted("%C2%A0").empty());
    CHECK(counted("%2561") == "%61");  // once
    for (const std::string_view malformed : {"%", "a%", "a%6", "%zz", "%6x", "100%"}) {
        CHECK_MESSAGE(counted(malformed) == malformed, malformed);
    }
    CHECK(counted("%zz%61%") == "%zza%");
    CHECK(counted("%%61") == "%a");
}

TEST_CASE("credentials: a cookie's value that needs no decoding is not copied") {
    std::string room;
    const std::string_view plain = "s:j4Fq_0.kY/9==~-";
    CHECK(counted_cookie_value(plain, room).data() == plain.data());
    CHECK(room.capacity() == std::string().capacity());
    CHECK(counted_cookie_value("", room).empty());
}

TEST_CASE("credentials: Authorization twice is no credential, whatever the two say") {
    for (const std::string_view second : {"Bearer abc", "Basic YTpi", ""}) {
        for (const Pairs& pairs :
             {Pairs{{"Authorization", "Bearer abc"}, {"authorization", second}},
              Pairs{{"Authorization", second}, {"Authorization", "x"}}}) {
            CHECK(shown(find_secret(fields_of(pairs), "authorization")) == "(twice)");
            CHECK(shown(find_basic(fields_of(pairs))) == "(twice)");
        }
    }
}

TEST_CASE("credentials: a key in a field of its own is the whole value") {
    CHECK(key({{"X-API-Key", "secret, with: anything"}}) == "secret, with: anything");
    CHECK(key({{"X-API-Key", "Bearer abc"}}) == "Bearer abc");
    CHECK(key({{"X-API-Key", ""}}) == "(absent)");
    // A server that reads fields as variables would take it; with or without the other, the request
    // is refused.
    CHECK(key({{"X_API_Key", "abc"}}) == "(twice)");
    CHECK(key({{"X-API-Key", "abc"}, {"X.Api.Key", "def"}}) == "(twice)");
    CHECK(key({{"Authorization", "Bearer abc"}}) == "(absent)");
    CHECK(key({{"x-api-key", "abc"}, {"X-Api-Key", "abc"}}) == "(twice)");
    CHECK(key({{"x-api-key", "abc"}, {"X-Api-Key", ""}}) == "(twice)");
}

TEST_CASE("credentials: Basic as RFC 7617 shows it") {
    CHECK(basic("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    CHECK(login("QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == "Aladdin / open sesame");  // section 2
    CHECK(login("dGVzdDoxMjPCow==") == "test / 123\u00a3");                   // section 2.1
}

TEST_CASE("credentials: Basic's first colon is the border, and the password may be empty") {
    CHECK(login_of("alice:a:b::") == "alice / a:b::");
    CHECK(login_of("alice:") == "alice / ");
    CHECK(login_of("a:b") == "a / b");
    CHECK(login_of("alice") == "(malformed)");
    CHECK(login("") == "(malformed)");
}

TEST_CASE("credentials: Basic has one spelling in base64") {
    CHECK(login("YTpiYw==") == "a / bc");
    for (const std::string_view text :
         {"YTpiYw",     "YTpiYw=",  "YTpiYw===",    "YTpiYx==", "YTpiYz==", "YTpi=",
          "YTpi====",   "====",     "YTpiYw==YTpi", "YT=iYw==", "=TpiYw==", " YTpiYw==",
          "YTpi\nYw==", "YTpi Yw=", "YTpiY===",     "YTpi_w==", "YTo-",     "YTo\x80",
          "Y",          "YT",       "YTp",          "YTpiYw=a"}) {
        CHECK_MESSAGE(login(text) == "(malformed)", text);
    }
    CHECK(login(base64("a:b\xff\xfe")) == "a / b\xff\xfe");  // `+` and `/` are digits
    CHECK(login(std::string(20'000, 'A')) == "(malformed)");
}

TEST_CASE("credentials: Basic's control characters are refused in user and password") {
    for (const char c : std::string("\0\n\r\t\x1f\x7f", 6)) {
        CHECK(login_of(std::string("al") + c + ":x") == "(unsafe)");
        CHECK(login_of(std::string("al:x") + c) == "(malformed)");
    }
    CHECK(login_of("al\xc2\x85:x") == "(unsafe)");  // C1
    CHECK(login_of("al\xff:x") == "(unsafe)");
    CHECK(login_of(":x") == "(unsafe)");
    CHECK(login_of("al:\xff") == "al / \xff");  // Latin-1 is a password, though not a name
}

TEST_CASE("credentials: Basic's user and password may be so long and no longer") {
    const std::string user(kUserBytesMax, 'u');
    const std::string password(kPasswordBytesMax, 'p');
    CHECK(login_of(user + ":" + password) == user + " / " + password);
    CHECK(login_of(user + "u:" + password) == "(malformed)");
    CHECK(login_of(user + ":" + password + "p") == "(malformed)");
    CHECK(login_of(user + "u:p") == "(unsafe)");
    CHECK(login_of("u:" + password + "p") == "(malformed)");
}

TEST_CASE("credentials: a login that could not be read leaves nothing of the one before") {
    BasicLogin read;
    REQUIRE(read.read("QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == CredentialFault::none);
    REQUIRE(read.read("YTpiYx==") == CredentialFault::malformed);
    CHECK(read.user().empty());
    CHECK(read.password().empty());
}

TEST_CASE("credentials: a cookie is found among others") {
    CHECK(cookie("SID=31d4d96e407aad42") == "31d4d96e407aad42");  // RFC 6265 section 3.1
    CHECK(cookie("SID=31d4d96e407aad42; lang=en-US") == "31d4d96e407aad42");
    CHECK(cookie("lang=en-US; SID=31d4d96e407aad42") == "31d4d96e407aad42");
    CHECK(cookie("lang=en-US;SID = abc ;x") == "abc");
    CHECK(cookie(";; ;SID=abc;") == "abc");
    CHECK(cookie("SID=a=b==") == "a=b==");
    CHECK(cookie(Pairs{{"Cookie", "a=b"}, {"cookie", "SID=abc"}}) == "abc");
}

TEST_CASE("credentials: a cookie of another name is another cookie") {
    for (const std::string_view value :
         {"XSID=abc", "SIDX=abc", "SID", "SID;=abc", "a=SID=abc", "\"SID\"=abc", "=abc", "S ID=abc",
          "$SID=abc", "", ";", "="}) {
        CHECK_MESSAGE(cookie(value) == "(absent)", value);
    }
    CHECK(cookie(Pairs{{"Set-Cookie", "SID=abc"}, {"Cookie2", "SID=abc"}}) == "(absent)");
}

TEST_CASE("credentials: a name that some server takes for the cookie's is malformed") {
    const auto named = [](std::string_view value) {
        return shown(find_cookie(fields_of({{"Cookie", value}}), "session_id"));
    };
    for (const char* name :
         {"session.id", "session[id", "Session_ID", "SESSION_ID", "session%5fid", "session+id",
          "session_id[]", "[session_id", "session_id%00x", "session id", "\xc2\xa0session_id",
          "session_id\xa0", "session_id\xe3\x80\x80"}) {
        CAPTURE(name);
        CHECK(named(std::string(name) + "=abc") == "(malformed)");
        CHECK(named("session_id=abc; " + std::string(name) + "=other") == "(malformed)");
    }
    for (const char* name : {"session", "session_id2", "my_session_id", "100%", "sessionid"}) {
        CAPTURE(name);
        CHECK(named("session_id=abc; " + std::string(name) + "=other") == "abc");
    }
}

TEST_CASE("credentials: an empty cookie is absent") {
    CHECK(cookie("SID=") == "(absent)");
    CHECK(cookie("SID=  ; a=b") == "(absent)");
    CHECK(cookie("SID=\"\"") == "(absent)");
    CHECK(cookie("SID=; SID=") == "(absent)");
}

TEST_CASE("credentials: a cookie named twice with two values is malformed") {
    CHECK(cookie("SID=abc; SID=abd") == "(malformed)");
    CHECK(cookie("SID=abc; SID=") == "(malformed)");
    CHECK(cookie("SID=; SID=abc") == "(malformed)");
    CHECK(cookie("SID=abc; sid=x; SID=ABC") == "(malformed)");
    CHECK(cookie(Pairs{{"Cookie", "SID=abc"}, {"Cookie", "SID=abd"}}) == "(malformed)");
    CHECK(cookie("SID=abc; SID=abc") == "abc");
    CHECK(cookie(Pairs{{"Cookie", "SID=abc"}, {"Cookie", "SID=abc"}}) == "abc");
}

TEST_CASE("credentials: a cookie's quotes do not make it another") {
    CHECK(cookie("SID=\"abc\"") == "abc");
    CHECK(cookie("SID=\"abc\"; SID=abc") == "abc");
    CHECK(cookie("SID=\"") == "(malformed)");
    CHECK(cookie("SID=\"abc") == "(malformed)");
    CHECK(cookie("SID=abc\"") == "(malformed)");
    CHECK(cookie("SID=\"\"abc\"\"") == "(malformed)");
}

TEST_CASE("credentials: a cookie whose end servers see in different places is malformed") {
    for (const std::string_view value :
         {"SID=a b", "SID=a,b", "SID=a\\b", "SID=\"\\141\"", "SID=a\tb", "SID=a\"b", "SID=\"a b\"",
          "SID=a\x80", "SID=a\x7f", "SID=\"a;b\""}) {
        CHECK_MESSAGE(cookie(value) == "(malformed)", value);
    }
    CHECK(cookie("other=\"a b\\, c\"; SID=abc") == "abc");
}

}  // namespace
}  // namespace tidegate::identity::credentials_test

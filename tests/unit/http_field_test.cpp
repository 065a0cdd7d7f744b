#include <chrono>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "http/field.hpp"

namespace tidegate::http::field_test {

namespace {

struct Known {
    std::string_view text;
    FieldName id;
};

constexpr Known kAll[] = {
    {"anthropic-ratelimit-requests-limit", FieldName::anthropic_requests_limit},
    {"anthropic-ratelimit-requests-remaining", FieldName::anthropic_requests_remaining},
    {"anthropic-ratelimit-requests-reset", FieldName::anthropic_requests_reset},
    {"anthropic-ratelimit-tokens-limit", FieldName::anthropic_tokens_limit},
    {"anthropic-ratelimit-tokens-remaining", FieldName::anthropic_tokens_remaining},
    {"anthropic-ratelimit-tokens-reset", FieldName::anthropic_tokens_reset},
    {"Connection", FieldName::connection},
    {"Content-Length", FieldName::content_length},
    {"Content-Type", FieldName::content_type},
    {"Date", FieldName::date},
    {"Expect", FieldName::expect},
    {"Forwarded", FieldName::forwarded},
    {"Host", FieldName::host},
    {"Keep-Alive", FieldName::keep_alive},
    {"Proxy-Authenticate", FieldName::proxy_authenticate},
    {"Proxy-Authorization", FieldName::proxy_authorization},
    {"Proxy-Connection", FieldName::proxy_connection},
    {"RateLimit", FieldName::ratelimit},
    {"RateLimit-Limit", FieldName::ratelimit_limit},
    {"RateLimit-Policy", FieldName::ratelimit_policy},
    {"RateLimit-Remaining", FieldName::ratelimit_remaining},
    {"RateLimit-Reset", FieldName::ratelimit_reset},
    {"Retry-After", FieldName::retry_after},
    {"Server", FieldName::server},
    {"TE", FieldName::te},
    {"Trailer", FieldName::trailer},
    {"Transfer-Encoding", FieldName::transfer_encoding},
    {"Upgrade", FieldName::upgrade},
    {"Via", FieldName::via},
    {"X-Forwarded-Client-Cert", FieldName::x_forwarded_client_cert},
    {"X-Forwarded-For", FieldName::x_forwarded_for},
    {"X-Forwarded-Host", FieldName::x_forwarded_host},
    {"X-Forwarded-Method", FieldName::x_forwarded_method},
    {"X-Forwarded-Port", FieldName::x_forwarded_port},
    {"X-Forwarded-Proto", FieldName::x_forwarded_proto},
    {"X-Forwarded-Uri", FieldName::x_forwarded_uri},
    {"X-Original-Method", FieldName::x_original_method},
    {"X-Original-URI", FieldName::x_original_uri},
    {"X-RateLimit-Limit", FieldName::x_ratelimit_limit},
    {"x-ratelimit-limit-requests", FieldName::x_ratelimit_limit_requests},
    {"x-ratelimit-limit-tokens", FieldName::x_ratelimit_limit_tokens},
    {"X-RateLimit-Remaining", FieldName::x_ratelimit_remaining},
    {"x-ratelimit-remaining-requests", FieldName::x_ratelimit_remaining_requests},
    {"x-ratelimit-remaining-tokens", FieldName::x_ratelimit_remaining_tokens},
    {"X-RateLimit-Reset", FieldName::x_ratelimit_reset},
    {"x-ratelimit-reset-requests", FieldName::x_ratelimit_reset_requests},
    {"x-ratelimit-reset-tokens", FieldName::x_ratelimit_reset_tokens},
    {"X-Real-IP", FieldName::x_real_ip},
    {"X-Request-Id", FieldName::x_request_id},
};

TEST_CASE("field: every known name is found in any case") {
    // x_request_id is the last: a name added to the list must be added here.
    CHECK(std::size(kAll) == static_cast<std::size_t>(FieldName::x_request_id));
    for (const Known& known : kAll) {
        std::string lower(known.text);
        std::string upper(known.text);
        for (char& c : lower)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
        for (char& c : upper)
            if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
        CHECK_MESSAGE(field_name(known.text) == known.id, known.text);
        CHECK_MESSAGE(field_name(lower) == known.id, lower);
        CHECK_MESSAGE(field_name(upper) == known.id, upper);
    }
}

TEST_CASE("field: a name that differs in one byte is not that name") {
    for (const Known& known : kAll) {
        for (std::size_t i = 0; i < known.text.size(); ++i) {
            for (int byte = 0; byte < 256; ++byte) {
                std::string text(known.text);
                text[i] = static_cast<char>(byte);
                if (equal_ignoring_case(text, known.text)) continue;
                REQUIRE_MESSAGE(field_name(text) != known.id, text);
            }
        }
        CHECK(field_name(std::string(known.text) + "s") == FieldName::other);
        CHECK(field_name(known.text.substr(1)) == FieldName::other);
    }
    CHECK(field_name("") == FieldName::other);
    CHECK(field_name("Content_Length") == FieldName::other);
    CHECK(field_name(std::string(100'000, 'a')) == FieldName::other);
}

TEST_CASE("field: only ASCII letters have two cases") {
    CHECK(equal_ignoring_case("aZ-09", "Az-09"));
    CHECK_FALSE(equal_ignoring_case("a", "ab"));
    CHECK_FALSE(equal_ignoring_case("[", "{"));
    CHECK_FALSE(equal_ignoring_case("@", "`"));
    CHECK_FALSE(equal_ignoring_case("-", "\r"));
    CHECK_FALSE(equal_ignoring_case("\xc3\x84", "\xc3\xa4"));
    CHECK(equal_ignoring_case("", ""));
    // Every byte counts, whatever the length.
    for (std::size_t size = 1; size < 40; ++size) {
        std::string text(size, 'q');
        CHECK(equal_ignoring_case(text, std::string(size, 'Q')));
        for (char& c : text) {
            c = '1';
            CHECK_FALSE(equal_ignoring_case(text, std::string(size, 'Q')));
            c = 'q';
        }
    }
}

TEST_CASE("field: as a variable, whatever is no letter or digit is `-`") {
    CHECK(equal_as_variable("X_User-Id", "x-user_ID"));
    CHECK(equal_as_variable("x.user~id", "x-user-id"));
    CHECK_FALSE(equal_as_variable("x-user-1d", "x-user-id"));
    CHECK_FALSE(equal_as_variable("xuserid", "x-user-id"));
    CHECK_FALSE(equal_as_variable("x-user-id", "x-user-id-"));
    CHECK(equal_as_variable("a_b", "A-B"));
    CHECK(equal_as_variable("X-F\xc3rwarded", "x-f_rwarded"));
    // Every byte at every place, of names shorter and longer than what is compared at once.
    for (const std::string_view name : {"x-key", "x-forwarded-for"}) {
        for (std::size_t i = 0; i < name.size(); ++i) {
            for (int byte = 0; byte < 256; ++byte) {
                std::string text(name);
                const char c = text[i] = static_cast<char>(byte);
                const bool is_same = name[i] == '-' ? !is_alphanumeric(c) : to_lower(c) == name[i];
                REQUIRE(equal_as_variable(text, name) == is_same);
                REQUIRE(equal_as_variable(name, text) == is_same);
            }
        }
    }
}

TEST_CASE("field: fields that are kept no longer look at the bytes that they came in") {
    std::string bytes = "X-Sum: 8, X-Empty: , Y: a long value that no short string has room for";
    const std::string_view all = bytes;
    Fields fields = {{FieldName::other, all.substr(0, 5), all.substr(7, 1)},
                     {FieldName::other, all.substr(10, 7), {}},
                     {FieldName::other, all.substr(21, 1), all.substr(24)}};
    std::string text = "of the last request";
    keep_in(text, fields);
    bytes.assign(bytes.size(), '\n');
    REQUIRE(fields.size() == 3);
    CHECK(fields[0].name == "X-Sum");
    CHECK(fields[0].value == "8");
    CHECK(fields[1].name == "X-Empty");
    CHECK(fields[1].value.empty());
    CHECK(fields[2].name == "Y");
    CHECK(fields[2].value == "a long value that no short string has room for");

    Fields none;
    keep_in(text, none);
    CHECK(text.empty());
}

TEST_CASE("field: a single value is that of the only field of the name") {
    const Fields fields = {{FieldName::other, "X-User", "alice"},
                           {FieldName::other, "X-Twice", "1"},
                           {FieldName::other, "x-twice", "2"},
                           {FieldName::other, "X-Empty", ""}};
    CHECK(single_value(fields, "x-user") == "alice");
    CHECK(single_value(fields, "x-twice").empty());
    CHECK(single_value(fields, "x-empty").empty());
    CHECK(single_value(fields, "x-none").empty());
}

TEST_CASE("field: of a known name there is a single value, or none") {
    const Fields fields = {{FieldName::via, "Via", "1.1 a"},
                           {FieldName::x_request_id, "X-Request-ID", "b"},
                           {FieldName::via, "via", "1.1 c"}};
    CHECK(single_value(fields, FieldName::x_request_id) == "b");
    CHECK(single_value(fields, FieldName::via).empty());
    CHECK(single_value(fields, FieldName::te).empty());
}

TEST_CASE("date_field: the line changes with the second, and only then") {
    using std::chrono::milliseconds;
    const std::chrono::system_clock::time_point start{std::chrono::seconds{784'111'777}};
    http::DateField date;
    CHECK(date.line().empty());
    date.set(start);
    const char* const bytes = date.line().data();
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    date.set(start + milliseconds{999});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    date.set(start + milliseconds{1'000});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
    CHECK(date.line().data() == bytes);
    // A clock that was put back.
    date.set(start - milliseconds{1});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:36 GMT\r\n");
}

}  // namespace

}  // namespace tidegate::http::field_test

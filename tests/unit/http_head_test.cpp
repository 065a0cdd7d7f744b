#include <string>

#include <doctest/doctest.h>

#include "http/head.hpp"

namespace tidegate::http::head_test {

namespace {

struct Read {
    HeadFault fault = HeadFault::none;
    std::size_t length = 0;
    RequestHead head;
};

Read read(std::string_view bytes, HeadBounds bounds = {}) {
    Read result;
    HeadScanner scanner;
    result.length = scanner.scan(bytes, bounds);
    result.fault = scanner.fault();
    if (result.length != 0) {
        result.fault = parse_request_head(bytes.substr(0, result.length), bounds, result.head);
    }
    // The reader that does without a scanner finds the same, or nothing.
    const bool is_good = result.fault == HeadFault::none;
    RequestHead head;
    CHECK(parse_request_head_in(bytes, bounds, head) == (is_good ? result.length : 0));
    CHECK(head.method == (is_good ? result.head.method : ""));
    CHECK(head.path == (is_good ? result.head.path : ""));
    CHECK(head.fields.size() == (is_good ? result.head.fields.size() : 0));
    return result;
}

HeadFault response_fault(std::string_view bytes, ResponseHead& head) {
    HeadScanner scanner;
    const std::size_t length = scanner.scan(bytes, {});
    if (length == 0) return scanner.fault();
    return parse_response_head(bytes.substr(0, length), {}, head);
}

}  // namespace

TEST_CASE("head: a request is split into its parts, bytes untouched") {
    const auto result = read(
        "PATCH /a%2Fb/../c?q=1&r HTTP/1.1\r\nHost: Example.com:8080\r\nX-A:\t b c \t\r\n"
        "x-a:\r\n\r\nbody");
    REQUIRE(result.fault == HeadFault::none);
    CHECK(result.head.method == "PATCH");
    CHECK(result.head.path == "/a%2Fb/../c");
    CHECK(result.head.query == "?q=1&r");
    CHECK(result.head.minor_version == 1);
    REQUIRE(result.head.fields.size() == 3);
    CHECK(result.head.fields[0].id == FieldName::host);
    CHECK(result.head.fields[1].value == "b c");
    CHECK(result.head.fields[2].value.empty());
}

TEST_CASE("head: one that is not whole is not read, and nothing of it is kept") {
    const std::string bytes = "GET http://a/b?c HTTP/1.1\r\nHost: a\r\nX-B: c\r\n\r\n";
    RequestHead head;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CAPTURE(size);
        CHECK(parse_request_head_in(std::string_view(bytes).substr(0, size), {}, head) == 0);
        CHECK(head.method.empty());
        CHECK(head.authority.empty());
        CHECK(head.fields.empty());
    }
    CHECK(parse_request_head_in(bytes, {}, head) == bytes.size());
    CHECK(head.authority == "a");
    CHECK(head.fields.size() == 2);
}

TEST_CASE("head: the end is found wherever the bytes are cut") {
    const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        CAPTURE(cut);
        HeadScanner scanner;
        const std::size_t first = scanner.scan(std::string_view(bytes).substr(0, cut), {});
        const std::size_t length = first != 0 ? first : scanner.scan(bytes, {});
        CHECK(length == bytes.size() - 3);
        CHECK(scanner.fault() == HeadFault::none);
    }
}

TEST_CASE("head: the bound that is crossed first decides, in whatever portions the bytes come") {
    const HeadBounds bounds{100, 10, 20};
    const std::string line = "GET / HTTP/1.1\r\n";
    const std::vector<std::pair<std::string, HeadFault>> cases = {
        // Faults behind the bound are not looked for.
        {line + "A: " + std::string(90, 'a') + "\n\r\n", HeadFault::too_large},
        {line + "A: " + std::string(80, 'a') + "\n\r\n", HeadFault::bad_line_end},
        {"GET /" + std::string(90, 'a') + " HTTP/1.1\r\n\r\n", HeadFault::uri_too_long},
        {"GET /" + std::string(90, 'a') + "\n", HeadFault::uri_too_long},
        {line + "A: " + std::string(77, 'a') + "\r\n\r\n", HeadFault::none},
        {line + "A: " + std::string(78, 'a') + "\r\n\r\n", HeadFault::too_large},
    };
    for (const auto& [bytes, fault] : cases) {
        CAPTURE(bytes);
        for (std::size_t portion = 1; portion <= bytes.size(); ++portion) {
            CAPTURE(portion);
            HeadScanner scanner;
            std::size_t length = 0;
            for (std::size_t end = portion;; end += portion) {
                length = scanner.scan(std::string_view(bytes).substr(0, end), bounds);
                if (length != 0 || scanner.fault() != HeadFault::none || end >= bytes.size()) break;
            }
            CHECK(scanner.fault() == fault);
            CHECK(length == (fault == HeadFault::none ? bytes.size() : 0));
        }
    }
}

TEST_CASE("head: a line that breaks the grammar is refused as soon as it is there") {
    struct Case {
        std::string bytes;
        HeadFault fault;
    };
    const std::string line = "GET / HTTP/1.1\r\n";
    const std::vector<Case> cases = {
        {"\n", HeadFault::bad_line_end},
        {"GET / HTTP/1.1\n", HeadFault::bad_line_end},
        {line + "Host: a\n", HeadFault::bad_line_end},
        {"\r\n\r\n", HeadFault::bad_request_line},
        {"GET /\r\n\r\n", HeadFault::bad_request_line},
        {"GET  / HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET / HTTP/1.1 \r\n\r\n", HeadFault::bad_request_line},
        {"GET / HTTP/1.2\r\n\r\n", HeadFault::bad_version},
        {"GET / HTTP/2.0\r\n\r\n", HeadFault::bad_version},
        {"GET / http/1.1\r\n\r\n", HeadFault::bad_request_line},
        {"G@T / HTTP/1.1\r\n\r\n", HeadFault::bad_request_line},
        {" GET / HTTP/1.1\r\n\r\n", HeadFault::bad_request_line},
        {"GET /a#b HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET /a\x80 HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET a HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET * HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET ftp://a/ HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET http:///x HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {"GET http://u@a/ HTTP/1.1\r\n\r\n", HeadFault::bad_target},
        {line + "Host : a\r\n\r\n", HeadFault::bad_field},
        {line + " Host: a\r\n\r\n", HeadFault::bad_field},
        {line + "Host: a\r\n b\r\n\r\n", HeadFault::bad_field},
        {line + "Host\r\n\r\n", HeadFault::bad_field},
        {line + ": a\r\n\r\n", HeadFault::bad_field},
        {line + "A: b\rc\r\n\r\n", HeadFault::bad_field},
        {line + std::string("A: b\0c\r\n\r\n", 10), HeadFault::bad_field},
        {line + "A: b\x7f\r\n\r\n", HeadFault::bad_field},
        {line + "A\x80: b\r\n\r\n", HeadFault::bad_field},
    };
    for (const Case& one : cases) {
        CAPTURE(one.bytes);
        CHECK(read(one.bytes).fault == one.fault);
    }
}

TEST_CASE("head: every byte of a value is looked at, however long it is") {
    for (std::size_t size = 1; size < 30; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                if (byte == '\n') continue;  // ends the line
                std::string value(size, 'x');
                value[at] = static_cast<char>(byte);
                const bool is_allowed = (byte >= 0x20 && byte != 0x7f) || byte == '\t';
                const auto fault = read("GET / HTTP/1.1\r\nA: " + value + "\r\n\r\n").fault;
                REQUIRE((fault == HeadFault::none) == is_allowed);
            }
        }
    }
}

TEST_CASE("head: bounds on bytes, fields and the target have faults of their own") {
    const HeadBounds bounds{200, 3, 50};
    CHECK(read("GET /" + std::string(60, 'a') + " HTTP/1.1\r\n\r\n", bounds).fault ==
          HeadFault::uri_too_long);
    // Reported before the line has ended: there may be no end.
    CHECK(read("GET /" + std::string(150, 'a'), bounds).fault == HeadFault::uri_too_long);
    CHECK(read("GET / HTTP/1.1\r\nA: " + std::string(300, 'a'), bounds).fault ==
          HeadFault::too_large);
    CHECK(read("GET / HTTP/1.1\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", bounds).fault == HeadFault::none);
    CHECK(read("GET / HTTP/1.1\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", bounds).fault ==
          HeadFault::too_many_fields);
}

TEST_CASE("head: the absolute form names the host; without a path it asks for the root") {
    auto result = read("GET http://api.example:81/x?y HTTP/1.1\r\n\r\n");
    REQUIRE(result.fault == HeadFault::none);
    CHECK(result.head.authority == "api.example:81");
    CHECK(result.head.path == "/x");
    CHECK(result.head.query == "?y");
    result = read("GET HTTP://api.example?y HTTP/1.1\r\n\r\n");
    REQUIRE(result.fault == HeadFault::none);
    CHECK(result.head.path == "/");
    CHECK(result.head.query == "?y");
}

TEST_CASE("head: the asterisk is for OPTIONS alone") {
    CHECK(read("OPTIONS * HTTP/1.1\r\n\r\n").fault == HeadFault::none);
    CHECK(read("POST * HTTP/1.1\r\n\r\n").fault == HeadFault::bad_target);
}

TEST_CASE("head: hosts are names, IPv4, or IPv6 in brackets, with an optional port") {
    for (const char* good : {"a", "a.b:80", "127.0.0.1:8080", "[::1]", "[::1]:443", "a_b",
                             "a:", "a.", "A.b.:80", "a:65535", "[::ffff:1.2.3.4]"}) {
        CAPTURE(good);
        CHECK(is_valid_host(good));
    }
    for (const char* bad : {"",        ":80",  "a:b",       "a:123456",
                            "a b",     "a/b",  "a@b",       "[::1",
                            "::1",     "[]",   "[::1]x",    "a,b c",
                            "[[::1]]", "[zz]", "[1.2.3.4]", "[fe80::1%25eth0]",
                            "[v1.a]",  "a%",   "a%2",       "a%zz",
                            "a%2Db",   "a..",  "a..b",      ".a",
                            ".",       "..",   "a..:80",    "a:65536",
                            "a:99999", "a,b",  "a;b",       "a:+80",
                            "a:-1",    "a!",   "a*",        "a\xC3\xA9",
                            "a\t",     "a=b",  "[::1].",    "(a)"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_valid_host(bad));
    }
    CHECK_FALSE(is_valid_host(std::string_view("a\0b", 3)));
    CHECK(is_valid_host(std::string(255, 'a')));
    CHECK_FALSE(is_valid_host(std::string(256, 'a')));
}

TEST_CASE("head: status lines") {
    ResponseHead head;
    CHECK(response_fault("HTTP/1.1 204 No Content\r\nA: b\r\n\r\n", head) == HeadFault::none);
    CHECK(head.status == 204);
    CHECK(head.reason == "No Content");
    CHECK(response_fault("HTTP/1.0 200 \r\n\r\n", head) == HeadFault::none);
    CHECK(head.minor_version == 0);
    CHECK(response_fault("HTTP/1.1 200\r\n\r\n", head) == HeadFault::none);
    for (const char* bad :
         {"HTTP/0.9 200 OK\r\n\r\n", "HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n",
          "HTTP/1.1 -20 x\r\n\r\n", "HTTP/1.1 600 x\r\n\r\n", "HTTP/1.1  200 x\r\n\r\n",
          "ICY 200 OK\r\n\r\n", "HTTP/1.1 200 a\rb\r\n\r\n", "\r\n\r\n", "<html>\r\n\r\n"}) {
        CAPTURE(bad);
        CHECK(response_fault(bad, head) != HeadFault::none);
    }
}

}  // namespace tidegate::http::head_test

// Known ways to make two readers of one stream see different requests, and odd messages that a
// strict reader must still accept. Behind each refused request comes the one that a smuggler wants
// to be read next.
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::smuggling_test {

namespace {

const std::string kSmuggled = get_request("/smuggled");
const std::string kHead = "POST / HTTP/1.1\r\nHost: a\r\n";
const std::string kChunked = kHead + "Transfer-Encoding: chunked\r\n\r\n";
const std::string kNul(1, '\0');

// Sends each with the smuggled request behind it: one answer of `status`, then the end, and the
// upstream has seen no whole request.
void refuses_each(const std::vector<std::string>& requests, int status = 400) {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    for (const std::string& bytes : requests) {
        CAPTURE(bytes);
        auto client = tidegate.client();
        client.send(bytes + kSmuggled);
        const auto answer = client.response();
        CHECK(answer.status() == status);
        CHECK(same_name(answer.field("Connection"), "close"));
        CHECK(client.closed());
    }
    for (const auto& request : upstream.seen()) CHECK(request.broken);
    CHECK(tidegate.get().status() == 200);
}

std::vector<std::string> with_each(const std::string& begin, const std::vector<std::string>& parts,
                                   const std::string& end) {
    std::vector<std::string> requests;
    for (const std::string& part : parts) requests.push_back(begin + part + end);
    return requests;
}

}  // namespace

TEST_CASE("smuggling: a coding that is not exactly chunked is refused") {
    refuses_each(with_each(kHead + "Transfer-Encoding:",
                           {
                               " xchunked",
                               " chunkedx",
                               " x chunked",
                               " chunked x",
                               " chun ked",
                               " chunked,",
                               " ,chunked",
                               " chunked, identity",
                               " identity, chunked",
                               " identity",
                               " chunked, gzip",
                               " chunked;",
                               " chunked;q=1",
                               " \"chunked\"",
                               " 'chunked'",
                               " [chunked]",
                               " chunked\x0b",
                               " \x0c"
                               "chunked",
                               " chunked" + kNul,
                               " chun\xe2\x84\xaa"
                               "ed",
                               " \xc2\xa0"
                               "chunked",
                               " chunked\xa0",
                               "\r\n chunked",
                               " chunked\r\n\t, identity",
                               " chunked\r",
                               " chunked\rx: y",
                               " gzip\r\nTransfer-Encoding: chunked",
                               " chunked\r\nTransfer-Encoding: gzip",
                               " chunked\r\ntransfer-encoding: chunked",
                               " chunked\r\nTransfer-Encoding:",
                           },
                           "\r\n\r\n0\r\n\r\n"));
}

TEST_CASE("smuggling: a coding behind a name that is not quite its own does not frame") {
    refuses_each(with_each(kHead,
                           {
                               "Transfer-Encoding : chunked",
                               "Transfer-Encoding\t: chunked",
                               " Transfer-Encoding: chunked",
                               "\tTransfer-Encoding: chunked",
                               "Transfer-Encoding" + kNul + ": chunked",
                               "\x0bTransfer-Encoding: chunked",
                               "Transfer-Encoding\x0b: chunked",
                               "Transfer Encoding: chunked",
                               "Transfer-Encoding chunked",
                               "\"Transfer-Encoding\": chunked",
                               "Transfer-Encoding\xa0: chunked",
                               "X: y\rTransfer-Encoding: chunked",
                               "X: y\nTransfer-Encoding: chunked",
                               "X: y\r\r\nTransfer-Encoding: chunked",
                               "X: y\n\rTransfer-Encoding: chunked",
                           },
                           "\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"));
}

TEST_CASE("smuggling: a length that is not one plain number is refused") {
    refuses_each(with_each(kHead + "Content-Length:",
                           {
                               "",
                               " ",
                               " +5",
                               " -5",
                               " -0",
                               " 0x5",
                               " 5,5",
                               " 5, 5",
                               " 5 5",
                               " 5;",
                               " 5.0",
                               " 5e0",
                               " 5_0",
                               " 5,",
                               " ,5",
                               " \"5\"",
                               " 5\x0b",
                               " \x0b"
                               "5",
                               " 5" + kNul,
                               " 5\xa0",
                               " \xd9\xa5",
                               " 99999999999999999999",
                               " 18446744073709551621",
                               " 1000000000000000001",
                               "\r\n 5",
                               " 5\r\nContent-Length: 5",
                               " 5\r\ncontent-length: 6",
                               " 0\r\nContent-Length: 5",
                               " 5\r\nContent-Length:",
                           },
                           "\r\n\r\nhello"));
}

TEST_CASE("smuggling: a length and a coding, whichever is first and however it is written") {
    std::vector<std::string> requests;
    for (const std::string length : {"Content-Length: 4\r\n", "content-length:4\r\n",
                                     "Content-Length: 0\r\n", "CONTENT-LENGTH: 004\r\n"}) {
        for (const std::string coding :
             {"Transfer-Encoding: chunked\r\n", "transfer-encoding:\tChunked \r\n",
              "Transfer-Encoding: identity\r\n"}) {
            for (const std::string version : {"1.1", "1.0"}) {
                const std::string begin = "POST / HTTP/" + version + "\r\nHost: a\r\n";
                requests.push_back(begin + length + coding + "\r\n0\r\n\r\n");
                requests.push_back(begin + coding + "X: y\r\n" + length + "\r\n0\r\n\r\n");
            }
        }
    }
    refuses_each(requests);
}

TEST_CASE("smuggling: chunks that are cut where another reader would not cut them") {
    refuses_each(with_each(kChunked,
                           {
                               "+4\r\nabcd\r\n",
                               "-4\r\nabcd\r\n",
                               "0x4\r\nabcd\r\n",
                               "4h\r\nabcd\r\n",
                               "4,\r\nabcd\r\n",
                               "4_\r\nabcd\r\n",
                               "4 \r\nabcd\r\n",
                               "4\t\r\nabcd\r\n",
                               "\t4\r\nabcd\r\n",
                               "4\nabcd\r\n",
                               "4\r\r\nabcd\r\n",
                               "4\rabcd\r\n",
                               "4\n\rabcd\r\n",
                               "\xd9\xa4\r\nabcd\r\n",
                               "4" + kNul + "\r\nabcd\r\n",
                               "4;\r\nabcd\r\n",
                               "4;=a\r\nabcd\r\n",
                               "4;a=\r\nabcd\r\n",
                               "4;a=\"b\r\nabcd\r\n",
                               "4;\nabcd\r\n",
                               "4;a\nb\r\nabcd\r\n",
                               "4;a\rb\r\nabcd\r\n",
                               "4;a=\"\n\"\r\nabcd\r\n",
                               "4;" + kNul + "\r\nabcd\r\n",
                               "4 a\r\nabcd\r\n",
                               "4\r\nabcd\n",
                               "4\r\nabcd\r",
                               "4\r\nabcd",
                               "4\r\nabcde\r\n",
                               "4\r\nabc\r\n",
                               "4\r\nabcd\r\n\r\n",
                               "ffffffffffffffff\r\nabcd\r\n",
                               "10000000000000004\r\nabcd\r\n",
                               "8000000000000004\r\nabcd\r\n",
                               "00000000000000004\r\nabcd\r\n",
                           },
                           "0\r\n\r\n"));
}

TEST_CASE("smuggling: an end of chunks that another reader would not see") {
    refuses_each(with_each(kChunked + "4\r\nabcd\r\n",
                           {
                               "0\n\r\n",
                               "0\r\n\n",
                               "0\r\r\n\r\n",
                               "0;\n\r\n",
                               "0\r\nA: b\n\r\n",
                               "0\r\nA: b\r\n\n",
                               "0\r\nA : b\r\n\r\n",
                               "0\r\n A: b\r\n\r\n",
                               "0\r\nA: b\r\n c\r\n\r\n",
                               "0\r\nA\r\n\r\n",
                               "0\r\n: b\r\n\r\n",
                               "0\r\nA: " + kNul + "\r\n\r\n",
                               "0\r\nA: b\rc\r\n\r\n",
                           },
                           ""));
}

TEST_CASE("smuggling: a request line with anything but two single spaces in it is refused") {
    refuses_each({
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\t\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\x0b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET\x0c/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET" + kNul + "/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1" + kNul + "\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / \r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
        "GET / HTTP/01.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1,1\r\nHost: a\r\n\r\n",
        "GET / HTTP/+1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.\r\nHost: a\r\n\r\n",
        "GET / HTTP /1.1\r\nHost: a\r\n\r\n",
        "GET / Http/1.1\r\nHost: a\r\n\r\n",
        "(GET) / HTTP/1.1\r\nHost: a\r\n\r\n",
        "G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n",
        " / HTTP/1.1\r\nHost: a\r\n\r\n",
    });
}

TEST_CASE("smuggling: a target in none of the four forms is refused") {
    refuses_each(with_each("GET ",
                           {
                               "/a#fragment",
                               "/a?b#c",
                               "/a\x01",
                               "/a\x7f",
                               "/\xc3\xa9",
                               "/a\xff",
                               "/a" + kNul,
                               "/%00",
                               "/a%",
                               "/a%4",
                               "/a%zz",
                               "*",
                               "*/a",
                               "a",
                               "a/b",
                               "?a",
                               "//a b",
                               "http:/a/",
                               "http:a",
                               "http:///a",
                               "http://",
                               "http://user@a/",
                               "http://a b/",
                               "http://a:b/",
                               "http://[::1/",
                               "http://[zz]/",
                               "http://a%zz/",
                               "ftp://a/",
                               "file:///etc/passwd",
                               "javascript:1",
                               "a:80",
                               "http://a\\@b/",
                           },
                           " HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST_CASE("smuggling: a missing, malformed or second Host is refused") {
    refuses_each(with_each("GET / HTTP/1.1\r\n",
                           {
                               "",
                               "Host:\r\n",
                               "Host: \t\r\n",
                               "Host: a, b\r\n",
                               "Host: a b\r\n",
                               "Host: a/\r\n",
                               "Host: a?\r\n",
                               "Host: a#\r\n",
                               "Host: u@a\r\n",
                               "Host: a\\b\r\n",
                               "Host: a:b\r\n",
                               "Host: a:80:80\r\n",
                               "Host: a:123456\r\n",
                               "Host: :80\r\n",
                               "Host: [::1\r\n",
                               "Host: ::1\r\n",
                               "Host: [::1]a\r\n",
                               "Host: [zz]\r\n",
                               "Host: [1.2.3.4]\r\n",
                               "Host: a%\r\n",
                               "Host: a%zz\r\n",
                               "Host: \xc3\xa9\r\n",
                               "Host: a\"\r\n",
                               "Host: http://a\r\n",
                               "Host: a\r\nHost: a\r\n",
                               "Host: a\r\nhost: b\r\n",
                               "Host: a\r\nHost:\r\n",
                               "Host : a\r\n",
                               "Host: a\r\n b\r\n",
                           },
                           "\r\n"));
    // RFC 9112 section 3.2: the absolute form does not change that.
    refuses_each({"GET http://a/ HTTP/1.1\r\n\r\n",
                  "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                  "GET http://a/ HTTP/1.1\r\nHost: b/c\r\n\r\n"});
}

TEST_CASE("smuggling: other versions get 505, CONNECT and TRACE 501, and nothing behind is read") {
    refuses_each({"GET / HTTP/0.9\r\nHost: a\r\n\r\n", "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
                  "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
                 505);
    refuses_each({"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
                  "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
                  "CONNECT a:80 HTTP/1.0\r\nHost: a:80\r\n\r\n",
                  "TRACE / HTTP/1.1\r\nHost: a\r\nCookie: session=secret\r\n\r\n",
                  "trace / HTTP/1.1\r\nHost: a\r\n\r\n"},
                 501);
    refuses_each(
        {"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"});
}

TEST_CASE("smuggling: an unusual but valid request passes, written anew") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    struct Case {
        std::string request;
        std::string framing;  // Content-Length and Transfer-Encoding as the upstream sees them
        std::string body;
    };
    const Case cases[] = {
        {kHead + "Content-Length:5\r\n\r\nhello", "5/", "hello"},
        {kHead + "Content-Length: \t 5 \t \r\n\r\nhello", "5/", "hello"},
        {kHead + "cOnTeNt-LeNgTh: 0005\r\n\r\nhello", "5/", "hello"},
        {kHead + "Content-Length: 0\r\n\r\n", "0/", ""},
        {kHead + "Transfer-Encoding:\tChUnKeD\t \r\n\r\n5\r\nhello\r\n0\r\n\r\n", "/chunked",
         "hello"},
        {kChunked + "5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n", "/chunked", "hello"},
        {kChunked + "5 ; a\r\nhello\r\n00\r\n\r\n", "/chunked", "hello"},
        {kChunked + "000000000000005\r\nhello\r\n0\r\n\r\n", "/chunked", "hello"},
        {kChunked + "0\r\n\r\n", "/chunked", ""},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "5/", "hello"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.request);
        auto client = tidegate.client();
        CHECK(client.ask(one.request).status() == 200);
        const auto seen = upstream.last();
        CHECK(seen.field("Content-Length") + "/" + seen.field("Transfer-Encoding") == one.framing);
        CHECK(seen.body == one.body);
        CHECK(client.get("/after").status() == 200);
    }
}

TEST_CASE("smuggling: one empty line before a request is passed over, no more, however they come") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url()));
    auto client = tidegate.client();
    CHECK(client.ask("\r\n" + get_request("/1")).status() == 200);
    client.send(post_request("/2", "body") + "\r\n" + get_request("/3"));
    CHECK(client.response().status() == 200);
    CHECK(client.response().status() == 200);
    CHECK(upstream.requests() == 3);
    for (const milliseconds pause : {milliseconds{0}, milliseconds{20}}) {
        auto talker = tidegate.client();
        for (int i = 0; i < 2; ++i) {
            talker.send("\r\n");
            std::this_thread::sleep_for(pause);
        }
        talker.send(kSmuggled);
        CHECK(talker.response().status() == 400);
        CHECK(talker.closed());
    }
    CHECK(upstream.requests() == 3);
}

TEST_CASE("smuggling: trailers cannot frame or route a request, or name its user") {
    const Upstream upstream(ok());
    const Tidegate tidegate(
        "identity: {client_ip: {trusted_proxies: [127.0.0.0/8]},"
        " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n" +
        simple(upstream.url()));
    auto client = tidegate.client();
    const auto answer = client.ask(
        kHead +
        "Transfer-Encoding: chunked\r\nConnection: X-Hop\r\n\r\n4\r\nbody\r\n0\r\n"
        "Content-Length: 3\r\ncontent_length: 3\r\nTransfer-Encoding: gzip\r\nHost: b\r\n"
        "X-User-Id: admin\r\nx_user_id: admin\r\nX-Forwarded-For: 192.0.2.1\r\n"
        "Forwarded: for=192.0.2.1\r\nX-Request-Id: mine\r\nConnection: close\r\n"
        "Keep-Alive: 5\r\nTE: gzip\r\nUpgrade: h2c\r\nTrailer: X-Sum\r\nX-Hop: 1\r\n"
        "Proxy-Authorization: x\r\nX-Sum: 7\r\nx-sum: 8\r\nAuthorization: Bearer x\r\n"
        "Cookie: a=b\r\nExpect: 100-continue\r\nrange: bytes=0-1\r\nContent.Type: t\r\n"
        "Transfer.Encoding: chunked\r\n\r\n");
    CHECK(answer.status() == 200);
    CHECK(upstream.last().body == "body");
    CHECK(upstream.last().trailers == FieldList{{"X-Sum", "7"}, {"x-sum", "8"}});
    CHECK(client.get().status() == 200);
}

}  // namespace tidegate::test::smuggling_test

// The request that a gateway asks about: which fields state it.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "faces/original_request.hpp"

namespace tidegate::faces::original_request_test {
namespace {

using config::Dialect;

// The fields of a gateway, and the request that was read of them.
struct Read {
    Read(Dialect dialect, const std::string& head, const std::string& prefix = "",
         std::size_t uri_bytes = 64)
        : bytes(head + "\r\n") {
        config::Listen listen;
        listen.face = Face::forward_auth;
        listen.dialect = dialect;
        listen.path_prefix = prefix;
        config::RequestBounds bounds;
        bounds.uri_bytes = uri_bytes;
        const http::HeadBounds head_bounds{8'192, 100, 8'192};
        // What no head may hold does not come here.
        if (http::parse_request_head(bytes, head_bounds, facts.head) != http::HeadFault::none) {
            fault = "refused as a head";
            return;
        }
        facts.host = "gateway.test";
        const OriginalFault found = read_original(listen, bounds, facts);
        fault = found.text;
        part = found.part;
    }

    bool has(std::string_view name) const {
        for (const http::Field& field : facts.head.fields) {
            if (http::equal_ignoring_case(field.name, name)) return true;
        }
        return false;
    }

    std::string bytes;
    ask::Facts facts;
    std::string_view fault;
    OriginalPart part{};
};

std::string question(const std::vector<std::string>& fields, const std::string& target = "/ask") {
    std::string head = "GET " + target + " HTTP/1.1\r\nHost: gateway.test\r\n";
    for (const std::string& field : fields) head += field + "\r\n";
    return head;
}

const std::vector<std::string> kForwarded{"X-Forwarded-Method: PUT", "X-Forwarded-Uri: /v1/a?b=c",
                                          "X-Forwarded-Host: app.test"};

// What ingress-nginx asks with, about a URL.
std::string asked_by_ingress(const std::string& url, const std::string& more = "") {
    return question({"X-Request-ID: 1", "X-Original-URL: " + url, "X-Original-Method: POST",
                     "X-Sent-From: nginx-ingress-controller"}) +
           more;
}

bool names(std::string_view fault, std::string_view field) {
    return fault.find(field) != fault.npos;
}

}  // namespace

TEST_CASE("original request: nginx says method and target in fields, and the host as its own") {
    const Read read(Dialect::nginx,
                    question({"X-Original-Method: POST", "X-Original-URI: /v1/a?b=c", "X-Key: k"}));
    CHECK(read.fault.empty());
    CHECK(read.facts.head.method == "POST");
    CHECK(read.facts.head.target == "/v1/a?b=c");
    CHECK(read.facts.head.path == "/v1/a");
    CHECK(read.facts.head.query == "?b=c");
    CHECK(read.facts.host == "gateway.test");
    CHECK(read.has("X-Key"));
    CHECK_FALSE(read.has("X-Original-URI"));
    CHECK_FALSE(read.has("X-Original-Method"));
}

TEST_CASE("original request: Traefik and Caddy say the host, too") {
    const Read read(Dialect::forwarded, question(kForwarded));
    CHECK(read.fault.empty());
    CHECK(read.facts.head.method == "PUT");
    CHECK(read.facts.host == "app.test");
    CHECK_FALSE(read.has("X-Forwarded-Host"));
}

TEST_CASE("original request: ingress-nginx says scheme, host and target in one URL") {
    const Read read(Dialect::ingress_nginx, asked_by_ingress("https://shop.example/cart/5?a=b"));
    CHECK(read.fault.empty());
    CHECK(read.facts.head.method == "POST");
    CHECK(read.facts.head.target == "/cart/5?a=b");
    CHECK(read.facts.head.path == "/cart/5");
    CHECK(read.facts.head.query == "?a=b");
    CHECK(read.facts.host == "shop.example");  // and not that of the question
    CHECK(read.facts.scheme == "https");
    CHECK(read.has("X-Sent-From"));
    CHECK_FALSE(read.has("X-Original-URL"));
    CHECK_FALSE(read.has("X-Original-Method"));
    struct Case {
        std::string url;
        std::string host;
        std::string target;
    };
    for (const Case& one : {Case{"http://shop.example:8080/", "shop.example:8080", "/"},
                            Case{"http://[2001:db8::1]:80/a", "[2001:db8::1]:80", "/a"},
                            Case{"http://a/?to=https://b/c", "a", "/?to=https://b/c"},
                            Case{"http://a//b/c", "a", "//b/c"},
                            Case{"http://gateway.test/a", "gateway.test", "/a"}}) {
        CAPTURE(one.url);
        const Read other(Dialect::ingress_nginx, asked_by_ingress(one.url));
        CHECK(other.fault.empty());
        CHECK(other.facts.host == one.host);
        CHECK(other.facts.head.target == one.target);
        CHECK(other.facts.scheme == "http");
    }
}

TEST_CASE(
    "original request: a URL of ingress-nginx is absolute, and only scheme, host and target") {
    // The Host of a client is in it as the client wrote it.
    for (const std::string url : {"",
                                  "/cart",
                                  "shop.example/cart",
                                  "//shop.example/cart",
                                  "ftp://a/b",
                                  "wss://a/b",
                                  "HTTP://a/b",
                                  "http:/a/b",
                                  "http:a",
                                  "https://",
                                  "http:///cart",
                                  "http://:80/",
                                  "http://user@a/b",
                                  "http://user:pass@a/b",
                                  "http://a#b/c",
                                  "http://a/b#c",
                                  "http://a?/b",
                                  "http://a",
                                  "http://a?b=/c",
                                  "http://a*",
                                  "http://a:x/b",
                                  "http://a b/c",
                                  "http://a/b c",
                                  "http://a,b/c",
                                  "http://a%2fb/c",
                                  "http://a\\b/c",
                                  "http://a/\x80",
                                  "http:// a/b"}) {
        CAPTURE(url);
        const Read read(Dialect::ingress_nginx, asked_by_ingress(url));
        CHECK(names(read.fault, "X-Original-URL"));
    }
}

TEST_CASE("original request: the URL of ingress-nginx comes once, and as it is spelled") {
    const std::string url = "http://shop.example/cart";
    const auto fault = [&](const std::string& field) {
        const Read after(Dialect::ingress_nginx, asked_by_ingress(url, field + "\r\n"));
        const Read alone(Dialect::ingress_nginx, question({"X-Original-Method: GET", field}));
        CHECK(after.fault.empty() == alone.fault.empty());
        return alone.fault;
    };
    for (const std::string other : {"X_Original_URL: http://a/b", "X-Original_Url: http://a/b",
                                    "X.Original.URL: http://a/b", "X-Original~URL: http://a/b"}) {
        CAPTURE(other);
        CHECK(names(fault(other), "X-Original-URL"));
    }
    CHECK_FALSE(
        Read(Dialect::ingress_nginx, asked_by_ingress(url, "x-original-url: " + url + "\r\n"))
            .fault.empty());
    CHECK(
        Read(Dialect::ingress_nginx, question({"x-original-METHOD: GET", "x-ORIGINAL-url: " + url}))
            .fault.empty());
    // Fields of the other dialects are the client's.
    CHECK(Read(Dialect::ingress_nginx,
               asked_by_ingress(url, "X-Original-URI: /a\r\nX-Forwarded-Host: b\r\n"))
              .fault.empty());
    CHECK(Read(Dialect::nginx,
               question({"X-Original-Method: GET", "X-Original-URI: /a", "X-Original-URL: " + url}))
              .has("X-Original-URL"));
}

TEST_CASE("original request: a refused one says which field is missing or wrong") {
    const auto fault = [](Dialect dialect, const std::vector<std::string>& fields) {
        return Read(dialect, question(fields)).fault;
    };
    const std::string url = "X-Original-URL: http://a/b";
    CHECK(names(fault(Dialect::nginx, {"X-Original-URI: /"}), "X-Original-Method"));
    CHECK(names(fault(Dialect::nginx, {"X-Original-Method: GET"}), "X-Original-URI"));
    CHECK(names(fault(Dialect::ingress_nginx, {url}), "X-Original-Method"));
    CHECK(
        names(fault(Dialect::ingress_nginx, {url, "X-Original-Method: G T"}), "X-Original-Method"));
    CHECK(names(fault(Dialect::ingress_nginx, {"X-Original-Method: GET"}), "X-Original-URL"));
    CHECK(names(
        fault(Dialect::ingress_nginx, {"X-Original-Method: GET", "X-Original-URL: http:///cart"}),
        "no host"));
    CHECK(names(fault(Dialect::forwarded, {kForwarded[1], kForwarded[2]}), "X-Forwarded-Method"));
    CHECK(names(fault(Dialect::forwarded, {kForwarded[0], kForwarded[2]}), "X-Forwarded-Uri"));
    CHECK(names(fault(Dialect::forwarded, {kForwarded[0], kForwarded[1]}), "X-Forwarded-Host"));
}

TEST_CASE("original request: a refused one is counted by what it does not state") {
    const auto part = [](Dialect dialect, const std::vector<std::string>& fields) {
        const Read read(dialect, question(fields));
        CHECK_FALSE(read.fault.empty());
        return read.part;
    };
    const std::string method = "X-Original-Method: GET";
    const std::string url = "X-Original-URL: http://a.test/";
    CHECK(part(Dialect::ingress_nginx, {url}) == OriginalPart::method);
    CHECK(part(Dialect::ingress_nginx, {method}) == OriginalPart::target);
    CHECK(part(Dialect::ingress_nginx, {method, "X-Original-URL: /cart"}) == OriginalPart::target);
    CHECK(part(Dialect::ingress_nginx, {method, "X-Original-URL: http:///"}) == OriginalPart::host);
    CHECK(part(Dialect::ingress_nginx, {method, url + std::string(64, 'a')}) ==
          OriginalPart::length);
    CHECK(part(Dialect::nginx, {method}) == OriginalPart::target);
    CHECK(part(Dialect::forwarded, {kForwarded[0], kForwarded[1]}) == OriginalPart::host);
    CHECK(Read(Dialect::envoy, question({}, "/other"), "/check").part == OriginalPart::path_prefix);
}

TEST_CASE("original request: Envoy asks with the request itself, behind its prefix") {
    const Read read(Dialect::envoy, question(kForwarded, "/check/v1?x=1"), "/check");
    CHECK(read.fault.empty());
    CHECK(read.facts.head.method == "GET");
    CHECK(read.facts.head.path == "/v1");
    CHECK(read.facts.head.query == "?x=1");
    CHECK(read.has("X-Forwarded-Uri"));  // the client's own
    CHECK_FALSE(Read(Dialect::envoy, question({}, "/other"), "/check").fault.empty());
    CHECK_FALSE(Read(Dialect::envoy, question({}, "/checked"), "/check").fault.empty());
    CHECK_FALSE(Read(Dialect::envoy, question({}, "/check"), "/check").fault.empty());
    CHECK(Read(Dialect::envoy, question({}, "/v1")).fault.empty());
}

TEST_CASE("original request: Envoy's target is an origin form, with and without a prefix") {
    const Read plain(Dialect::envoy, question({}, "/v1/a?b=/c"));
    CHECK(plain.facts.head.target == "/v1/a?b=/c");
    CHECK(plain.facts.head.path == "/v1/a");
    CHECK(plain.facts.head.query == "?b=/c");
    const Read behind(Dialect::envoy, question({}, "/check/v1?b=/c"), "/check");
    CHECK(behind.facts.head.target == "/v1?b=/c");
    // Envoy may put a prefix before the path that begins a query.
    const Read in_query(Dialect::envoy, question({}, "/check?for=/v1?x=1"), "/check?for=");
    CHECK(in_query.fault.empty());
    CHECK(in_query.facts.head.path == "/v1");
    CHECK(in_query.facts.head.query == "?x=1");
    for (const std::string prefix : {"", "/check"}) {
        CAPTURE(prefix);
        CHECK_FALSE(
            Read(Dialect::envoy, question({}, "http://a.test/check/v1"), prefix).fault.empty());
        CHECK_FALSE(Read(Dialect::envoy, question({}, "/check?/v1"), "/check").fault.empty());
        CHECK_FALSE(
            Read(Dialect::envoy, "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n", prefix).fault.empty());
    }
}

TEST_CASE("original request: a field that is missing, there twice or unreadable is refused") {
    for (std::size_t left_out = 0; left_out < kForwarded.size(); ++left_out) {
        std::vector<std::string> fields = kForwarded;
        fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(left_out));
        CAPTURE(kForwarded[left_out]);
        CHECK_FALSE(Read(Dialect::forwarded, question(fields)).fault.empty());
        fields = kForwarded;
        fields.push_back(kForwarded[left_out]);
        CHECK_FALSE(Read(Dialect::forwarded, question(fields)).fault.empty());
    }
    const auto with = [](std::size_t position, const std::string& field) {
        std::vector<std::string> fields = kForwarded;
        fields[position] = field;
        return question(fields);
    };
    for (const std::string target :
         {"", "a", "*", "http://app.test/a", "/a b", "/a\tb", "//user@x\x7f", "/\x80"}) {
        CAPTURE(target);
        CHECK_FALSE(Read(Dialect::forwarded, with(1, "X-Forwarded-Uri: " + target)).fault.empty());
    }
    for (const std::string method : {"", "G T", "GET/", "G,T"}) {
        CHECK_FALSE(
            Read(Dialect::forwarded, with(0, "X-Forwarded-Method: " + method)).fault.empty());
    }
    for (const std::string host : {"", "a b", "user@app", "app.test:x"}) {
        CHECK_FALSE(Read(Dialect::forwarded, with(2, "X-Forwarded-Host: " + host)).fault.empty());
    }
}

TEST_CASE("original request: the gateway's own Host is a host, and no Host is none") {
    const Read same(Dialect::forwarded,
                    question({kForwarded[0], kForwarded[1], "X-Forwarded-Host: gateway.test"}));
    CHECK(same.fault.empty());
    CHECK(same.facts.host == "gateway.test");
    // HTTP/1.0 may leave out Host.
    Read read(Dialect::forwarded, question(kForwarded));
    config::Listen listen;
    listen.dialect = Dialect::forwarded;
    const config::RequestBounds bounds;
    for (const std::string field : {"", "X-Forwarded-Host:\r\n"}) {
        read.bytes =
            "GET / HTTP/1.0\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n" + field + "\r\n";
        REQUIRE(http::parse_request_head(read.bytes, {8'192, 100, 8'192}, read.facts.head) ==
                http::HeadFault::none);
        read.facts.host = {};
        CHECK_FALSE(read_original(listen, bounds, read.facts).empty());
    }
}

TEST_CASE("original request: another spelling of a field is refused, alone or beside the field") {
    const auto refuses = [](std::vector<std::string> fields) {
        return !Read(Dialect::forwarded, question(fields)).fault.empty();
    };
    for (const std::string other : {"X_Forwarded_Method: PUT", "x-forwarded_uri: /v1",
                                    "X.Forwarded-Host: app.test", "X-Forwarded~Uri: /v1"}) {
        CAPTURE(other);
        std::vector<std::string> fields = kForwarded;
        fields.push_back(other);
        CHECK(refuses(fields));
        fields = kForwarded;
        fields.insert(fields.begin(), other);
        CHECK(refuses(fields));
    }
    CHECK(refuses({"X_Forwarded-Method: PUT", kForwarded[1], kForwarded[2]}));
    // In another case it is the same field, and a name of the same length is another one.
    CHECK_FALSE(refuses({"x-forwarded-METHOD: PUT", kForwarded[1], kForwarded[2],
                         "X-Forwarded-For: 192.0.2.1", "X-Original-Method: GET"}));
}

TEST_CASE("original request: a field that Connection names does not count as the gateway's") {
    const auto refuses = [](Dialect dialect, const std::string& target) {
        Read read(dialect, question({"X-Original-Method: GET", target}));
        REQUIRE(read.fault.empty());
        config::Listen listen;
        listen.dialect = dialect;
        REQUIRE(http::parse_request_head(read.bytes, {8'192, 100, 8'192}, read.facts.head) ==
                http::HeadFault::none);
        read.facts.head.fields.back().id = http::FieldName::named_by_connection;
        const config::RequestBounds bounds;
        return !read_original(listen, bounds, read.facts).empty();
    };
    CHECK(refuses(Dialect::nginx, "X-Original-URI: /a"));
    CHECK(refuses(Dialect::ingress_nginx, "X-Original-URL: http://a/b"));
}

TEST_CASE("original request: the fields of the client stay, in their order") {
    const Read read(Dialect::forwarded,
                    question({"X-A: 1", kForwarded[0], "X-B: 2", kForwarded[1], kForwarded[2],
                              "X-A: 3", "X-Original-URI: /mine"}));
    REQUIRE(read.fault.empty());
    std::string values;
    for (const http::Field& field : read.facts.head.fields) {
        values.append(field.value).append(" ");
    }
    CHECK(values == "gateway.test 1 2 3 /mine ");
}

TEST_CASE("original request: the longest target is the proxy's") {
    const std::string longest = "/" + std::string(63, 'a');
    const auto asked = [](const std::string& target) {
        return question({"X-Original-Method: GET", "X-Original-URI: " + target});
    };
    CHECK(Read(Dialect::nginx, asked(longest)).fault.empty());
    CHECK_FALSE(Read(Dialect::nginx, asked(longest + "a")).fault.empty());
    const std::string origin = "https://shop.example";
    CHECK(Read(Dialect::ingress_nginx, asked_by_ingress(origin + longest)).fault.empty());
    CHECK_FALSE(
        Read(Dialect::ingress_nginx, asked_by_ingress(origin + longest + "a")).fault.empty());
}

}  // namespace tidegate::faces::original_request_test

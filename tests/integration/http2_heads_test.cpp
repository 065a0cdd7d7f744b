// Which requests HTTP/2 does not take: those that reset their stream, and those that get an answer
// which says why. Both are logged, and neither ends the connection.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/http2_world.hpp"

namespace tidegate::test::http2_heads_test {

namespace {

struct Case {
    std::string name;
    FieldList fields;
};

FieldList with(const std::string& name, const std::string& value) {
    return h2_request("GET", "/", {{name, value}});
}

FieldList without(const std::string& name) {
    FieldList fields;
    for (const auto& field : h2_request()) {
        if (field.first != name) fields.push_back(field);
    }
    return fields;
}

FieldList replaced(const std::string& name, const std::string& value) {
    FieldList fields = h2_request();
    for (auto& field : fields) {
        if (field.first == name) field.second = value;
    }
    return fields;
}

FieldList twice(const std::string& name) {
    FieldList fields;
    for (const auto& field : h2_request()) {
        fields.push_back(field);
        if (field.first == name) fields.push_back(field);
    }
    return fields;
}

FieldList first(const std::string& name, const std::string& value) {
    FieldList fields = h2_request();
    fields.insert(fields.begin(), {name, value});
    return fields;
}

std::vector<Case> malformed_heads() {
    const std::string nul(1, '\0');
    FieldList late = without(":path");
    late.insert(late.end(), {{"a", "b"}, {":path", "/"}});
    std::vector<Case> cases{
        {"an unknown pseudo-field", first(":unknown", "1")},
        {"a pseudo-field of answers", first(":status", "200")},
        {"a pseudo-field that is late", late},
        {"no :method", without(":method")},
        {"no :scheme", without(":scheme")},
        {"no :path", without(":path")},
        {"an empty :path", replaced(":path", "")},
        {"a name with upper case", with("X-Upper", "1")},
        {"a name with a space", with("x y", "1")},
        {"a name with a colon", with("x:y", "1")},
        {"a name with a control character", with("x\x01y", "1")},
        {"an empty name", with("", "1")},
        {"te: gzip", with("te", "gzip")},
        {"te: trailers, gzip", with("te", "trailers, gzip")},
        {"CR in a value", with("x-line", "a\rb")},
        {"LF in a value", with("x-line", "a\nb")},
        {"NUL in a value", with("x-line", "a" + nul + "b")},
        {"LF in :path", replaced(":path", "/a\nb")},
        {"LF in :authority", replaced(":authority", "a\r\nHost: b")},
        {"a length and no body", with("content-length", "5")},
    };
    for (const char* const name : {":method", ":scheme", ":path", ":authority"}) {
        cases.push_back({std::string("twice ") + name, twice(name)});
    }
    for (const char* const name :
         {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
        cases.push_back({name, with(name, "close")});
    }
    return cases;
}

void check_line(const nlohmann::json& line, int status) {
    CHECK(line.at("status") == status);
    CHECK(line.at("outcome") == "rejected");
    CHECK(line.at("protocol") == "HTTP/2");
}

}  // namespace

TEST_CASE("http2 heads: a malformed request by RFC 9113 resets its stream, and is logged as 400") {
    const Upstream upstream(ok());
    Http2Proxy proxy(unlimited({upstream.url()}));
    const std::vector<Case> cases = malformed_heads();
    H2Wire wire(proxy.port());
    std::uint32_t stream = 1;
    for (const Case& one : cases) {
        CAPTURE(one.name);
        wire.send(h2_headers(stream, one.fields));
        CHECK(wire.await(NGHTTP2_RST_STREAM, stream).error() == NGHTTP2_PROTOCOL_ERROR);
        stream += 2;
    }
    // The connection goes on.
    CHECK(wire.ask(stream).status() == 200);
    CHECK(upstream.requests() == 1);
    const auto lines = proxy.tidegate().access_log(cases.size() + 1);
    CHECK(lines.size() == cases.size() + 1);
    for (std::size_t i = 0; i < cases.size() && i < lines.size(); ++i) {
        CAPTURE(cases[i].name);
        check_line(lines[i], 400);
    }
    CHECK_SOON(proxy.tidegate().metric_sum("tidegate_request_faults_total", "client: bad") ==
               static_cast<double>(cases.size()));
}

TEST_CASE(
    "http2 heads: a body other than announced, and trailers that are none, reset the stream") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (!conversation.send(ok())) return;
        }
    });
    Http2Proxy proxy(unlimited({upstream.url()}));
    const FieldList five = h2_request("POST", "/", {{"content-length", "5"}});
    const auto headers = [](std::uint32_t id, const FieldList& fields) {
        return h2_headers(id, fields, false);
    };
    const std::vector<std::function<std::string(std::uint32_t)>> cases{
        [&](std::uint32_t id) { return headers(id, five) + h2_data(id, "1234", true); },
        [&](std::uint32_t id) { return headers(id, five) + h2_data(id, "123456", true); },
        [&](std::uint32_t id) {
            return headers(id, five) + h2_data(id, "123") + h2_data(id, "456") +
                   h2_data(id, "", true);
        },
        [&](std::uint32_t id) {
            return headers(id, five) + h2_data(id, "1234") + h2_headers(id, {{"a", "b"}});
        },
        [&](std::uint32_t id) {
            return headers(id, h2_request("POST")) + h2_headers(id, {{":path", "/"}});
        },
        [&](std::uint32_t id) {
            return headers(id, h2_request("POST")) + h2_headers(id, {{"X-Upper", "1"}});
        },
        [&](std::uint32_t id) {
            return headers(id, h2_request("POST")) + h2_headers(id, {{"connection", "close"}});
        },
        [&](std::uint32_t id) {
            return headers(id, h2_request("POST")) + h2_headers(id, {{"a", "b"}}, false);
        },
    };
    H2Wire wire(proxy.port());
    std::uint32_t stream = 1;
    for (const auto& one : cases) {
        CAPTURE(stream);
        wire.send(one(stream));
        CHECK(wire.await(NGHTTP2_RST_STREAM, stream).error() == NGHTTP2_PROTOCOL_ERROR);
        stream += 2;
    }
    CHECK(wire.ask(stream).status() == 200);
    for (const Message& request : upstream.seen()) {
        if (request.method() == "POST") CHECK(request.broken);
    }
    const auto lines = proxy.tidegate().access_log(cases.size() + 1);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        check_line(lines.at(i), 400);
    }
}

TEST_CASE("http2 heads: a request that the proxy does not serve gets an answer with the reason") {
    const Upstream upstream(ok());
    Http2Proxy proxy("limits_on_requests: {uri_bytes: 1KiB, header_bytes: 8KiB, headers: 20}\n" +
                     unlimited({upstream.url()}));
    struct Refused {
        std::string name;
        FieldList fields;
        int status;
    };
    std::vector<Refused> cases{
        {"host and :authority differ", with("host", "other.test"), 400},
        {"a user in :authority", replaced(":authority", "user@example.test"), 400},
        {"a scheme that is not the transport's", replaced(":scheme", "https"), 400},
        {"an unknown scheme", replaced(":scheme", "ftp"), 400},
        {":path without a slash", replaced(":path", "a"), 400},
        {":path in absolute form", replaced(":path", "http://example.test/"), 400},
        {":path with a space", replaced(":path", "/a b"), 400},
        {":path with a control character", replaced(":path", "/a\x01"), 400},
        {":path * of another method than OPTIONS", replaced(":path", "*"), 400},
        {"a method that is no token", replaced(":method", "G T"), 400},
        {"a control character in a value", with("a", "b\x01"), 400},
        {"space before a value", with("a", " b"), 400},
        {"space behind a value", with("a", "b "), 400},
        {"a long target", replaced(":path", "/" + std::string(1'100, 'x')), 414},
        {"a large head", with("a", std::string(9'000, 'x')), 431},
        {"too many fields", h2_request("GET", "/", FieldList(21, {"a", "b"})), 431},
        {"TRACE", replaced(":method", "TRACE"), 501},
        {"CONNECT", {{":method", "CONNECT"}, {":authority", "example.test:443"}}, 501},
    };
    // Hosts that no two servers may read differently.
    for (const char* const host : {"a b", "a/b", "a?b", "a#b", "a,b", "[::1", "a:b:c"}) {
        cases.push_back({std::string("a host ") + host, replaced(":authority", host), 400});
    }
    H2Wire wire(proxy.port());
    std::uint32_t stream = 1;
    for (const Refused& one : cases) {
        CAPTURE(one.name);
        wire.send(h2_long_headers(stream, h2_block(one.fields)));
        const H2Frame head = wire.await(NGHTTP2_HEADERS, stream);
        CHECK(head.status() == one.status);
        stream += 2;
    }
    CHECK(wire.ask(stream).status() == 200);
    CHECK(upstream.requests() == 1);
    const auto lines = proxy.tidegate().access_log(cases.size() + 1);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(cases[i].name);
        check_line(lines.at(i), cases[i].status);
    }
}

TEST_CASE(
    "http2 heads: a refused head is answered as over HTTP/1, and its body is not waited for") {
    const Upstream upstream(ok());
    Http2Proxy proxy("limits_on_requests: {body_bytes: 1KiB}\n" + simple(upstream.url(), "3/h"));
    H2Client client(proxy.port());
    const H2Answer head = client.get("/", {{"host", "other.test"}});
    CHECK(head.status() == 400);
    CHECK(head.is_whole);
    CHECK(head.field("content-type") == "application/problem+json");
    CHECK(head.field("x-request-id").size() == 32);
    CHECK_FALSE(head.has("connection"));
    // RFC 9113 section 8.1: the answer, and a reset without fault for the rest of the request.
    const int large = client.begin({.method = "POST", .body = std::string(100'000, 'x')});
    CHECK(client.answer(large).status() == 413);
    CHECK(client.run_until([&] { return client.progress(large).is_closed; }));
    CHECK(client.so_far(large).reset.value_or(NGHTTP2_NO_ERROR) == NGHTTP2_NO_ERROR);
    for (int i = 0; i < 2; ++i) CHECK(client.get().status() == 200);
    const H2Answer limited = client.get();
    CHECK(limited.status() == 429);
    CHECK(limited.has("retry-after"));
    CHECK(limited.has("ratelimit"));
    CHECK_FALSE(client.goaway());
    CHECK(client.fault() == "");
}

TEST_CASE("http2 heads: crumbs of a cookie become one field, and too many of them are 431") {
    const Upstream upstream(ok());
    Http2Proxy proxy("limits_on_requests: {headers: 10}\n" + unlimited({upstream.url()}));
    H2Client client(proxy.port());
    FieldList crumbs{{"cookie", "a=1"}, {"x-between", "1"}, {"cookie", "b=2"}, {"cookie", "c=3"}};
    CHECK(client.get("/", crumbs).status() == 200);
    CHECK(upstream.last().count("Cookie") == 1);
    CHECK(upstream.last().field("Cookie") == "a=1; b=2; c=3");
    // As one field, and up to 256.
    CHECK(client.get("/", FieldList(256, {"cookie", "a=1"})).status() == 200);
    CHECK(client.get("/", FieldList(257, {"cookie", "a=1"})).status() == 431);
}

TEST_CASE("http2 heads: the upstream gets an HTTP/1.1 request of the same meaning") {
    const Upstream upstream(ok());
    Http2Proxy proxy(unlimited({upstream.url()}));
    H2Client client(proxy.port());
    CHECK(client.get("/a?b=c", {{"te", "trailers"}, {"x-a", "1"}, {"x-a", "2"}}).status() == 200);
    const Message request = upstream.last();
    CHECK(request.start_line == "GET /a?b=c HTTP/1.1");
    CHECK(request.field("Host") == "example.test");
    CHECK(request.field("X-A") == "1, 2");
    CHECK(request.field("Via").substr(0, 4) == "2.0 ");
    CHECK(request.field("X-Forwarded-Proto") == "http");
    CHECK_FALSE(request.has("Content-Length"));
    CHECK_FALSE(request.has("Transfer-Encoding"));
    // `host` in the place of :authority; and both, if they say the same.
    CHECK(client.ask({.authority = "", .fields = {{"host", "own.test"}}}).status() == 200);
    CHECK(upstream.last().field("Host") == "own.test");
    CHECK(client.get("/", {{"host", "example.test"}}).status() == 200);
    CHECK(upstream.last().count("Host") == 1);
    CHECK(client.ask({.method = "OPTIONS", .path = "*"}).status() == 200);
    CHECK(upstream.last().start_line == "OPTIONS * HTTP/1.1");
    // A length that is known stays, else the body is chunked.
    CHECK(client.ask({.method = "POST", .fields = {{"content-length", "4"}}, .body = "body"})
              .status() == 200);
    CHECK(upstream.last().field("Content-Length") == "4");
    CHECK(client.ask({.method = "POST", .body = "body", .trailers = {{"x-sum", "1"}}}).status() ==
          200);
    CHECK(upstream.last().body == "body");
    CHECK_FALSE(upstream.last().has("Content-Length"));
}

}  // namespace tidegate::test::http2_heads_test

#include <string>
#include <string_view>
#include <tuple>

#include <doctest/doctest.h>

#include "http/framing.hpp"

namespace tidegate::http::framing_test {

namespace {

struct Framed {
    FramingFault fault = FramingFault::none;
    Framing framing;
    std::string passed;  // names of the fields that belong to no hop
};

std::string passed(const Fields& fields) {
    std::string names;
    for (const Field& field : fields) {
        if (!is_hop_by_hop(field)) names += std::string(field.name) + " ";
    }
    return names;
}

// `fields` are whole lines.
Framed of_request(const std::string& fields, const std::string& version = "1.1") {
    const std::string bytes = "POST / HTTP/" + version + "\r\n" + fields + "\r\n";
    RequestHead head;
    REQUIRE(parse_request_head(bytes, {}, head) == HeadFault::none);
    Framed result;
    result.fault = request_framing(head, result.framing);
    result.passed = passed(head.fields);
    return result;
}

Framed of_response(int status, const std::string& fields, bool to_head = false,
                   const std::string& version = "1.1") {
    const std::string bytes =
        "HTTP/" + version + " " + std::to_string(status) + " X\r\n" + fields + "\r\n";
    ResponseHead head;
    REQUIRE(parse_response_head(bytes, {}, head) == HeadFault::none);
    Framed result;
    result.fault = response_framing(head, to_head, result.framing);
    result.passed = passed(head.fields);
    return result;
}

const std::string kHost = "Host: a\r\n";

}  // namespace

TEST_CASE("framing: a request without a length has no body") {
    const auto result = of_request(kHost);
    CHECK(result.fault == FramingFault::none);
    CHECK(result.framing.body == BodyKind::none);
    CHECK(of_request(kHost + "Content-Length: 0\r\n").framing.body == BodyKind::none);
}

TEST_CASE("framing: a request's length is digits only, once, and bounded") {
    const auto good = of_request(kHost + "Content-Length: 0012\r\n");
    CHECK(good.fault == FramingFault::none);
    CHECK(good.framing.body == BodyKind::length);
    CHECK(good.framing.length == 12);
    CHECK(of_request(kHost + "Content-Length: 1000000000000000000\r\n").framing.length ==
          kLengthMax);
    for (const std::string value : {"", "-1", "+1", "1 2", "1,1", "0x10", "1.0", "1e3", "one",
                                    "1000000000000000001", "18446744073709551617"}) {
        CAPTURE(value);
        CHECK(of_request(kHost + "Content-Length: " + value + "\r\n").fault ==
              FramingFault::bad_content_length);
    }
    CHECK(of_request(kHost + "Content-Length: 1\r\ncontent-length: 1\r\n").fault ==
          FramingFault::bad_content_length);
}

TEST_CASE("framing: Transfer-Encoding is exactly chunked, once, and not in HTTP/1.0") {
    CHECK(of_request(kHost + "Transfer-Encoding: chunked\r\n").framing.body == BodyKind::chunked);
    CHECK(of_request(kHost + "transfer-encoding: Chunked\r\n").framing.body == BodyKind::chunked);
    for (const std::string value :
         {"", "gzip", "gzip, chunked", "chunked, chunked", "identity", "chunked;q=1", "xchunked"}) {
        CAPTURE(value);
        CHECK(of_request(kHost + "Transfer-Encoding: " + value + "\r\n").fault ==
              FramingFault::bad_transfer_encoding);
    }
    CHECK(
        of_request(kHost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n").fault ==
        FramingFault::bad_transfer_encoding);
    CHECK(of_request(kHost + "Transfer-Encoding: chunked\r\n", "1.0").fault ==
          FramingFault::bad_transfer_encoding);
}

TEST_CASE("framing: both lengths at once are refused, in either order and direction") {
    const std::string both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n";
    const std::string turned = "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n";
    for (const std::string& fields : {both, turned}) {
        CHECK(of_request(kHost + fields).fault == FramingFault::length_and_encoding);
        CHECK(of_response(200, fields).fault == FramingFault::length_and_encoding);
    }
}

TEST_CASE("framing: HTTP/1.1 needs exactly one valid Host, HTTP/1.0 at most one") {
    CHECK(of_request("").fault == FramingFault::bad_host);
    CHECK(of_request("", "1.0").fault == FramingFault::none);
    for (const std::string version : {"1.0", "1.1"}) {
        CHECK(of_request(kHost + kHost, version).fault == FramingFault::bad_host);
        CHECK(of_request("Host: a/b\r\n", version).fault == FramingFault::bad_host);
        CHECK(of_request("Host: u@a\r\n", version).fault == FramingFault::bad_host);
    }
    CHECK(of_response(200, "Host: a/b\r\nContent-Length: 0\r\n").fault == FramingFault::none);
}

TEST_CASE("framing: 100-continue is expected only in HTTP/1.1 and only with a body") {
    const std::string expects = kHost + "Expect: 100-Continue\r\n";
    CHECK(of_request(expects + "Content-Length: 1\r\n").framing.expects_continue);
    CHECK(of_request(expects + "Transfer-Encoding: chunked\r\n").framing.expects_continue);
    CHECK_FALSE(of_request(expects).framing.expects_continue);
    CHECK_FALSE(of_request(expects + "Content-Length: 1\r\n", "1.0").framing.expects_continue);
    CHECK(of_request(kHost + "Expect: 200-ok\r\n").fault == FramingFault::bad_expectation);
    CHECK(of_request(expects + "Expect: more\r\n").fault == FramingFault::bad_expectation);
}

TEST_CASE("framing: a connection goes on unless its version or its fields say otherwise") {
    CHECK(of_request(kHost).framing.keep_alive);
    CHECK_FALSE(of_request(kHost, "1.0").framing.keep_alive);
    CHECK(of_request(kHost + "Connection: Keep-Alive\r\n", "1.0").framing.keep_alive);
    for (const std::string list : {"close", "x, CLOSE", "keep-alive, close", ",close,"}) {
        CAPTURE(list);
        CHECK_FALSE(of_request(kHost + "Connection: " + list + "\r\n").framing.keep_alive);
        CHECK_FALSE(of_response(204, "Connection: " + list + "\r\n").framing.keep_alive);
    }
    CHECK_FALSE(of_request(kHost + "Connection: x\r\nConnection: close\r\n").framing.keep_alive);
}

TEST_CASE("framing: an answer's body is delimited by its status, its fields, or the end") {
    CHECK(of_response(200, "Content-Length: 3\r\n").framing.body == BodyKind::length);
    CHECK(of_response(200, "Content-Length: 0\r\n").framing.body == BodyKind::none);
    CHECK(of_response(200, "Transfer-Encoding: chunked\r\n").framing.body == BodyKind::chunked);
    const auto open = of_response(200, "");
    CHECK(open.framing.body == BodyKind::until_close);
    CHECK_FALSE(open.framing.keep_alive);
    for (const int status : {100, 103, 204, 304}) {
        CHECK(of_response(status, "").framing.body == BodyKind::none);
    }
    const auto to_head = of_response(200, "Content-Length: 3\r\n", true);
    CHECK(to_head.framing.body == BodyKind::none);
    CHECK(to_head.framing.length == 3);
    CHECK(to_head.framing.keep_alive);
}

TEST_CASE("framing: an answer with a length that is none is refused, even where none counts") {
    for (const bool to_head : {false, true}) {
        for (const int status : {200, 204, 304}) {
            CHECK(of_response(status, "Content-Length: -1\r\n", to_head).fault ==
                  FramingFault::bad_content_length);
            CHECK(of_response(status, "Transfer-Encoding: gzip\r\n", to_head).fault ==
                  FramingFault::bad_transfer_encoding);
        }
    }
    CHECK(of_response(200, "Transfer-Encoding: chunked\r\n", false, "1.0").fault ==
          FramingFault::bad_transfer_encoding);
}

TEST_CASE("framing: after a 204 that announces a body the connection is not used again") {
    CHECK(of_response(204, "Content-Length: 0\r\n").framing.keep_alive);
    CHECK_FALSE(of_response(204, "Content-Length: 3\r\n").framing.keep_alive);
    CHECK_FALSE(of_response(204, "Transfer-Encoding: chunked\r\n").framing.keep_alive);
    CHECK(of_response(304, "Content-Length: 3\r\n").framing.keep_alive);
}

TEST_CASE("framing: a list is read item by item, empty ones passed over") {
    std::string_view list = " ,a,, b\t,c d , ";
    std::string_view item;
    std::string seen;
    while (next_list_item(list, item)) seen += "[" + std::string(item) + "]";
    CHECK(seen == "[a][b][c d]");
}

TEST_CASE("framing: fields that Connection names go no further, in any case of their letters") {
    const auto result = of_request(
        kHost +
        "X-One: 1\r\nConnection: keep-alive, X-One\r\nX-Three: 1\r\nX-On: 1\r\n"
        "connection: x-two, content-type,expect\r\nX-TWO: 1\r\nContent-Type: t\r\nx-one: 2\r\n");
    REQUIRE(result.fault == FramingFault::none);
    CHECK(result.passed == "Host X-Three X-On ");
    CHECK(of_response(200, "Server: s\r\nConnection: server, x-a\r\nX-B: 1\r\nX-A: 1\r\n").passed ==
          "X-B ");
}

TEST_CASE("framing: Connection takes away nothing that is written anew") {
    const std::string fields =
        "X-Forwarded-For: 1.1.1.1\r\nX-Request-Id: r\r\n"
        "Connection: Host, X-Forwarded-For, X-Request-Id\r\n";
    CHECK(of_request(kHost + fields).passed == "Host X-Forwarded-For X-Request-Id ");
}

TEST_CASE("framing: Connection may name a hundred fields in all, and no more") {
    const auto names = [](int count) {
        std::string list;
        for (int i = 0; i < count; ++i) list += ", n" + std::to_string(i);
        return list;
    };
    for (const auto& [first, second, fault] : {std::tuple{60, 39, FramingFault::none},
                                               {60, 40, FramingFault::too_many_options},
                                               {14'400, 0, FramingFault::too_many_options}}) {
        CAPTURE(first);
        CAPTURE(second);
        const std::string fields = "Connection: close" + names(first) +
                                   "\r\nConnection: " + names(second) + "\r\nN59: 1\r\n";
        CHECK(of_request(kHost + fields).fault == fault);
        CHECK(of_response(200, fields).fault == fault);
    }
    CHECK_FALSE(describe(FramingFault::too_many_options).empty());
}

TEST_CASE("framing: names in lists are found in any case, however many there are") {
    ListedNames names;
    std::string list;
    for (int i = 0; i < 1'000; ++i) list += "Name-" + std::to_string(i) + " ,,";
    names.add(list);
    names.add("x");
    names.sort();
    CHECK(names.include("nAME-0"));
    CHECK(names.include("name-999"));
    CHECK(names.include("X"));
    CHECK_FALSE(names.include("name-1000"));
    CHECK_FALSE(names.include(""));
}

TEST_CASE("framing: hop-by-hop fields go no further, named or not") {
    for (const std::string_view name :
         {"Connection", "Keep-Alive", "Proxy-Connection", "TE", "Upgrade", "Transfer-Encoding",
          "Content-Length", "Proxy-Authorization", "Proxy-Authenticate"}) {
        CAPTURE(name);
        CHECK(is_hop_by_hop({field_name(name), name, "v"}));
    }
    CHECK_FALSE(is_hop_by_hop({field_name("Trailer"), "Trailer", "v"}));
}

TEST_CASE("framing: look-alikes of framing fields are recognised with any mixture of marks") {
    for (const std::string_view name :
         {"Content_Length", "content_length", "Content.Length", "content~LENGTH",
          "Transfer_Encoding", "Transfer.Encoding", "TRANSFER!ENCODING", "Proxy_Connection",
          "Keep.Alive", "Proxy'Authorization", "Proxy^Authenticate"}) {
        CAPTURE(name);
        CHECK(looks_like_framing(name));
    }
    for (const std::string_view name :
         {"Content_Type", "Content_Lengths", "X_Content_Length", "ContentLength", "User-Agent",
          "Content-Longth", "If-None-Match"}) {
        CAPTURE(name);
        CHECK_FALSE(looks_like_framing(name));
    }
}

TEST_CASE("framing: of a request that goes no further only the length and the connection count") {
    const auto of_local = [](const std::string& fields, Framing& framing) {
        const std::string bytes = "POST / HTTP/1.1\r\n" + fields + "\r\n";
        RequestHead head;
        REQUIRE(parse_request_head(bytes, {}, head) == HeadFault::none);
        return local_request_framing(head, framing);
    };
    Framing framing;
    CHECK(of_local("Host: a b\r\nHost: c\r\nExpect: all\r\n", framing) == FramingFault::none);
    CHECK(framing.body == BodyKind::none);
    CHECK(framing.keep_alive);
    CHECK(of_local("Connection: close\r\nContent-Length: 7\r\n", framing) == FramingFault::none);
    CHECK(framing.length == 7);
    CHECK_FALSE(framing.keep_alive);
    CHECK(of_local("Transfer-Encoding: chunked\r\n", framing) == FramingFault::none);
    CHECK(framing.body == BodyKind::chunked);
    CHECK(of_local("Transfer-Encoding: gzip\r\n", framing) == FramingFault::bad_transfer_encoding);
    CHECK(of_local("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", framing) ==
          FramingFault::length_and_encoding);
}

}  // namespace tidegate::http::framing_test

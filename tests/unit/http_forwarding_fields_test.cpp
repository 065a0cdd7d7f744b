#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "http/forwarding_fields.hpp"

namespace tidegate::http::forwarding_fields_test {

namespace {

Fields fields_of(const std::vector<std::pair<std::string_view, std::string_view>>& pairs) {
    Fields fields;
    for (const auto& [name, value] : pairs) fields.push_back({field_name(name), name, value});
    return fields;
}

// As if sent to port 8080 by a peer at 10.0.0.7 for a client at 203.0.113.9.
ForwardingInput input_of(const Fields& fields, bool trusted) {
    ForwardingInput input{.fields = fields};
    input.peer_trusted = trusted;
    input.peer = parse_ip("10.0.0.7");
    input.client = parse_ip(trusted ? "203.0.113.9" : "10.0.0.7");
    input.local_port = 8080;
    input.host = "api.example.com:8080";
    return input;
}

std::string lines(const ForwardingInput& input) {
    std::string out;
    append_forwarding_fields(input, out);
    return out;
}

const std::vector<std::pair<std::string_view, std::string_view>> kSent = {
    {"X-Forwarded-For", "192.0.2.1"},
    {"Host", "api.example.com:8080"},
    {"x-forwarded-for", "203.0.113.9"},
    {"X-Forwarded-Proto", "https"},
    {"X-Forwarded-Host", "www.example.com"},
    {"X-Forwarded-Port", "443"},
    {"X-Forwarded-Prefix", "/api"},
    {"X_Forwarded_Prefix", "/evil"},
    {"Forwarded", "for=192.0.2.1"},
    {"Forwarded", "for=203.0.113.9;proto=https"},
    {"X-Real-IP", "192.0.2.1"},
    {"Via", "1.0 fred"},
    {"Via", "1.1 p.example.net"},
};

TEST_CASE("forwarding_fields: fields of an untrusted peer are set anew") {
    const Fields fields = fields_of(kSent);
    ForwardingInput input = input_of(fields, false);
    input.settings.forwarded = true;
    CHECK(lines(input) ==
          "X-Forwarded-For: 10.0.0.7\r\n"
          "X-Forwarded-Proto: http\r\n"
          "X-Forwarded-Host: api.example.com:8080\r\n"
          "X-Forwarded-Port: 8080\r\n"
          "X-Real-IP: 10.0.0.7\r\n"
          "Forwarded: for=10.0.0.7;proto=http;host=\"api.example.com:8080\"\r\n"
          "Via: 1.0 fred, 1.1 p.example.net, 1.1 tidegate\r\n");
}

TEST_CASE("forwarding_fields: fields of a trusted peer are continued") {
    const Fields fields = fields_of(kSent);
    ForwardingInput input = input_of(fields, true);
    input.settings.forwarded = true;
    CHECK(lines(input) ==
          "X-Forwarded-For: 192.0.2.1, 203.0.113.9, 10.0.0.7\r\n"
          "X-Forwarded-Proto: https\r\n"
          "X-Forwarded-Host: www.example.com\r\n"
          "X-Forwarded-Port: 443\r\n"
          "X-Real-IP: 203.0.113.9\r\n"
          "Forwarded: for=192.0.2.1, for=203.0.113.9;proto=https, "
          "for=10.0.0.7;proto=http;host=\"api.example.com:8080\"\r\n"
          "Via: 1.0 fred, 1.1 p.example.net, 1.1 tidegate\r\n"
          "X-Forwarded-Prefix: /api\r\n");
}

TEST_CASE("forwarding_fields: with all switched off, only trusted peers are passed on") {
    const Fields fields = fields_of(kSent);
    ForwardingInput input = input_of(fields, false);
    input.settings = {false, false, false};
    CHECK(lines(input) == "Via: 1.0 fred, 1.1 p.example.net\r\n");
    input.peer_trusted = true;
    CHECK(lines(input) ==
          "X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n"
          "X-Forwarded-Proto: https\r\n"
          "X-Forwarded-Host: www.example.com\r\n"
          "X-Forwarded-Port: 443\r\n"
          "X-Real-IP: 192.0.2.1\r\n"
          "Forwarded: for=192.0.2.1, for=203.0.113.9;proto=https\r\n"
          "Via: 1.0 fred, 1.1 p.example.net\r\n"
          "X-Forwarded-Prefix: /api\r\n");
}

TEST_CASE(
    "forwarding_fields: what a peer writes about a client's certificate is passed on from none") {
    const Fields fields = fields_of({{"X-Forwarded-Client-Cert", "Hash=1"},
                                     {"x-forwarded-client-cert", "Hash=2"},
                                     {"X_Forwarded_Client_Cert", "Hash=3"},
                                     {"X-Forwarded.Client-Cert", "Hash=4"}});
    for (const Field& field : fields) CHECK(is_forwarding_field(field));
    for (const bool trusted : {false, true}) {
        for (const bool is_on : {false, true}) {
            ForwardingInput input = input_of(fields, trusted);
            input.settings = {is_on, is_on, is_on};
            CHECK(lines(input).find("Hash") == std::string::npos);
        }
    }
}

TEST_CASE("forwarding_fields: a request with nothing of its own") {
    const Fields fields;
    ForwardingInput input = input_of(fields, true);
    input.client = parse_ip("10.0.0.7");
    input.host = "";
    input.version = HttpVersion::http_1_0;
    input.scheme = "https";
    CHECK(lines(input) ==
          "X-Forwarded-For: 10.0.0.7\r\n"
          "X-Forwarded-Proto: https\r\n"
          "X-Forwarded-Port: 8080\r\n"
          "X-Real-IP: 10.0.0.7\r\n"
          "Via: 1.0 tidegate\r\n");
}

TEST_CASE("forwarding_fields: Via goes on with the version in which the request came") {
    const Fields fields = fields_of({{"via", "1.1 p.example.net"}});
    ForwardingInput input = input_of(fields, false);
    input.settings = {false, false, true};
    input.version = HttpVersion::http_2;
    CHECK(lines(input) == "Via: 1.1 p.example.net, 2.0 tidegate\r\n");
    input.version = HttpVersion::http_1_1;
    CHECK(lines(input) == "Via: 1.1 p.example.net, 1.1 tidegate\r\n");
    // Via states how the request came, not what carried it.
    input.settings = {true, false, false};
    input.version = HttpVersion::http_2;
    CHECK(lines(input).find("X-Forwarded-Proto: http\r\n") != std::string::npos);
}

TEST_CASE("forwarding_fields: a Unix socket has neither address nor port of its own") {
    const Fields fields = fields_of(kSent);
    ForwardingInput input = input_of(fields, false);
    input.peer.reset();
    input.client.reset();
    input.local_port = 0;
    input.host = "a";
    input.settings.forwarded = true;
    input.settings.via = false;
    CHECK(lines(input) ==
          "X-Forwarded-Proto: http\r\n"
          "X-Forwarded-Host: a\r\n"
          "X-Forwarded-Port: 80\r\n"
          "Forwarded: for=unknown;proto=http;host=\"a\"\r\n"
          "Via: 1.0 fred, 1.1 p.example.net\r\n");
    // The peer is trusted: the last address that it named stays last.
    input.peer_trusted = true;
    input.client = parse_ip("203.0.113.9");
    const std::string text = lines(input);
    CHECK(text.find("X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n") != text.npos);
    CHECK(text.find("Forwarded: for=192.0.2.1, for=203.0.113.9;proto=https\r\n") != text.npos);
}

// Proto, host and port that the upstream is told, and the host and proto of Forwarded.
struct Told {
    std::string x_forwarded;
    std::string forwarded;
};

Told told(const std::vector<std::pair<std::string_view, std::string_view>>& sent, bool trusted,
          std::string_view host, std::string_view scheme = "http", std::uint16_t published = 0) {
    const Fields fields = fields_of(sent);
    ForwardingInput input = input_of(fields, trusted);
    input.host = host;
    input.scheme = scheme;
    input.settings = {true, true, false};
    input.port_is_published = published != 0;
    if (published != 0) input.local_port = published;
    const std::string text = lines(input);
    const auto value = [&](const std::string& name) {
        const std::size_t at = text.find(name + ": ");
        if (at == text.npos) return std::string("-");
        const std::size_t begin = at + name.size() + 2;
        return text.substr(begin, text.find('\r', begin) - begin);
    };
    const std::string forwarded = value("Forwarded");
    return {value("X-Forwarded-Proto") + " " + value("X-Forwarded-Host") + " " +
                value("X-Forwarded-Port"),
            forwarded.substr(forwarded.find("proto="))};
}

TEST_CASE("forwarding_fields: the port fits to proto and host of the same source") {
    // What a trusted balancer says, and what follows from it.
    Told seen = told({{"X-Forwarded-Proto", "https"}}, true, "shop.example");
    CHECK(seen.x_forwarded == "https shop.example 443");
    CHECK(seen.forwarded == "proto=https;host=\"shop.example\"");
    seen = told({{"X-Forwarded-Proto", "https"}, {"X-Forwarded-Host", "shop.example:8443"}}, true,
                "10.0.0.1");
    CHECK(seen.x_forwarded == "https shop.example:8443 8443");
    CHECK(seen.forwarded == "proto=https;host=\"shop.example:8443\"");
    seen =
        told({{"X-Forwarded-Proto", "https"}, {"X-Forwarded-Port", "8443"}}, true, "shop.example");
    CHECK(seen.x_forwarded == "https shop.example 8443");
    CHECK(seen.forwarded == "proto=https;host=\"shop.example:8443\"");
    CHECK(told({{"X-Forwarded-Proto", "http"}}, true, "shop.example", "https").x_forwarded ==
          "http shop.example 80");
    CHECK(told({{"X-Forwarded-Host", "[2001:db8::1]:81"}}, true, "a").x_forwarded ==
          "http [2001:db8::1]:81 81");
    CHECK(told({{"X-Forwarded-Host", "[2001:db8::1]"}}, true, "a").x_forwarded ==
          "http [2001:db8::1] 80");
    CHECK(told({{"X-Forwarded-Proto", "WSS"}}, true, "a").x_forwarded == "WSS a 443");
    // Lists begin with what the client saw.
    seen =
        told({{"X-Forwarded-Proto", "https, http"}, {"X-Forwarded-Host", "a:8443 , b"}}, true, "c");
    CHECK(seen.x_forwarded == "https, http a:8443 , b 8443");
    CHECK(seen.forwarded == "proto=https;host=\"a:8443\"");
    // The port alone says the scheme, if it is the default of one.
    CHECK(told({{"X-Forwarded-Port", "443"}}, true, "a").x_forwarded == "https a 443");
    CHECK(told({{"X-Forwarded-Port", "80"}}, true, "a", "https").x_forwarded == "http a 80");
    CHECK(told({{"X-Forwarded-Host", "a:443"}}, true, "b").x_forwarded == "https a:443 443");
    CHECK(told({{"X-Forwarded-Port", "8000"}}, true, "a", "https").x_forwarded == "https a 8000");
    // A scheme that the proxy does not know has no port that it knows.
    CHECK(told({{"X-Forwarded-Proto", "gopher"}}, true, "a").x_forwarded == "gopher a -");
    CHECK(told({{"X-Forwarded-Proto", "a;b\"c"}}, true, "a")
              .forwarded.starts_with("proto=\"a;b\\\"c\";host="));
}

TEST_CASE("forwarding_fields: a peer that writes Forwarded has said proto and host, too") {
    Told seen = told({{"Forwarded",
                       "for=1.2.3.4;proto=http;host=evil, "
                       "for=5.6.7.8;host=\"shop.example:8443\"; Proto=https"}},
                     true, "10.0.0.1");
    CHECK(seen.x_forwarded == "https shop.example:8443 8443");
    // Beside what the peer wrote, ours says how the request came here.
    CHECK(seen.forwarded.ends_with("proto=http;host=\"10.0.0.1\""));
    CHECK(told({{"Forwarded", "for=1.2.3.4;proto=https"}}, true, "shop.example").x_forwarded ==
          "https shop.example 443");
    CHECK(told({{"Forwarded", "for=1.2.3.4"}}, true, "shop.example").x_forwarded ==
          "http shop.example 80");
    CHECK(told({{"Forwarded", "proto=\"ht\\tps\";host=\"a\\\"b\""}}, true, "a").x_forwarded ==
          "http a 80");
    // One source: X-Forwarded-* where there are any.
    CHECK(told({{"Forwarded", "proto=https;host=other"}, {"X-Forwarded-Host", "shop.example"}},
               true, "a")
              .x_forwarded == "http shop.example 80");
}

TEST_CASE("forwarding_fields: a port that is published under another number is the clients'") {
    const std::vector<std::pair<std::string_view, std::string_view>> forged{
        {"X-Forwarded-Proto", "https"}, {"X-Forwarded-Port", "1"}, {"Forwarded", "proto=https"}};
    // The listener has port 8080.
    CHECK(told(forged, false, "shop.example").x_forwarded == "http shop.example 80");
    CHECK(told(forged, false, "shop.example", "https").x_forwarded == "https shop.example 443");
    CHECK(told(forged, false, "shop.example:9443", "https").x_forwarded ==
          "https shop.example:9443 9443");
    CHECK(told(forged, false, "shop.example:443").x_forwarded == "http shop.example:443 443");
    CHECK(told(forged, false, "[::1]:81").x_forwarded == "http [::1]:81 81");
    CHECK(told(forged, false, "").x_forwarded == "http - 8080");
    // A PROXY header says which port the client connected to.
    CHECK(told({}, false, "shop.example", "https", 8443).x_forwarded == "https shop.example 8443");
    CHECK(told({}, false, "shop.example", "https", 8443).forwarded ==
          "proto=https;host=\"shop.example:8443\"");
    CHECK(told({}, false, "shop.example:81", "http", 8443).x_forwarded ==
          "http shop.example:81 81");
    CHECK(told({{"X-Forwarded-Proto", "https"}}, true, "a", "http", 80).x_forwarded ==
          "https a 443");
}

TEST_CASE("forwarding_fields: IPv6 is bracketed and quoted in Forwarded only") {
    const Fields fields;
    ForwardingInput input = input_of(fields, false);
    input.peer = input.client = parse_ip("2001:DB8::7");
    input.settings.forwarded = true;
    const std::string text = lines(input);
    CHECK(text.find("X-Forwarded-For: 2001:db8::7\r\n") != text.npos);
    CHECK(text.find("Forwarded: for=\"[2001:db8::7]\";") != text.npos);
    CHECK(text.find("X-Real-IP: 2001:db8::7\r\n") != text.npos);
}

TEST_CASE("forwarding_fields: a host cannot break out of its quotes") {
    const Fields fields;
    ForwardingInput input = input_of(fields, false);
    input.host = R"(a";for="1.2.3.4\)";
    input.settings.forwarded = true;
    CHECK(lines(input).find(R"(host="a\";for=\"1.2.3.4\\")") != std::string::npos);
}

TEST_CASE("forwarding_fields: empty fields are not continued, and of several the last counts") {
    const Fields fields = fields_of({{"X-Forwarded-For", ""},
                                     {"X-Forwarded-Proto", "gopher"},
                                     {"X-Forwarded-Proto", "https"},
                                     {"X-Forwarded-Host", ""},
                                     {"X-Forwarded-Prefix", ""}});
    const ForwardingInput input = input_of(fields, true);
    const std::string text = lines(input);
    CHECK(text.find("X-Forwarded-For: 10.0.0.7\r\n") != text.npos);
    CHECK(text.find("X-Forwarded-Proto: https\r\n") != text.npos);
    CHECK(text.find("gopher") == text.npos);
    CHECK(text.find("X-Forwarded-Host: api.example.com:8080\r\n") != text.npos);
    CHECK(text.find("Prefix") == text.npos);
}

TEST_CASE("forwarding_fields: the writer copies none of these, in any spelling") {
    const auto is = [](std::string_view name) {
        return is_forwarding_field(Field{field_name(name), name, "x"});
    };
    for (const char* name :
         {"X-Forwarded-For", "x-forwarded-proto", "X-FORWARDED-HOST", "X-Forwarded-Port",
          "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Prefix", "X_Forwarded_For",
          "x-forwarded_for", "X_Real_IP", "X-Forwarded_Ssl"})
        CHECK_MESSAGE(is(name), name);
    for (const char* name : {"Host", "X-Forwarded", "X-Forwarded-", "X-Request-Id", "Accept", "",
                             "XForwarded-For", "X-Real-IPs", "Forwarded-For", "Y-Real-IP"})
        CHECK_MESSAGE(!is(name), name);
}

TEST_CASE("forwarding_fields: a scratch buffer with room is not replaced") {
    const Fields fields = fields_of(kSent);
    ForwardingInput input = input_of(fields, true);
    input.settings.forwarded = true;
    std::string out;
    out.reserve(2048);
    const char* const before = out.data();
    append_forwarding_fields(input, out);
    CHECK(out.data() == before);
}

std::optional<std::uint64_t> read(const std::string& fields,
                                  const std::string& method = "OPTIONS") {
    const std::string bytes = method + " / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    RequestHead head;
    REQUIRE(parse_request_head(bytes, {}, head) == HeadFault::none);
    return max_forwards(head);
}

TEST_CASE("max_forwards: the number of an OPTIONS is read, in any case of the name") {
    CHECK(read("Max-Forwards: 10\r\n") == 10U);
    CHECK(read("max-forwards: 0\r\n") == 0U);
    CHECK(read("Max-Forwards: 007\r\n") == 7U);
    CHECK(read("Max-Forwards: 99999999999999999999999\r\n") ==
          std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("max_forwards: it says nothing in other methods, twice, or as anything but a number") {
    CHECK_FALSE(read("").has_value());
    CHECK_FALSE(read("Max-Forwards: 0\r\n", "GET").has_value());
    CHECK_FALSE(read("Max-Forwards: 0\r\nMax-Forwards: 0\r\n").has_value());
    for (const std::string value : {"", "-1", "+1", "1 0", "0x1", "ten", "1,2"}) {
        CAPTURE(value);
        CHECK_FALSE(read("Max-Forwards: " + value + "\r\n").has_value());
    }
}

}  // namespace

}  // namespace tidegate::http::forwarding_fields_test

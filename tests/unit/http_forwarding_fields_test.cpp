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

TEST_CASE("forwarding_fields: a Unix socket has neither address nor port") {
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
          "Forwarded: for=unknown;proto=http;host=\"a\"\r\n"
          "Via: 1.0 fred, 1.1 p.example.net\r\n");
    // The peer is trusted: the last address that it named stays last.
    input.peer_trusted = true;
    input.client = parse_ip("203.0.113.9");
    const std::string text = lines(input);
    CHECK(text.find("X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n") != text.npos);
    CHECK(text.find("Forwarded: for=192.0.2.1, for=203.0.113.9;proto=https\r\n") != text.npos);
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

}  // namespace
}  // namespace tidegate::http::forwarding_fields_test

#include <doctest/doctest.h>

#include "h2/fields.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_fields_test {

using namespace h2_world;
using h2::Malformed;
using http::HeadFault;

namespace {

struct Taken {
    Malformed malformed = Malformed::none;
    HeadFault fault = HeadFault::none;
    h2::FieldBlock block;
    http::RequestHead head;
    std::string_view protocol;

    std::string_view value(std::string_view name) const {
        return http::single_value(head.fields, name);
    }
    bool is_right() const { return malformed == Malformed::none && fault == HeadFault::none; }
};

Taken take(const FieldList& fields, const h2::RequestRules& rules = {}) {
    Taken taken;
    taken.block.begin_request(rules);
    for (const auto& [name, value] : fields) taken.block.add(name, value);
    taken.fault = taken.block.end_request(taken.head, taken.protocol);
    taken.malformed = taken.block.malformed();
    return taken;
}

Malformed malformed(const FieldList& fields, const h2::RequestRules& rules = {}) {
    return take(fields, rules).malformed;
}

// Of a head that is not malformed.
HeadFault fault(const FieldList& fields, const h2::RequestRules& rules = {}) {
    const Taken taken = take(fields, rules);
    CHECK(taken.malformed == Malformed::none);
    return taken.fault;
}

FieldList without(std::string_view name) {
    FieldList fields = request();
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    return fields;
}

FieldList with_value(std::string_view name, std::string value) {
    FieldList fields = request();
    for (auto& field : fields)
        if (field.first == name) field.second = value;
    return fields;
}

const std::string kNul(1, '\0');

FieldList list_of(const h2::OutgoingFields& fields) {
    FieldList list;
    for (const nghttp2_nv& nv : fields.list()) {
        list.emplace_back(std::string(reinterpret_cast<const char*>(nv.name), nv.namelen),
                          std::string(reinterpret_cast<const char*>(nv.value), nv.valuelen));
    }
    return list;
}

}  // namespace

TEST_CASE("h2 fields: a head is what HTTP/1's parser makes of the same request") {
    const Taken taken = take({{":method", "PATCH"},
                              {":scheme", "http"},
                              {":authority", "Example.com:8080"},
                              {":path", "/a%2Fb/../c?q=1&r"},
                              {"x-a", "b c"},
                              {"x-a", ""}});
    const std::string bytes =
        "PATCH /a%2Fb/../c?q=1&r HTTP/1.1\r\nhost: Example.com:8080\r\nx-a: b c\r\nx-a:\r\n\r\n";
    http::RequestHead other;
    REQUIRE(http::parse_request_head(bytes, {}, other) == HeadFault::none);
    REQUIRE(taken.is_right());
    CHECK(taken.head.method == other.method);
    CHECK(taken.head.target == other.target);
    CHECK(taken.head.path == other.path);
    CHECK(taken.head.query == other.query);
    CHECK(taken.head.authority == other.authority);
    CHECK(taken.head.minor_version == other.minor_version);
    REQUIRE(taken.head.fields.size() == other.fields.size());
    for (std::size_t i = 0; i < other.fields.size(); ++i) {
        CHECK(taken.head.fields[i].id == other.fields[i].id);
        CHECK(taken.head.fields[i].name == other.fields[i].name);
        CHECK(taken.head.fields[i].value == other.fields[i].value);
    }
}

TEST_CASE("h2 fields: pseudo-fields are known, whole, single and first, or the head is malformed") {
    CHECK(take(request()).is_right());
    CHECK(malformed(without(":method")) == Malformed::pseudo_field);
    CHECK(malformed(without(":scheme")) == Malformed::pseudo_field);
    CHECK(malformed(without(":path")) == Malformed::pseudo_field);
    CHECK(malformed(with_value(":path", "")) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":path", "/"}})) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":method", "GET"}})) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":status", "200"}})) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":test", "x"}})) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":", "x"}})) == Malformed::pseudo_field);
    CHECK(malformed(request_with({{":protocol", "websocket"}})) == Malformed::pseudo_field);
    FieldList late = without(":path");
    late.insert(late.end(), {{"x-a", "b"}, {":path", "/"}});
    CHECK(malformed(late) == Malformed::pseudo_field);
}

TEST_CASE("h2 fields: names with upper case or other than tokens are malformed") {
    CHECK(malformed(request_with({{"X-a", "b"}})) == Malformed::field_name);
    CHECK(malformed(request_with({{"x a", "b"}})) == Malformed::field_name);
    CHECK(malformed(request_with({{"", "b"}})) == Malformed::field_name);
    CHECK(malformed(request_with({{"x:a", "b"}})) == Malformed::field_name);
    CHECK(malformed(request_with({{"x\r\na", "b"}})) == Malformed::field_name);
    CHECK(malformed(request_with({{"x\xc3\xa4", "b"}})) == Malformed::field_name);
}

TEST_CASE("h2 fields: CR, LF and NUL are malformed in any value") {
    for (const std::string& bad : {std::string("\r"), std::string("\n"), kNul}) {
        CHECK(malformed(request_with({{"x-a", "b" + bad + "c"}})) == Malformed::line_break);
        CHECK(malformed(request_with({{"x-a", "a longer value" + bad}})) == Malformed::line_break);
        CHECK(malformed(request_with({{"cookie", bad}})) == Malformed::line_break);
        CHECK(malformed(with_value(":path", "/a" + bad)) == Malformed::line_break);
        CHECK(malformed(with_value(":method", "GET" + bad)) == Malformed::line_break);
        CHECK(malformed(with_value(":authority", "a.example" + bad)) == Malformed::line_break);
    }
}

TEST_CASE("h2 fields: fields that HTTP/2 does not have are malformed, and TE but for trailers") {
    for (const char* name :
         {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
        CAPTURE(name);
        CHECK(malformed(request_with({{name, "x"}})) == Malformed::hop_field);
    }
    CHECK(malformed(request_with({{"te", "gzip"}})) == Malformed::te);
    CHECK(malformed(request_with({{"te", "trailers, gzip"}})) == Malformed::te);
    CHECK(take(request_with({{"te", "trailers"}})).is_right());
    CHECK(take(request_with({{"te", "Trailers"}})).is_right());
}

TEST_CASE("h2 fields: what is malformed is so whatever else is wrong, before or behind it") {
    const std::pair<std::string, std::string> hop{"upgrade", "h2c"};
    const std::pair<std::string, std::string> control{"x-a", "\x01"};
    CHECK(malformed(request_with({hop, control})) == Malformed::hop_field);
    CHECK(malformed(request_with({control, hop})) == Malformed::hop_field);
}

TEST_CASE("h2 fields: values, methods and targets that HTTP/1 refuses get 400 here, too") {
    CHECK(fault(request_with({{"x-a", "b\x01"}})) == HeadFault::bad_field);
    CHECK(fault(request_with({{"x-a", " b"}})) == HeadFault::bad_field);
    CHECK(fault(request_with({{"x-a", "b\t"}})) == HeadFault::bad_field);
    CHECK(fault(with_value(":method", "GE T")) == HeadFault::bad_request_line);
    CHECK(fault(with_value(":method", "")) == HeadFault::bad_request_line);
    for (const char* path : {"a", "http://a.example/", "*", "/a b", "/a#b", "/\xc3\xa4", "?q"}) {
        CAPTURE(path);
        CHECK(fault(with_value(":path", path)) == HeadFault::bad_target);
    }
    const Taken asterisk = take({{":method", "OPTIONS"}, {":scheme", "http"}, {":path", "*"}});
    CHECK(asterisk.is_right());
    CHECK(asterisk.head.path == "*");
}

TEST_CASE("h2 fields: the authority is Host, and no other host may stand beside it") {
    CHECK(take(request()).value("host") == "a.example");
    CHECK(take(request()).head.fields.front().id == http::FieldName::host);
    FieldList host_alone = without(":authority");
    host_alone.emplace_back("host", "b.example");
    CHECK(take(host_alone).value("host") == "b.example");
    const Taken both = take(request_with({{"host", "A.example"}}));
    CHECK(both.is_right());
    CHECK(both.value("host") == "A.example");
    CHECK(fault(request_with({{"host", "b.example"}})) == HeadFault::bad_target);
    CHECK(fault(request_with({{"host", "a.example:80"}})) == HeadFault::bad_target);
    CHECK(fault(with_value(":authority", "")) == HeadFault::bad_target);
    CHECK(fault(with_value(":authority", "user@a.example")) == HeadFault::bad_target);
    CHECK(fault(with_value(":authority", "user:secret@a.example")) == HeadFault::bad_target);
    CHECK(fault(with_value(":authority", "a.example/b")) == HeadFault::bad_target);

    // These two are for the framing to refuse, as in HTTP/1.
    http::Framing framing;
    Taken none = take(without(":authority"));
    CHECK(none.is_right());
    CHECK(http::request_framing(none.head, framing) == http::FramingFault::bad_host);
    Taken two = take(request_with({{"host", "a.example"}, {"host", "a.example"}}));
    CHECK(two.is_right());
    CHECK(http::request_framing(two.head, framing) == http::FramingFault::bad_host);
}

TEST_CASE("h2 fields: the scheme is the transport's, unless a trusted peer states it") {
    h2::RequestRules rules;
    CHECK(fault(with_value(":scheme", "https"), rules) == HeadFault::bad_scheme);
    rules.is_https = true;
    CHECK(fault(with_value(":scheme", "https"), rules) == HeadFault::none);
    CHECK(fault(with_value(":scheme", "http"), rules) == HeadFault::bad_scheme);
    rules.any_scheme = true;
    CHECK(fault(with_value(":scheme", "http"), rules) == HeadFault::none);
    CHECK(fault(with_value(":scheme", "ftp"), rules) == HeadFault::bad_scheme);
    CHECK(fault(with_value(":scheme", ""), rules) == HeadFault::bad_scheme);
}

TEST_CASE("h2 fields: CONNECT has an authority alone, or a protocol with all of them") {
    const Taken plain = take({{":method", "CONNECT"}, {":authority", "a.example:443"}});
    CHECK(plain.is_right());
    CHECK(plain.head.target == "a.example:443");
    CHECK(plain.head.path.empty());
    CHECK(plain.value("host") == "a.example:443");
    CHECK(malformed({{":method", "CONNECT"}}) == Malformed::pseudo_field);
    CHECK(malformed(with_value(":method", "CONNECT")) == Malformed::pseudo_field);

    h2::RequestRules rules;
    rules.connect_protocol = true;
    FieldList extended = with_value(":method", "CONNECT");
    extended.insert(extended.begin(), {":protocol", "websocket"});
    const Taken websocket = take(extended, rules);
    CHECK(websocket.is_right());
    CHECK(websocket.protocol == "websocket");
    CHECK(websocket.head.path == "/");
    extended[1].second = "GET";
    CHECK(malformed(extended, rules) == Malformed::pseudo_field);
    CHECK(malformed({{":method", "CONNECT"}, {":protocol", "x"}, {":authority", "a"}}, rules) ==
          Malformed::pseudo_field);
}

TEST_CASE("h2 fields: a target of the allowed length is taken, and one byte more is not") {
    h2::RequestRules rules;
    rules.bounds.uri_bytes = 10;
    CHECK(fault(with_value(":path", "/234567890"), rules) == HeadFault::none);
    CHECK(fault(with_value(":path", "/2345678901"), rules) == HeadFault::uri_too_long);
}

TEST_CASE("h2 fields: a head may be as large as in HTTP/1, and not a byte larger") {
    const std::string as_http1 = "GET / HTTP/1.1\r\nhost: a.example\r\nx-a: 12345\r\n\r\n";
    // Host stands in `:authority`, without a name and an end of line.
    const std::size_t size = as_http1.size() - std::string_view("host: \r\n").size();
    h2::RequestRules rules;
    const FieldList fields = request_with({{"x-a", "12345"}});
    FieldList plain = fields;
    std::erase_if(plain, [](const auto& field) { return field.first == ":scheme"; });
    rules.bounds.bytes = size + std::string_view("http").size();
    CHECK(fault(fields, rules) == HeadFault::none);
    --rules.bounds.bytes;
    const Taken taken = take(fields, rules);
    CHECK(taken.fault == HeadFault::too_large);
    CHECK(taken.head.fields.empty());
    CHECK(taken.head.method == "GET");
    CHECK(taken.head.target == "/");
}

TEST_CASE("h2 fields: fields have a bound, and fields past it are decoded and not kept") {
    h2::RequestRules rules;
    rules.bounds.fields = 3;
    FieldList fields = request_with({{"a", "1"}, {"b", "2"}, {"c", "3"}});
    CHECK(fault(fields, rules) == HeadFault::none);
    fields.emplace_back("d", "4");
    const Taken taken = take(fields, rules);
    CHECK(taken.fault == HeadFault::too_many_fields);
    CHECK(taken.head.fields.empty());
    CHECK(taken.block.list_bytes() ==
          4 * 34 + 4 * 32 +
              std::string_view(":methodGET:schemehttp:path/:authoritya.example").size());
}

TEST_CASE("h2 fields: cookies in crumbs are one field again, where the first of them stood") {
    const Taken taken = take(request_with(
        {{"a", "1"}, {"cookie", "x=1"}, {"b", "2"}, {"cookie", "y=2"}, {"cookie", "z=3"}}));
    REQUIRE(taken.is_right());
    REQUIRE(taken.head.fields.size() == 4);
    CHECK(taken.head.fields[2].name == "cookie");
    CHECK(taken.head.fields[2].value == "x=1; y=2; z=3");
    CHECK(take(request_with({{"cookie", "x=1; y=2"}})).value("cookie") == "x=1; y=2");
}

TEST_CASE("h2 fields: crumbs count as one field up to their bound, and with all their bytes") {
    h2::RequestRules rules;
    rules.bounds.fields = 1;
    rules.cookie_crumbs = 3;
    FieldList fields = request_with({{"cookie", "x=1"}, {"cookie", "y=2"}, {"cookie", "z=3"}});
    CHECK(fault(fields, rules) == HeadFault::none);
    fields.emplace_back("cookie", "t=4");
    CHECK(fault(fields, rules) == HeadFault::too_many_fields);
    fields.back() = {"x-a", "b"};
    CHECK(fault(fields, rules) == HeadFault::too_many_fields);
    rules.bounds.fields = 0;
    CHECK(fault(request_with({{"cookie", "x=1"}}), rules) == HeadFault::too_many_fields);

    rules = {};
    rules.bounds.bytes = 200;
    fields = request();
    for (int i = 0; i < 60; ++i) fields.emplace_back("cookie", "x");
    CHECK(fault(fields, rules) == HeadFault::too_large);
}

TEST_CASE("h2 fields: trailers are held to the rules of fields") {
    const auto trailers = [](const FieldList& fields, http::Fields& into,
                             const h2::RequestRules& rules = {}) {
        static h2::FieldBlock block;
        block.begin_trailers(rules);
        for (const auto& [name, value] : fields) block.add(name, value);
        block.end_trailers(into);
        return block.malformed();
    };
    http::Fields fields;
    CHECK(trailers({{"grpc-status", "0"}, {"cookie", "a"}, {"cookie", "b"}}, fields) ==
          Malformed::none);
    CHECK(fields.size() == 3);
    CHECK(trailers({{":path", "/"}}, fields) == Malformed::pseudo_field);
    CHECK(fields.empty());
    CHECK(trailers({{"A", "b"}}, fields) == Malformed::field_name);
    CHECK(trailers({{"a", "b\r\nc: d"}}, fields) == Malformed::line_break);
    CHECK(trailers({{"connection", "close"}}, fields) == Malformed::hop_field);
    CHECK(trailers({{"a", "\x01"}}, fields) == Malformed::trailers);
    h2::RequestRules rules;
    rules.bounds = {100, 2, 100};
    CHECK(trailers({{"a", "1"}, {"b", "2"}, {"c", "3"}}, fields, rules) == Malformed::trailers);
    CHECK(trailers({{"a", std::string(100, 'x')}}, fields, rules) == Malformed::trailers);
}

TEST_CASE("h2 fields: a body of unknown length is one, and may be waited for") {
    const auto framing_of = [](const FieldList& fields, bool has_body) {
        Taken taken = take(fields);
        http::Framing framing;
        CHECK(http::request_framing(taken.head, framing) == http::FramingFault::none);
        h2::set_body(taken.head, has_body, framing);
        return framing;
    };
    CHECK(framing_of(request(), false).body == http::BodyKind::none);
    CHECK(framing_of(request(), true).body == http::BodyKind::chunked);
    const auto known = framing_of(request_with({{"content-length", "5"}}), true);
    CHECK(known.body == http::BodyKind::length);
    CHECK(known.length == 5);
    CHECK(framing_of(request_with({{"content-length", "0"}}), true).body == http::BodyKind::none);
    CHECK(framing_of(request_with({{"expect", "100-continue"}}), true).expects_continue);
    CHECK_FALSE(framing_of(request_with({{"expect", "100-continue"}}), false).expects_continue);
}

TEST_CASE("h2 fields: a malformed length is none") {
    const auto length_of_head = [](const FieldList& fields) {
        return h2::announced_length(take(fields).head.fields);
    };
    CHECK(length_of_head(request_with({{"content-length", "12"}})) == 12);
    CHECK_FALSE(length_of_head(request()));
    CHECK_FALSE(length_of_head(request_with({{"content-length", "+1"}})));
    CHECK_FALSE(length_of_head(request_with({{"content-length", "-1"}})));
    CHECK_FALSE(length_of_head(request_with({{"content-length", "1"}, {"content-length", "1"}})));
    CHECK_FALSE(length_of_head(request_with({{"content-length", "99999999999999999999"}})));
}

TEST_CASE(
    "h2 outgoing fields: lines of HTTP/1 become fields, but those that HTTP/2 does not have") {
    h2::OutgoingFields fields;
    fields.set_head(429,
                    "Retry-After: 3\r\nConnection: close\r\nKeep-Alive: x\r\nX-Empty:\r\n"
                    "Transfer-Encoding: chunked\r\nUpgrade: x\r\nProxy-Connection: x\r\n"
                    "Location: http://a:1/\r\n");
    CHECK(list_of(fields) == FieldList{{":status", "429"},
                                       {"Retry-After", "3"},
                                       {"X-Empty", ""},
                                       {"Location", "http://a:1/"}});
    fields.set_head(100, "");
    CHECK(list_of(fields) == FieldList{{":status", "100"}});
}

TEST_CASE("h2 outgoing fields: trailers that frame or name a hop go no further") {
    h2::OutgoingFields fields;
    http::Fields trailers;
    for (const char* name : {"Content-Length", "Host", "Trailer", "Transfer-Encoding", "Te",
                             "Content_Length", "Grpc-Status"}) {
        trailers.push_back({http::field_name(name), name, "1"});
    }
    fields.set_trailers(trailers);
    CHECK(list_of(fields) == FieldList{{"Grpc-Status", "1"}});
}

}  // namespace tidegate::h2_fields_test

#include <string>

#include <doctest/doctest.h>

#include "http/request_value.hpp"

namespace tidegate::http::request_value_test {

using How = RequestValue::How;

namespace {

Fields fields(std::initializer_list<std::pair<std::string_view, std::string_view>> list) {
    Fields out;
    for (const auto& [name, value] : list) out.push_back({field_name(name), name, value});
    return out;
}

std::string query(std::string_view text) {
    const RequestValue stated = value_in_query(text, "a_b");
    if (stated.how == How::once) return "=" + stated.value;
    return stated.how == How::absent ? "absent" : "unclear";
}

}  // namespace

TEST_CASE("stated: a field that is there once, in any case") {
    const RequestValue stated = value_in_fields(fields({{"B", "2"}, {"X-A", "1, 2"}}), "x-a");
    CHECK(stated.how == How::once);
    CHECK(stated.value == "1, 2");
    CHECK(value_in_fields(fields({{"B", "2"}}), "x-a").how == How::absent);
    CHECK(value_in_fields(fields({{"X-A", ""}}), "x-a").how == How::absent);
}

TEST_CASE("stated: a field twice, or spelled as a variable, is unclear") {
    CHECK(value_in_fields(fields({{"X-A", "1"}, {"x-a", "1"}}), "x-a").how == How::unclear);
    CHECK(value_in_fields(fields({{"X-A", ""}, {"x-a", "1"}}), "x-a").how == How::unclear);
    CHECK(value_in_fields(fields({{"X_A", "1"}}), "x-a").how == How::unclear);
}

TEST_CASE("stated: a field that Connection names does not get any further") {
    Fields named = fields({{"Connection", "close, X-A"}, {"X-A", "1"}});
    named[1].id = FieldName::named_by_connection;
    CHECK(value_in_fields(named, "x-a").how == How::absent);
}

TEST_CASE("stated: a parameter that is there once, decoded") {
    CHECK(query("?a_b=1") == "=1");
    CHECK(query("x=2&a_b=1&y") == "=1");
    CHECK(query("a_b=1=2") == "=1=2");
    CHECK(query("%61_b=%31+2") == "=1 2");
    CHECK(query("a_b=1&") == "=1");
    for (const char* text : {"", "?", "a_b", "a_b=", "?x=a_b", "ab=1", "a_bc=1", "&&", "x[a_b]=1",
                             "a-b=1", "a%255fb=1", "%C3%A4=1"}) {
        CHECK_MESSAGE(query(text) == "absent", text);
    }
}

TEST_CASE(
    "stated: a field that routes are chosen by is clear only once, as itself, and passed on") {
    CHECK_FALSE(is_unclear_in_fields(fields({{"B", "2"}, {"X-Beta", ""}}), "x-beta"));
    CHECK_FALSE(is_unclear_in_fields(fields({{"XBeta", "2"}, {"X-Betas", ""}}), "x-beta"));
    CHECK(is_unclear_in_fields(fields({{"X-Beta", "1"}, {"x-beta", "1"}}), "x-beta"));
    CHECK(is_unclear_in_fields(fields({{"X_Beta", "1"}}), "x-beta"));
    CHECK(is_unclear_in_fields(fields({{"X-Beta", "1"}, {"X.Beta", "0"}}), "x-beta"));
    Fields named = fields({{"Connection", "X-Beta"}, {"X-Beta", "1"}});
    named[1].id = FieldName::named_by_connection;
    CHECK(is_unclear_in_fields(named, "x-beta"));
}

TEST_CASE("stated: a parameter that servers read in different ways is unclear") {
    for (const char* text :
         {"a_b=1&a_b=1", "a_b=&a_b=1", "A_B=1",       "a.b=1",     "a+b=1",       "a%20b=1",
          "a_b[]=1",     "a_b[x]=1",   "x=1;a_b=2",   "a_b=1;2",   "a_b=1;a_b=1", "a[b=1",
          "[a_b]=1",     "]a_b=1",     "a_b]=1",      "+a_b=1",    "%20a_b",      "??a_b=1",
          "a_b+=1",      "+a%5bb=1",   "x&amp;a_b=1", "a_b=1&a_b", "a_b[=1"}) {
        CHECK_MESSAGE(query(text) == "unclear", text);
    }
}

TEST_CASE("stated: one name that does not decode makes a whole query unclear") {
    for (const char* name : {"%", "x%4", "%zz", "a_b%00x", "%00", "x%00", "%u0061_b", "%ff",
                             "%c0%a1", "a%ed%a0%80", "%09a_b", "x%7f", "%0a"}) {
        const std::string text(name);
        CHECK_MESSAGE(query(text + "=1") == "unclear", text);
        CHECK_MESSAGE(query("a_b=1&" + text + "=1") == "unclear", text);
        CHECK_MESSAGE(query(text + "&a_b=1") == "unclear", text);
    }
}

TEST_CASE("stated: a value that servers decode in different ways is unclear") {
    for (const char* value :
         {"%", "%4", "%4g", "%00", "1%00", "%ff", "%C0%80", "1]=2", "1%5D=", "%5d=3", "%u0041"}) {
        CHECK_MESSAGE(query("a_b=" + std::string(value)) == "unclear", value);
    }
    CHECK(query("a_b=1]&c=2") == "=1]");
    CHECK(query("a_b=%C3%A4") == "=\xc3\xa4");
}

TEST_CASE("stated: what is behind the thousandth parameter is not read by every server") {
    std::string many;
    for (int i = 0; i < 998; ++i) many += "x&";
    CHECK(query(many + "y&a_b=1") == "=1");
    CHECK(query(many + "y&&a_b=1") == "unclear");
    CHECK(query(many + "y&y&y") == "unclear");
}

}  // namespace tidegate::http::request_value_test

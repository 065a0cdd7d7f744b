#include <string>

#include <doctest/doctest.h>

#include "http/stated.hpp"

using namespace tidegate::http;
using How = Stated::How;

namespace {

Fields fields(std::initializer_list<std::pair<std::string_view, std::string_view>> list) {
    Fields out;
    for (const auto& [name, value] : list) out.push_back({field_name(name), name, value});
    return out;
}

std::string query(std::string_view text) {
    const Stated stated = stated_in_query(text, "a_b");
    if (stated.how == How::once) return "=" + stated.value;
    return stated.how == How::absent ? "absent" : "unclear";
}

}  // namespace

TEST_CASE("stated: a field that is there once, in any case") {
    const Stated stated = stated_in_fields(fields({{"B", "2"}, {"X-A", "1, 2"}}), "x-a", false);
    CHECK(stated.how == How::once);
    CHECK(stated.value == "1, 2");
    CHECK(stated_in_fields(fields({{"B", "2"}}), "x-a", false).how == How::absent);
    CHECK(stated_in_fields(fields({{"X-A", ""}}), "x-a", false).how == How::absent);
}

TEST_CASE("stated: a field twice, or spelled as a variable, is unclear") {
    CHECK(stated_in_fields(fields({{"X-A", "1"}, {"x-a", "1"}}), "x-a", false).how == How::unclear);
    CHECK(stated_in_fields(fields({{"X-A", ""}, {"x-a", "1"}}), "x-a", false).how == How::unclear);
    CHECK(stated_in_fields(fields({{"X_A", "1"}}), "x-a", false).how == How::unclear);
}

TEST_CASE("stated: a field that Connection names does not get any further") {
    const Fields named = fields({{"Connection", "close, X-A"}, {"X-A", "1"}});
    CHECK(stated_in_fields(named, "x-a", true).how == How::absent);
}

TEST_CASE("stated: a parameter that is there once, decoded") {
    CHECK(query("?a_b=1") == "=1");
    CHECK(query("x=2&a_b=1&y") == "=1");
    CHECK(query("a_b=1=2") == "=1=2");
    CHECK(query("%61_b=%31+2") == "=1 2");
    CHECK(query("a_b=1&") == "=1");
    for (const char* text : {"", "?", "a_b", "a_b=", "?x=a_b", "ab=1", "a_bc=1", "&&", "%zz=1"}) {
        CHECK_MESSAGE(query(text) == "absent", text);
    }
}

TEST_CASE("stated: a parameter that servers read in different ways is unclear") {
    for (const char* text :
         {"a_b=1&a_b=1", "a_b=&a_b=1", "A_B=1", "a.b=1", "a+b=1", "a%20b=1", "a_b[]=1", "a_b[x]=1",
          "x=1;a_b=2", "a_b=1;2", "a_b=1;a_b=1", "a_b=%", "a_b=%4", "a_b=%4g", "a_b=%00"}) {
        CHECK_MESSAGE(query(text) == "unclear", text);
    }
}

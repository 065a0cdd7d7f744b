#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "http/query_and_method_override.hpp"
#include "unit/query_readers.hpp"

namespace tidegate::http::query_and_method_override_test {

namespace {

using How = RequestValue::How;

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

const std::string kName = "tenant_id";

// The first reader that sees another value than Tidegate does; empty: none, or Tidegate refuses.
std::string who_reads_otherwise(const std::string& parameter) {
    const RequestValue stated = http::value_in_query("?" + parameter, kName);
    if (stated.how == RequestValue::How::unclear) return {};
    for (const auto& [reader, read] : readers::kAll) {
        const readers::MaybeRead seen = read(parameter);
        const std::string value = seen && seen->name == kName ? seen->value : "";
        if (value != stated.value) return std::string(reader) + " of " + parameter;
    }
    return {};
}

// One of `parameter` beside the name itself: any reader that merges the two sees something else.
std::string who_merges(const std::string& parameter) {
    const RequestValue stated = http::value_in_query("?" + kName + "=A&" + parameter, kName);
    if (stated.how == RequestValue::How::unclear) return {};
    for (const auto& [reader, read] : readers::kAll) {
        const readers::MaybeRead seen = read(parameter);
        if (seen && seen->name == kName) return std::string(reader) + " of " + parameter;
    }
    return {};
}

TEST_CASE("stated: what is counted is what PHP, qs, Rack, WSGI and servlets read") {
    std::size_t names = 0;
    const auto check = [&](const std::string& name) {
        ++names;
        for (const std::string& wrong :
             {who_reads_otherwise(name + "=B"), who_merges(name + "=B")}) {
            if (!wrong.empty()) FAIL_CHECK(wrong);
        }
    };
    check(kName);
    readers::for_each_edit(kName, [&](const std::string& once) {
        check(once);
        // Every seventh: all that two edits make are a quarter of a million.
        std::size_t turn = once.size();
        readers::for_each_edit(once, [&](const std::string& twice) {
            if (++turn % 7 == 0) check(twice);
        });
    });
    CHECK(names > 30'000);
}

TEST_CASE("stated: other names pass beside the one that is counted") {
    for (const std::string other :
         {"tenant", "id", "tenant_id2", "xtenant_id", "tenantid", "tenant-id", "tenant__id",
          "x[tenant_id]", "tenant[ids]", "ids[]", "filter[a][b]", "a.b", "tenant_id2[]",
          "tenant.id.x", "%C3%A4", "name+with+spaces", "tenant%255Fid", "_tenant_id"}) {
        CAPTURE(other);
        CHECK(http::value_in_query("?" + other + "=B", kName).how == RequestValue::How::absent);
        const RequestValue beside = http::value_in_query("?" + other + "=B&tenant_id=A", kName);
        CHECK(beside.how == RequestValue::How::once);
        CHECK(beside.value == "A");
    }
}

TEST_CASE("stated: a parameter that some server could find is seen in every spelling") {
    for (const char* text : {"a_b", "a_b=1", "?a_b=1", "x&a_b=1", "x;a_b=1", "%61_b=1", "A_B=1",
                             "+a_b=1", "a_b[]=1", "a_b[x]=1", "a.b=1", "a_b%=1", "%&a_b=1"}) {
        CHECK_MESSAGE(could_have_parameter(text, "a_b"), text);
    }
    for (const char* text : {"", "?", "x=a_b", "a_bc=1", "x[a_b]=1", R"({"a_b":"1"})",
                             R"({"x":"5%","a_b":"1&2;c"})", R"({"x":[1],"a_b":"=1"})"}) {
        CHECK_MESSAGE(!could_have_parameter(text, "a_b"), text);
    }
}

TEST_CASE("method: a field that overrides method or target is known in every spelling") {
    for (const std::string name :
         {"X-HTTP-Method-Override", "x-http-method-override", "X-HTTP-Method", "X-Method-Override",
          "X_HTTP_METHOD_OVERRIDE", "x-http_method-override", "X.HTTP.Method",
          "x_method_override"}) {
        CAPTURE(name);
        CHECK(override_of(name) == RequestOverride::method);
    }
    for (const std::string name :
         {"X-Original-URL", "x-original-url", "X-Rewrite-URL", "X_ORIGINAL_URL", "x_rewrite.url"}) {
        CAPTURE(name);
        CHECK(override_of(name) == RequestOverride::target);
    }
    for (const std::string name :
         {"", "x", "X-Original-URI", "X-Original-Method", "X-HTTP-Methods", "XHTTP-Method",
          "HTTP-Method-Override", "X-Method", "X-HTTP-Method-Overrides", "Y-Original-URL",
          "Authorization", "X-Forwarded-Method"}) {
        CAPTURE(name);
        CHECK(override_of(name) == RequestOverride::none);
    }
}

}  // namespace

}  // namespace tidegate::http::query_and_method_override_test

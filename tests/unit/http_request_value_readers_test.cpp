// Query parameters as applications read them: Tidegate counts the value that all of them see, or it
// refuses the request.
#include <string>

#include <doctest/doctest.h>

#include "http/request_value.hpp"
#include "unit/query_readers.hpp"

namespace tidegate::http_request_value_readers_test {

using http::RequestValue;

namespace {

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

}  // namespace

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

}  // namespace tidegate::http_request_value_readers_test

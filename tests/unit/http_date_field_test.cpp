#include <chrono>
#include <string>

#include <doctest/doctest.h>

#include "http/date_field.hpp"

namespace tidegate::http_date_field_test {

TEST_CASE("date_field: the line changes with the second, and only then") {
    using std::chrono::milliseconds;
    const std::chrono::system_clock::time_point start{std::chrono::seconds{784'111'777}};
    http::DateField date;
    CHECK(date.line().empty());
    date.set(start);
    const char* const bytes = date.line().data();
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    date.set(start + milliseconds{999});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    date.set(start + milliseconds{1'000});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
    CHECK(date.line().data() == bytes);
    // A clock that was put back.
    date.set(start - milliseconds{1});
    CHECK(date.line() == "Date: Sun, 06 Nov 1994 08:49:36 GMT\r\n");
}

}  // namespace tidegate::http_date_field_test

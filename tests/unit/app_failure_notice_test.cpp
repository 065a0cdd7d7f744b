#include <chrono>

#include <doctest/doctest.h>

#include "app/failure_notice.hpp"

namespace tidegate::app::failure_notice_test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("failure_notice: the first failure is logged, and then one an hour") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    CHECK_FALSE(notice.is_due("it answered 503", start));
    CHECK_FALSE(notice.is_due("it answered 503", start + 1h - 1ns));
    CHECK(notice.is_due("it answered 503", start + 1h));
    CHECK_FALSE(notice.is_due("it answered 503", start + 2h - 1ns));
    CHECK(notice.is_due("it answered 503", start + 9h));
}

TEST_CASE("failure_notice: another reason is logged at once, and after it the one before") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    CHECK(notice.is_due("its certificate has expired", start + 1s));
    CHECK_FALSE(notice.is_due("its certificate has expired", start + 1h));
    CHECK(notice.is_due("it answered 503", start + 1h));
    CHECK_FALSE(notice.is_due("it answered 503", start + 1h + 1s));
}

TEST_CASE("failure_notice: a failure after a success is logged, whatever was logged before") {
    FailureNotice notice;
    const SteadyTime start = SteadyTime{} + 100h;
    CHECK(notice.is_due("it answered 503", start));
    notice.recovered();
    CHECK(notice.is_due("it answered 503", start + 1s));
    CHECK_FALSE(notice.is_due("it answered 503", start + 2s));
}

}  // namespace
}  // namespace tidegate::app::failure_notice_test

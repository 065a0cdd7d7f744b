#include "limit/limit.hpp"

#include <chrono>
#include <set>
#include <string>

#include <doctest/doctest.h>

namespace tidegate::limit::limit_test {
namespace {

using namespace std::chrono_literals;

LimitSpec spec(std::int64_t quota, Micros duration) {
    LimitSpec spec;
    spec.quota = quota;
    spec.duration = duration;
    return spec;
}

std::string fault(const LimitSpec& spec) {
    const auto limit = make_limit(spec);
    return limit ? "" : limit.error().what;
}

}  // namespace

TEST_CASE("default_precision: the smallest divisor from a sixtieth and a millisecond on") {
    CHECK(default_precision(1s) == 20ms);
    CHECK(default_precision(1h) == 1min);
    CHECK(default_precision(1min) == 1s);
    CHECK(default_precision(24h) == 24min);
    CHECK(default_precision(10ms) == 1ms);
    CHECK(default_precision(1ms) == 1ms);
    CHECK(default_precision(1'999us) == 1'999us);          // its divisors are 1 and 1999
    CHECK(default_precision(1'000'003us) == 1'000'003us);  // a prime
    CHECK(default_precision(7s) == 125ms);
}

TEST_CASE("make_limit: sub-buckets cover the duration, one more when strict") {
    auto some = spec(5, 1s);
    CHECK(make_limit(some)->blocks == 50);
    some.precision = 300ms;
    CHECK(make_limit(some)->blocks == 4);
    some.strict = true;
    CHECK(make_limit(some)->blocks == 5);
    some.precision = 1s;
    CHECK(make_limit(some)->blocks == 2);
    some.precision = 1ms;
    CHECK(make_limit(some)->blocks == 1'001);
}

TEST_CASE("make_limit: money is counted by windows, up to a billion dollars, as another limit") {
    auto some = spec(kMoneyMax, 1h);
    CHECK(fault(some) == "a quota of 1000000000000000 is out of range: 0 to 4294967295");
    some.in_money = true;
    REQUIRE(fault(some).empty());
    CHECK(make_limit(some)->quota == kMoneyMax);
    auto plain = spec(5, 1h);
    const auto of_units = make_limit(plain);
    plain.in_money = true;
    const auto of_money = make_limit(plain);
    CHECK(of_units->id != of_money->id);
    CHECK(of_units->state() == StateKind::windows);
    CHECK(of_money->state() == StateKind::wide_windows);
    CHECK_FALSE(of_money->has_fast_path());
    some.quota += 1;
    CHECK(fault(some) ==
          "a quota in micro-dollars of 1000000000000001 is out of range: 0 to 1000000000000000");
    some.quota = kQuotaMax + 1;
    some.algorithm = Algorithm::gcra;
    CHECK(fault(some) ==
          "`gcra` counts at most 4294 dollars: write less, or `algorithm: sliding_window`");
    some.quota = 5'000'000;
    REQUIRE(fault(some).empty());
    CHECK(make_limit(some)->state() == StateKind::bucket);
}

TEST_CASE("make_limit: a fixed window is one sub-bucket as wide as the duration") {
    auto some = spec(5, 90s);
    some.algorithm = Algorithm::fixed_window;
    some.anchor = Anchor::first_request;
    const auto limit = make_limit(some);
    CHECK(limit->blocks == 1);
    CHECK(limit->precision == 90s);
}

TEST_CASE("make_limit: state that a script reads whole has a largest quota") {
    LimitSpec log = spec(1'000, std::chrono::hours{1});
    log.algorithm = Algorithm::sliding_log;
    CHECK(make_limit(log).has_value());
    log.quota = 1'001;
    CHECK(fault(log) ==
          "`sliding_log` counts at most 1000: write less, or `algorithm: sliding_window`");
    LimitSpec schedule = spec(2'000, std::chrono::hours{24});
    schedule.algorithm = Algorithm::schedule;
    CHECK(make_limit(schedule).has_value());
    schedule.quota = 2'001;
    CHECK(fault(schedule) == "`schedule` counts at most 2000: write less");
}

TEST_CASE("make_limit: a fault names its setting, the value and what would be right") {
    const auto key_of = [](const LimitSpec& some) {
        const auto limit = make_limit(some);
        return limit ? std::string_view() : limit.error().key;
    };
    LimitSpec some = spec(5, 1min);
    some.burst = 9;
    CHECK(key_of(some) == "burst");
    CHECK(fault(some) ==
          "only `gcra` and `leaky_bucket` have `burst`: remove it, or write `algorithm: gcra`");
    some = spec(5, 1min);
    some.algorithm = Algorithm::leaky_bucket;
    some.max_delay = 10min;
    CHECK(key_of(some) == "max_delay");
    CHECK(fault(some) == "`10min` is out of range: 0s to 5min");
    some = spec(0, 1min);
    some.algorithm = Algorithm::gcra;
    CHECK(key_of(some) == "quota");
    CHECK(fault(some) == "`gcra` needs a quota of at least 1");
    some = spec(5, 1min);
    some.horizon = 1h;
    CHECK(key_of(some) == "horizon");
    CHECK(fault(some) ==
          "only `schedule` has `horizon`: remove it, or write `algorithm: schedule`");
    some = spec(5, 1s);
    some.precision = 2s;
    CHECK(key_of(some) == "precision");
    CHECK(fault(some) == "a precision of 2s is out of range: 1us to 1s, the duration");
    CHECK(fault(spec(5, 500us)) == "a duration of 500us is out of range: 1ms to 3660day");
    CHECK(fault(spec(-1, 1s)) == "a quota of -1 is out of range: 0 to 4294967295");
    CHECK(key_of(spec(5, 1s)).empty());
}

TEST_CASE("make_limit: a window with a period is as long as its anchor says") {
    LimitSpec day = spec(5, 0s);
    day.algorithm = Algorithm::fixed_window;
    day.anchor = Anchor::utc_day;
    CHECK(make_limit(day)->duration == 24h);
    CHECK(make_limit(day)->name == "utc_day");
    CHECK(make_limit(day)->is_on_grid());
    CHECK(make_limit(day)->follows_calendar());
    LimitSpec month = day;
    month.anchor = Anchor::utc_month;
    const auto limit = make_limit(month);
    CHECK(limit->name == "utc_month");
    CHECK(limit->duration == 31 * 24h);  // at most
    CHECK(limit->blocks == 1);
    CHECK_FALSE(limit->has_one_duration());
    CHECK(limit->follows_calendar());
    LimitSpec week = day;
    week.anchor = Anchor::utc_week;
    CHECK(make_limit(week)->duration == 7 * 24h);
    std::set<std::uint32_t> ids;
    LimitSpec clock = spec(5, 24h);
    clock.algorithm = Algorithm::fixed_window;
    for (const LimitSpec& one : {day, week, month, clock}) ids.insert(make_limit(one)->id);
    CHECK(ids.size() == 4);
    month.duration = 30 * 24h;
    CHECK(fault(month) == "the anchor `utc_month` says how long a window is: give no duration");
    month.algorithm = Algorithm::sliding_window;
    CHECK(fault(month) ==
          "only `fixed_window` has `anchor`: remove it, or write `algorithm: fixed_window`");
}

TEST_CASE("make_limit: the id is the same for another quota, and for nothing else") {
    std::set<std::uint32_t> ids;
    const auto add = [&](const LimitSpec& one) { return ids.insert(make_limit(one)->id).second; };
    auto some = spec(5, 1min);
    CHECK(add(some));
    some.quota = 6;
    CHECK_FALSE(add(some));
    some.precision = 1s;  // what it would have been anyway
    CHECK_FALSE(add(some));
    some.precision = 2s;
    CHECK(add(some));
    some.strict = true;
    CHECK(add(some));
    some.duration = 2min;
    CHECK(add(some));
    some.name = "mine";
    CHECK(add(some));
    some.precision.reset();
    some.strict = false;
    some.algorithm = Algorithm::fixed_window;
    CHECK(add(some));
    some.anchor = Anchor::first_request;
    CHECK(add(some));
}

TEST_CASE("make_limit: ids are the same in every build, for they are stored") {
    CHECK(make_limit(spec(10, 1s))->id == make_limit(spec(99, 1000ms))->id);
    CHECK(make_limit(spec(10, 1s))->id == 3'607'837'457);
}

TEST_CASE("make_limit: a limit without a name is called what it is without its quota") {
    auto some = spec(5, 15min);
    CHECK(make_limit(some)->name == "15min");
    some.precision = 1min;
    CHECK(make_limit(some)->name == "15min-by-1min");
    some.strict = true;
    CHECK(make_limit(some)->name == "15min-by-1min-strict");
    auto fixed = spec(5, 1'500ms);
    fixed.algorithm = Algorithm::fixed_window;
    CHECK(make_limit(fixed)->name == "1500ms-fixed");
    fixed.anchor = Anchor::first_request;
    CHECK(make_limit(fixed)->name == "1500ms-fixed-first_request");
    fixed.name = "burst";
    CHECK(make_limit(fixed)->name == "burst");
}

TEST_CASE("make_limit: a limit that cannot be counted is refused with what would be right") {
    CHECK(fault(spec(-1, 1s)).find("0 to 4294967295") != std::string::npos);
    CHECK(fault(spec(kQuotaMax, 1s)).empty());
    CHECK_FALSE(fault(spec(kQuotaMax + 1, 1s)).empty());
    CHECK_FALSE(fault(spec(1, 999us)).empty());
    CHECK(fault(spec(1, kDurationMax)).empty());
    CHECK_FALSE(fault(spec(1, kDurationMax + 1us)).empty());
    CHECK_FALSE(fault(spec(1, Micros::min())).empty());

    auto some = spec(1, 1s);
    some.precision = 0us;
    CHECK_FALSE(fault(some).empty());
    some.precision = -1us;
    CHECK_FALSE(fault(some).empty());
    some.precision = 1s + 1us;
    CHECK_FALSE(fault(some).empty());
    some.precision = 999us;
    CHECK(fault(some).find("at least `1ms`") != std::string::npos);
    some.precision = 1ms;
    CHECK(fault(some).empty());
    some.anchor = Anchor::first_request;
    CHECK_FALSE(fault(some).empty());

    auto fixed = spec(1, 1s);
    fixed.algorithm = Algorithm::fixed_window;
    fixed.strict = true;
    CHECK_FALSE(fault(fixed).empty());
    fixed.strict = false;
    fixed.precision = 1s;
    CHECK_FALSE(fault(fixed).empty());
}

TEST_CASE("limit: units stay taken for the statuses that count, and where no answer is known") {
    auto some = spec(5, 1s);
    some.count = Count::by_status;
    some.statuses = {403, 401};
    const auto limit = *make_limit(some);
    CHECK(limit.keeps(401));
    CHECK(limit.keeps(403));
    CHECK_FALSE(limit.keeps(200));
    CHECK_FALSE(limit.keeps(402));
    CHECK(limit.keeps(0));
    CHECK_FALSE(limit.keeps({200, AnswerStatus::kGrpcUnknown}));
}

TEST_CASE("limit: units stay taken for the statuses of gRPC that count, or while there is none") {
    auto some = spec(5, 1s);
    some.count = Count::by_status;
    some.statuses = {kGrpcStatuses + 16, 401};
    const auto limit = *make_limit(some);
    CHECK(limit.keeps({200, 16}));
    CHECK(limit.keeps({401, AnswerStatus::kNoGrpc}));
    CHECK_FALSE(limit.keeps({200, 0}));
    // Of another protocol: its status of HTTP decides.
    CHECK_FALSE(limit.keeps(200));
    // The answer broke off before its trailers.
    CHECK(limit.keeps({200, AnswerStatus::kGrpcUnknown}));
    CHECK(status_text(401) == "401");
    CHECK(status_text(kGrpcStatuses + 16) == "grpc:16");
}

TEST_CASE("limit: where statuses of gRPC alone count, only one of these gives units back") {
    auto some = spec(5, 1s);
    some.count = Count::by_status;
    some.statuses = {kGrpcStatuses + 16};
    const auto limit = *make_limit(some);
    CHECK(limit.counts_grpc());
    CHECK(limit.keeps({200, 16}));
    CHECK_FALSE(limit.keeps({200, 0}));
    CHECK_FALSE(limit.keeps({415, 5}));
    for (const int http : {0, 200, 204, 401, 415, 503}) {
        CHECK(limit.keeps(http));
        CHECK(limit.keeps({http, AnswerStatus::kGrpcUnknown}));
    }
    some.statuses = {401};
    CHECK_FALSE(make_limit(some)->counts_grpc());
}

TEST_CASE("algorithms: the rows are in the order of the enumeration, and named differently") {
    std::set<std::string_view> names;
    for (const AlgorithmTraits& traits : kAlgorithms) {
        CHECK(names.insert(traits.name).second);
        if (!traits.synonym.empty()) CHECK(names.insert(traits.synonym).second);
    }
    CHECK(kAlgorithms.size() == static_cast<std::size_t>(Algorithm::concurrency) + 1);
    CHECK(traits_of(Algorithm::sliding_window).name == "sliding_window");
    CHECK(traits_of(Algorithm::gcra).synonym == "token_bucket");
    CHECK(traits_of(Algorithm::leaky_bucket).name == "leaky_bucket");
    CHECK(traits_of(Algorithm::concurrency).name == "concurrency");
}

TEST_CASE("limit: units by status, places in a queue and slots may be given back") {
    const auto settles = [](Algorithm algorithm, Micros duration) {
        LimitSpec some = spec(5, duration);
        some.algorithm = algorithm;
        return make_limit(some)->settles();
    };
    CHECK_FALSE(settles(Algorithm::gcra, 1s));
    CHECK_FALSE(settles(Algorithm::sliding_window, 1s));
    CHECK_FALSE(settles(Algorithm::schedule, 1h));
    CHECK(settles(Algorithm::leaky_bucket, 1s));
    CHECK(settles(Algorithm::concurrency, 0s));
    LimitSpec by_status = spec(5, 1s);
    by_status.algorithm = Algorithm::gcra;
    by_status.count = Count::by_status;
    by_status.statuses = {401};
    CHECK(make_limit(by_status)->settles());
}

}  // namespace tidegate::limit::limit_test

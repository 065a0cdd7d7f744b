#include <string>

#include <doctest/doctest.h>

#include "store/metrics.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::store::metrics_test {

using test::sample;

TEST_CASE("metrics: store failures and reports are counted by reason and result") {
    Metrics first;
    Metrics second;
    first.failures[StoreFailure::timeout].add();
    first.failures[StoreFailure::full].add();
    second.failures[StoreFailure::full].add();
    second.local_reports[LocalReportResult::lost].add(5);
    const std::string text = test::text_of({&first, &second});
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="timeout"})") == "1");
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="full"})") == "2");
    CHECK(sample(text, R"(tidegate_store_failures_total{reason="refused"})") == "0");
    CHECK(sample(text, R"(tidegate_local_reports_total{result="lost"})") == "5");
    CHECK(sample(text, R"(tidegate_local_reports_total{result="forgotten"})") == "0");
}

TEST_CASE("metrics: the state of the store is how many workers see it so") {
    Metrics first;
    Metrics second;
    Metrics third;
    second.state.set(StoreState::down);
    const std::string text = test::text_of({&first, &second, &third});
    CHECK(sample(text, R"(tidegate_store_state{state="up"})") == "2");
    CHECK(sample(text, R"(tidegate_store_state{state="down"})") == "1");
}

}  // namespace tidegate::store::metrics_test

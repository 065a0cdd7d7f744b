#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "app/process_metrics.hpp"
#include "unit/metrics_text.hpp"

namespace tidegate::app::process_metrics_test {
namespace {

using namespace std::chrono_literals;
using test::sample;

constexpr const char* kStat =
    "4711 (tidegate) S 1 4711 4711 0 -1 4194560 9000 0 3 0 250 150 0 0 20 0 7 0 123456 "
    "104857600 2560 18446744073709551615 1 1 0 0 0 0 0 4096 17442 0 0 0 17 1 0 0 0 0 0\n";

TEST_CASE("process metrics: /proc/self/stat is read by the places of its fields") {
    const auto stat = read_process_stat(kStat, 100, 4096);
    REQUIRE(stat);
    CHECK(stat->cpu_seconds == 4.0);
    CHECK(stat->threads == 7);
    CHECK(stat->virtual_bytes == 104'857'600);
    CHECK(stat->resident_bytes == 2560 * 4096);
}

TEST_CASE("process metrics: a program's name may hold spaces and brackets") {
    std::string text = kStat;
    text.replace(text.find("tidegate"), 8, "a) S 9 (b c");
    const auto stat = read_process_stat(text, 100, 4096);
    REQUIRE(stat);
    CHECK(stat->threads == 7);
}

TEST_CASE("process metrics: a file that is cut or has other fields gives no figures") {
    const std::string text = kStat;
    const std::size_t needed = text.find(" 18446744073709551615");
    for (std::size_t size = 0; size < needed - 4; ++size) {
        CHECK_FALSE(read_process_stat(text.substr(0, size), 100, 4096));
    }
    CHECK(read_process_stat(text.substr(0, needed), 100, 4096));
    std::string other = text;
    other.replace(other.find(" 250 "), 5, " x50 ");
    CHECK_FALSE(read_process_stat(other, 100, 4096));
}

TEST_CASE("process metrics: a running process shows all of them") {
    telemetry::Exposition out;
    write_process_metrics(out, std::chrono::system_clock::time_point(1'700'000'000'500ms));
    const std::string text = out.text();
    CHECK(sample(text, "process_start_time_seconds") == "1700000000.5");
    for (const char* name :
         {"process_cpu_seconds_total", "process_threads", "process_virtual_memory_bytes",
          "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}) {
        CAPTURE(name);
        REQUIRE(sample(text, name) != "absent");
        CHECK(std::stod(sample(text, name)) >= 0);
    }
    CHECK(std::stod(sample(text, "process_open_fds")) >= 3);
    CHECK(std::stod(sample(text, "process_threads")) >= 1);
    CHECK(text.find("# TYPE process_cpu_seconds_total counter") != std::string::npos);
}

TEST_CASE("process metrics: a thread's time is shown by its number while the thread runs") {
    ThreadClock never;
    ThreadClock own;
    std::promise<void> has_begun;
    std::promise<void> may_end;
    std::thread thread([&] {
        own.begin();
        has_begun.set_value();
        may_end.get_future().wait();
    });
    has_begun.get_future().wait();
    const std::array<const ThreadClock*, 2> clocks{&never, &own};
    telemetry::Exposition running;
    write_thread_metrics(running, clocks);
    const std::string text = running.text();
    CHECK(sample(text, R"(tidegate_thread_cpu_seconds_total{thread="0"})") == "absent");
    CHECK(sample(text, R"(tidegate_thread_cpu_seconds_total{thread="1"})") != "absent");
    may_end.set_value();
    thread.join();
    // The kernel forgets a thread a moment after it is joined.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (own.used() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK_FALSE(own.used());
}

}  // namespace
}  // namespace tidegate::app::process_metrics_test

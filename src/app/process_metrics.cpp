#include "app/process_metrics.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace tidegate::app {

namespace {

using telemetry::MetricType;

constexpr const char* kOpenFiles = "/proc/self/fd";

// Linux 6.2 and later state the number as the folder's size; with others it has to be counted.
std::optional<std::uint64_t> open_descriptors() {
    struct stat folder {};
    if (::stat(kOpenFiles, &folder) != 0) return std::nullopt;
    if (folder.st_size > 0) return static_cast<std::uint64_t>(folder.st_size);
    std::error_code ec;
    std::filesystem::directory_iterator files(kOpenFiles, ec);
    std::uint64_t count = 0;
    for (; !ec && files != std::filesystem::directory_iterator(); files.increment(ec)) ++count;
    if (ec || count == 0) return std::nullopt;
    return count - 1;  // one of them is the folder itself, which the iterator has open
}

std::string contents_of(const char* path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::optional<ProcessStat> read_process_stat(std::string_view text, long ticks_per_second,
                                             long page_bytes) {
    // The second field, the name of the program in brackets, may hold spaces and brackets.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(name_end + 1);
    // Those of proc(5) that follow, by their numbers there.
    constexpr std::size_t kFirst = 3, kUser = 14, kSystem = 15, kThreads = 20, kVirtual = 23,
                          kResident = 24;
    std::array<std::uint64_t, kResident + 1> fields{};
    for (std::size_t i = kFirst; i < fields.size(); ++i) {
        const std::size_t begin = text.find_first_not_of(' ');
        if (begin == std::string_view::npos) return std::nullopt;
        text.remove_prefix(begin);
        const std::string_view field = text.substr(0, text.find_first_of(" \n"));
        text.remove_prefix(field.size());
        const bool is_wanted = i == kUser || i == kSystem || i >= kThreads;
        const auto [end, fault] =
            std::from_chars(field.data(), field.data() + field.size(), fields[i]);
        if (is_wanted && (fault != std::errc{} || end != field.data() + field.size())) {
            return std::nullopt;
        }
    }
    return ProcessStat{
        .cpu_seconds = static_cast<double>(fields[kUser] + fields[kSystem]) /
                       static_cast<double>(ticks_per_second),
        .threads = fields[kThreads],
        .virtual_bytes = fields[kVirtual],
        .resident_bytes = fields[kResident] * static_cast<std::uint64_t>(page_bytes)};
}

void ThreadClock::begin() {
    clockid_t clock{};
    if (::pthread_getcpuclockid(::pthread_self(), &clock) != 0) return;
    clock_.store(clock, std::memory_order_relaxed);
}

std::optional<std::chrono::nanoseconds> ThreadClock::used() const {
    const clockid_t clock = clock_.load(std::memory_order_relaxed);
    timespec used{};
    // The clock names the thread by its number; that of an ended thread is refused.
    if (clock == CLOCK_REALTIME || ::clock_gettime(clock, &used) != 0) return std::nullopt;
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void write_process_metrics(telemetry::Exposition& out,
                           std::chrono::system_clock::time_point started) {
    const auto gauge = [&](std::string_view name, std::string_view help) {
        return out.family({.name = name, .type = MetricType::gauge, .help = help});
    };
    gauge("process_start_time_seconds", "When the process started, in Unix time")
        .add({}, std::chrono::duration<double>(started.time_since_epoch()).count());
    const auto cpu = out.family(
        {.name = "process_cpu_seconds_total", .help = "Processor time of all threads, in seconds"});
    const auto threads = gauge("process_threads", "Threads of the process");
    const auto addresses =
        gauge("process_virtual_memory_bytes", "Addresses that the process has taken");
    const auto memory = gauge("process_resident_memory_bytes", "Memory that the process occupies");
    if (const auto stat = read_process_stat(contents_of("/proc/self/stat"), ::sysconf(_SC_CLK_TCK),
                                            ::sysconf(_SC_PAGESIZE))) {
        cpu.add({}, stat->cpu_seconds);
        threads.add({}, stat->threads);
        addresses.add({}, stat->virtual_bytes);
        memory.add({}, stat->resident_bytes);
    }
    const auto open_files =
        gauge("process_open_fds", "Open file descriptors, connections included");
    if (const auto open = open_descriptors()) open_files.add({}, *open);
    const auto files_max =
        gauge("process_max_fds", "How many file descriptors the process may have open");
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) files_max.add({}, files.rlim_cur);
}

void write_thread_metrics(telemetry::Exposition& out, telemetry::Threads<ThreadClock> clocks) {
    const auto cpu =
        out.family({.name = "tidegate_thread_cpu_seconds_total",
                    .help = "Processor time of a thread that serves requests, in seconds",
                    .labels = {{.name = "thread", .note = "from 0"}},
                    .note = "A thread that is far above the others has a few busy connections."});
    for (std::size_t i = 0; i < clocks.size(); ++i) {
        if (const auto used = clocks[i]->used()) {
            cpu.add({std::to_string(i)}, std::chrono::duration<double>(*used).count());
        }
    }
}

}  // namespace tidegate::app

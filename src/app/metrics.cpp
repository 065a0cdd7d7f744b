#include "app/metrics.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "telemetry/metric_members.hpp"

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
    // The numbers of the fields in proc(5).
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

namespace {

using telemetry::MetricType;

BOOST_DEFINE_FIXED_ENUM_CLASS(FetchResult, std::uint8_t, ok, failed)

void write_keys(telemetry::Exposition& out, const Gauges& gauges) {
    const auto fetches = out.family({.name = "tidegate_jwks_fetches_total",
                                     .help = "Fetches of key sets (JWKS)",
                                     .labels = {telemetry::label_of<FetchResult>("result")}});
    fetches.add({to_string(FetchResult::ok)}, gauges.jwks_fetches_ok);
    fetches.add({to_string(FetchResult::failed)}, gauges.jwks_fetches_failed);
    const std::vector<telemetry::MetricLabel> url{{.name = "url", .note = "without its query"}};
    const auto keys = out.family({.name = "tidegate_jwks_keys",
                                  .type = MetricType::gauge,
                                  .help = "Keys in a fetched key set",
                                  .labels = url});
    const auto age = out.family({.name = "tidegate_jwks_age_seconds",
                                 .type = MetricType::gauge,
                                 .help = "Seconds since the key set was last fetched",
                                 .labels = url});
    for (const Gauges::KeyPlace& place : gauges.jwks) {
        keys.add({place.url}, place.keys);
        if (place.age) age.add({place.url}, place.age->count());
    }
}

void write_certificates(telemetry::Exposition& out, const Gauges& gauges) {
    const auto expiry = out.family(
        {.name = "tidegate_certificate_expiry_timestamp_seconds",
         .type = MetricType::gauge,
         .help = "When a certificate that Tidegate shows expires, in Unix time",
         .labels = {{.name = "name", .note = "the certificate's first name"}},
         .note = "Of certificates with the same first name, that of the one that expires first."});
    for (const Gauges::CertificateExpiry& one : gauges.certificate_expiry) {
        // Whole seconds, as certificates have them.
        const auto until = std::chrono::floor<std::chrono::seconds>(one.until.time_since_epoch());
        expiry.add({one.name}, until.count());
    }
}

void write_traces(telemetry::Exposition& out, const std::optional<TracedSpans>& spans) {
    constexpr std::string_view kNote = "With [`tracing`](tracing.md) only.";
    const auto exported = out.family({.name = "tidegate_trace_spans_exported_total",
                                      .help = "Spans that the collector has taken",
                                      .note = kNote});
    const auto dropped =
        out.family({.name = "tidegate_trace_spans_dropped_total",
                    .help = "Spans of traced requests that were not exported, by reason",
                    .labels = {{.name = "reason",
                                .values = kEnumNames<SpanDrop>,
                                .notes = kSpanDropNotes.values()}},
                    .note = kNote});
    if (!spans) return;
    exported.add({}, spans->exported);
    for (const SpanDrop reason : kEnumerators<SpanDrop>) {
        dropped.add({to_string(reason)}, spans->dropped[static_cast<std::size_t>(reason)]);
    }
}

}  // namespace

MetricsRegistry::MetricsRegistry(const telemetry::MetricNames& names, std::size_t workers,
                                 std::string version)
    : version_(std::move(version)) {
    telemetry::NameRegistry first;
    first.admit(names);
    names_max_ = std::max(kNamesMax, first.size());
    for (std::size_t i = 0; i < workers; ++i) {
        workers_.push_back(std::make_unique<WorkerMetrics>(names_max_));
    }
    admit(names);
}

Result<telemetry::MetricSlots, std::string> MetricsRegistry::admit(
    const telemetry::MetricNames& names) {
    const std::lock_guard lock(mutex_);
    telemetry::NameRegistry grown = names_;
    telemetry::MetricSlots slots = grown.admit(names);
    if (grown.size() > names_max_) {
        return "routes, upstreams and limits have had " + std::to_string(grown.size()) +
               " names since the start, and there are metrics for " + std::to_string(names_max_) +
               " at most: restart Tidegate to drop the old names";
    }
    for (const auto& worker : workers_) {
        worker->proxy.grow(grown.routes.size());
        worker->ask.grow(grown.decisions.size());
        worker->upstream.grow(grown.upstreams.size());
    }
    names_ = std::move(grown);
    while (live_policies_.slots() < names_.decisions.size()) {
        const telemetry::DecisionName& name = names_.decisions[live_policies_.slots()];
        live_policies_.add({name.policy, name.shadow});
    }
    for (std::size_t i = 0; i < names.policies.size(); ++i) {
        const std::size_t slot = slots.decision(i, 0);
        const auto unit = names.policies[i].cost_unit;
        if (unit && slot != telemetry::kNoSlot) live_policies_.set_unit(slot, *unit);
    }
    return slots;
}

WorkerMetrics& MetricsRegistry::worker(std::size_t index) {
    assert(index < workers_.size());
    return *workers_[index];
}

bool MetricsRegistry::store_is_up() const {
    return std::none_of(workers_.begin(), workers_.end(), [](const auto& worker) {
        return worker->store.state.get() == store::StoreState::down;
    });
}

std::string MetricsRegistry::serialize(const Gauges& gauges) const {
    telemetry::Exposition out;
    write(out, gauges);
    return out.text();
}

void MetricsRegistry::write(telemetry::Exposition& out, const Gauges& gauges) const {
    const std::lock_guard lock(mutex_);
    proxy::Metrics::write(out, all(&WorkerMetrics::proxy), names_);
    ask::Metrics::write(out, all(&WorkerMetrics::ask), names_);
    faces::Metrics::write(out, all(&WorkerMetrics::faces));
    store::Metrics::write(out, all(&WorkerMetrics::store));
    store::write_timeout(out, gauges.store_timeout);
    store::write_metrics(out, gauges.memory_store);
    upstream::Metrics::write(out, all(&WorkerMetrics::upstream), names_.upstreams);
    upstream::write_metrics(out, gauges.upstreams);
    client::Metrics::write(out, all(&WorkerMetrics::client));
    write_keys(out, gauges);
    write_certificates(out, gauges);
    write_thread_metrics(out, all(&WorkerMetrics::clock));
    write_traces(out, gauges.traced_spans);
    write_process(out, gauges);
}

telemetry::LiveTotals MetricsRegistry::live_totals() const {
    const std::lock_guard lock(mutex_);
    telemetry::LiveTotals totals;
    proxy::Metrics::add_to(totals, all(&WorkerMetrics::proxy), names_.routes);
    ask::Metrics::add_to(totals, all(&WorkerMetrics::ask), live_policies_);
    for (const auto& worker : workers_) {
        totals.store_failures += worker->store.failures.sum();
        totals.upstream_failures += worker->upstream.failures();
    }
    return totals;
}

std::uint64_t MetricsRegistry::client_connections() const {
    return client::Metrics::open(all(&WorkerMetrics::client));
}

std::int64_t MetricsRegistry::leased_units() const {
    std::int64_t units = 0;
    for (const auto& worker : workers_) units += worker->store.lease_held.get();
    return units;
}

std::uint64_t MetricsRegistry::upstream_connections() const {
    return upstream::Metrics::open(all(&WorkerMetrics::upstream));
}

template <class Room>
std::vector<const Room*> MetricsRegistry::all(Room WorkerMetrics::*room) const {
    std::vector<const Room*> found;
    for (const auto& worker : workers_) found.push_back(&(worker.get()->*room));
    return found;
}

void MetricsRegistry::write_process(telemetry::Exposition& out, const Gauges& gauges) const {
    const ProcessFigures* const process = &gauges.process;
    telemetry::write_members<ProcessFigures>(out, telemetry::Threads<ProcessFigures>(&process, 1));
    out.family({.name = "tidegate_build_info",
                .type = MetricType::gauge,
                .help = "The program; always 1",
                .labels = {{.name = "version"}}})
        .add({version_}, 1);
    write_process_metrics(out, started_);
}

std::vector<telemetry::MetricInfo> all_metrics() {
    telemetry::Exposition out;
    MetricsRegistry({}, 0, TIDEGATE_VERSION).write(out, {});
    return out.metrics();
}

}  // namespace tidegate::app

#include "app/access_logs_trace_exporter.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/process.hpp"
#include "net/task.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

std::shared_ptr<telemetry::AccessLog> AccessLogs::find(const config::LogSettings& settings) const {
    const auto known = std::find_if(logs_.begin(), logs_.end(), [&](const Open& one) {
        return one.path == settings.access_path;
    });
    return known == logs_.end() ? nullptr : known->log;
}

std::shared_ptr<telemetry::AccessLog> AccessLogs::make(const config::LogSettings& settings,
                                                       std::size_t threads) {
    return std::make_shared<telemetry::AccessLog>(
        telemetry::AccessLog::Options{.path = settings.access_path,
                                      .format = settings.access_format,
                                      .sample = settings.sample},
        threads);
}

void AccessLogs::add(const config::LogSettings& settings,
                     std::shared_ptr<telemetry::AccessLog> log) {
    logs_.push_back({settings.access_path, std::move(log)});
}

std::shared_ptr<telemetry::AccessLog> AccessLogs::open(const config::LogSettings& settings) {
    if (settings.access_path.empty()) return nullptr;
    auto log = find(settings);
    if (!log) {
        log = make(settings, threads_);
        add(settings, log);
    }
    return log;
}

void AccessLogs::use(const std::shared_ptr<telemetry::AccessLog>& log,
                     const config::LogSettings& settings) {
    if (log) log->change_lines(settings.access_format, settings.sample);
    in_force_ = log;
}

void AccessLogs::reopen() {
    for (const Open& one : logs_) one.log->reopen();
}

void AccessLogs::sweep() {
    std::erase_if(ending_, [](const std::future<void>& end) {
        return end.wait_for(std::chrono::seconds{0}) != std::future_status::timeout;
    });
    std::erase_if(logs_, [this](Open& one) {
        // Only find() hands it out again, on this thread.
        if (one.log.use_count() > 1) return false;
        dropped_before_ += one.log->dropped();
        // On a thread of its own, or with the future where the system has none.
        ending_.push_back(std::async([log = std::move(one.log)]() mutable { log.reset(); }));
        return true;
    });
}

std::uint64_t AccessLogs::dropped() const {
    std::uint64_t sum = dropped_before_;
    for (const Open& one : logs_) sum += one.log->dropped();
    return sum;
}

namespace {

bool is_worth_another_try(const HttpAnswer& answer) {
    constexpr int kTooManyRequests = 429;
    constexpr int kBadGateway = 502;
    constexpr int kGatewayTimeout = 504;
    // A collector that is late may have taken the batch.
    if (answer.status == 0) return !answer.may_have_been_taken();
    return answer.status == kTooManyRequests ||
           (answer.status >= kBadGateway && answer.status <= kGatewayTimeout);
}

}  // namespace

TraceExporter::TraceExporter(Options options, telemetry::TraceQueue& queue)
    : options_(std::move(options)),
      queue_(queue),
      collector_(io_.get_executor(), options_.url, options_.tls, options_.header_lines),
      pause_(io_),
      retry_(io_),
      batch_(options_.resource) {
    queue_.on_much([this] {
        asio::post(io_, [this] {
            if (!must_wait_) pause_.cancel();
        });
    });
    spawn_vital(io_.get_executor(), run());
    thread_ = std::thread([this] {
        block_all_signals();
        io_.run();
        has_ended_.store(true, std::memory_order_release);
    });
}

void TraceExporter::begin_stop() {
    asio::post(io_, [this] {
        if (std::exchange(is_stopping_, true)) return;
        stop_until_ = steady_now() + options_.stop_patience;
        pause_.cancel();
        retry_.cancel();
    });
}

void TraceExporter::stop() {
    if (!thread_.joinable()) return;
    begin_stop();
    thread_.join();
}

TracedSpans TraceExporter::spans() const {
    TracedSpans spans;
    spans.exported = exported_.value();
    for (std::size_t i = 0; i < spans.dropped.size(); ++i) {
        const auto reason = static_cast<SpanDrop>(i);
        spans.dropped[i] =
            reason == SpanDrop::queue_full ? queue_.dropped() : dropped_[reason].value();
    }
    return spans;
}

Task<> TraceExporter::run() {
    for (bool is_last = false; !is_last;) {
        if (!is_stopping_) {
            pause_.expires_after(options_.flush_every);
            co_await pause_.async_wait(as_values);
        }
        is_last = is_stopping_;
        try {
            co_await flush();
        } catch (const std::exception&) {
            // Memory may be short: a line in the log could fail as well.
            dropped_[SpanDrop::unreachable].add(batch_.spans() + (next_ ? next_->spans() : 0));
            next_.reset();
            batch_.clear();
            collector_.close();
            must_wait_ = true;
        }
    }
    drop_all_that_is_left();
    collector_.close();
}

// Until the queue is empty, or the collector takes no more.
Task<> TraceExporter::flush() {
    for (bool goes_on = true; goes_on;) {
        report_full_queue();
        if (is_stopping_ && steady_now() >= stop_until_) co_return;
        fill_batch();
        if (batch_.spans() == 0) co_return;
        goes_on = co_await deliver();
        must_wait_ = !goes_on;
        batch_.clear();
    }
}

void TraceExporter::fill_batch() {
    while (next_ || (next_ = queue_.take())) {
        const std::size_t spans = batch_.spans() + next_->spans();
        if (batch_.spans() > 0 && spans > kBatchSpans) return;
        batch_.add(*next_);
        next_.reset();
    }
}

// False: the exporter must not ask the collector again at once.
Task<bool> TraceExporter::deliver() {
    const std::string& json = batch_.finish();
    for (bool is_first = true;; is_first = false) {
        const HttpAnswer answer = co_await collector_.post(json, end_of_try());
        if (answer.is_success()) {
            count_taken(answer.body);
            co_return true;
        }
        const SpanDrop reason = answer.status == 0 ? SpanDrop::unreachable : SpanDrop::refused;
        const bool is_over = is_stopping_ && steady_now() >= stop_until_;
        if (!is_first || is_over || !is_worth_another_try(answer)) {
            drop(reason, batch_.spans(),
                 answer.status == 0 ? answer.fault_text("the spans")
                                    : fmt::format("it answered {}", answer.status));
            co_return false;
        }
        if (is_stopping_) continue;
        const std::chrono::milliseconds asked =
            answer.retry_after ? *answer.retry_after : options_.retry_pause;
        retry_.expires_after(std::min(asked, options_.retry_after_max));
        co_await retry_.async_wait(as_values);
    }
}

SteadyTime TraceExporter::end_of_try() const {
    const SteadyTime end = steady_now() + options_.patience;
    return is_stopping_ ? std::min(end, stop_until_) : end;
}

void TraceExporter::count_taken(const std::string& answer) {
    const std::uint64_t spans = batch_.spans();
    const std::uint64_t rejected = std::min(telemetry::rejected_spans(answer), spans);
    exported_.add(spans - rejected);
    if (rejected > 0) {
        drop(SpanDrop::rejected, rejected, "it took a batch but not all spans of it");
    }
}

void TraceExporter::drop(SpanDrop reason, std::uint64_t spans, const std::string& why) {
    dropped_[reason].add(spans);
    if (!log_interval_.is_due(steady_now())) return;
    telemetry::log(telemetry::Level::warn,
                   "tracing: the collector at {} has not taken {} spans: {}. Counted in "
                   "tidegate_trace_spans_dropped_total; logged once a minute",
                   options_.url.shown(), spans, why);
}

void TraceExporter::drop_all_that_is_left() {
    std::uint64_t spans = 0;
    while (next_ || (next_ = queue_.take())) {
        spans += next_->spans();
        next_.reset();
    }
    if (spans > 0) drop(SpanDrop::stopped, spans, "Tidegate stops to send to it");
}

void TraceExporter::report_full_queue() {
    const std::uint64_t dropped = queue_.dropped();
    if (std::exchange(full_before_, dropped) == dropped || !log_interval_.is_due(steady_now()))
        return;
    telemetry::log(telemetry::Level::warn,
                   "tracing: spans come faster than the collector at {} takes them, and the queue "
                   "is full: {} dropped so far. Counted in tidegate_trace_spans_dropped_total; "
                   "logged once a minute",
                   options_.url.shown(), dropped);
}

namespace {

void add_spans(const TracedSpans& spans, TracedSpans& to) {
    to.exported += spans.exported;
    for (std::size_t i = 0; i < to.dropped.size(); ++i) to.dropped[i] += spans.dropped[i];
}

}  // namespace

std::shared_ptr<telemetry::TraceQueue> TraceExporters::open(const config::Config& config) {
    if (!config.tracing) return nullptr;
    has_traced_ = true;
    const config::Tracing& settings = *config.tracing;
    const auto known = std::find_if(open_.begin(), open_.end(), [&](const Open& one) {
        return one.settings == settings && !one.is_ending;
    });
    if (known != open_.end()) return known->queue;
    auto queue = std::make_shared<telemetry::TraceQueue>(
        telemetry::TraceQueue::Options{.sample = settings.sample,
                                       .keep_failed = settings.keep_failed,
                                       .keep_limited = settings.keep_limited,
                                       .spans = settings.queue},
        threads_);
    auto exporter = std::make_unique<TraceExporter>(
        TraceExporter::Options{.url = settings.otlp,
                               .tls = settings.tls,
                               .header_lines = settings.header_lines,
                               .resource = {settings.service, std::string(kVersion), instance_}},
        *queue);
    open_.push_back({settings, queue, std::move(exporter)});
    return queue;
}

bool TraceExporters::sweep() {
    for (Open& one : open_) {
        // Only open() hands the queue out again, on this thread.
        if (one.is_ending || one.queue.use_count() > 1) continue;
        one.is_ending = true;
        one.exporter->begin_stop();
    }
    std::erase_if(open_, [this](const Open& one) {
        if (!one.is_ending || !one.exporter->has_ended()) return false;
        add_spans(one.exporter->spans(), before_);
        return true;
    });
    return std::any_of(open_.begin(), open_.end(), [](const Open& one) { return one.is_ending; });
}

void TraceExporters::fill_in(Gauges& gauges) const {
    if (!has_traced_) return;
    TracedSpans sum = before_;
    for (const Open& one : open_) add_spans(one.exporter->spans(), sum);
    gauges.traced_spans = sum;
}

}  // namespace tidegate::app

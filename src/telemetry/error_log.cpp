#include "telemetry/error_log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "base/process.hpp"
#include "base/utf8.hpp"

namespace tidegate::telemetry {

namespace {

constexpr std::size_t kQueuedLinesMax = 1024;
constexpr std::chrono::milliseconds kFlushPatience{1'000};

// Writes to standard error, without checks: the program has no other place to report a failure to.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
  public:
    // Returns how many flushes the writer has done.
    std::uint64_t flushes() {
        const std::lock_guard lock(flush_mutex_);
        return flushes_;
    }
    // Returns false when no flush beyond the first `seen` came in time.
    bool wait_for_flush(std::uint64_t seen, std::chrono::milliseconds patience) {
        std::unique_lock lock(flush_mutex_);
        return flushed_.wait_for(lock, patience, [&] { return flushes_ > seen; });
    }

  private:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        std::size_t written = 0;
        while (written < line.size()) {
            const ssize_t n = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return;
            written += static_cast<std::size_t>(n);
        }
    }
    void flush_() override {
        {
            const std::lock_guard lock(flush_mutex_);
            ++flushes_;
        }
        flushed_.notify_all();
    }

    std::mutex flush_mutex_;
    std::condition_variable flushed_;
    std::uint64_t flushes_ = 0;
};

struct ErrorLog {
    ErrorLog() {
        logger->set_level(spdlog::level::trace);  // log_enabled() has decided
        logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
            "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
    }

    std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
    std::shared_ptr<spdlog::details::thread_pool> writer =
        std::make_shared<spdlog::details::thread_pool>(kQueuedLinesMax, 1, block_all_signals);
    std::shared_ptr<spdlog::async_logger> logger = std::make_shared<spdlog::async_logger>(
        "tidegate", sink, writer, spdlog::async_overflow_policy::overrun_oldest);
};

std::atomic<ErrorLog*> error_log{nullptr};

// The program never destroys it: other statics may log while the program destroys them.
ErrorLog& the_error_log() {
    static ErrorLog* const log = [] {
        auto* const made = new ErrorLog;
        error_log.store(made, std::memory_order_release);
        return made;
    }();
    return *log;
}

std::atomic<Level> log_level{Level::info};

spdlog::level::level_enum spdlog_level(Level level) {
    switch (level) {
        case Level::debug:
            return spdlog::level::debug;
        case Level::info:
            return spdlog::level::info;
        case Level::warn:
            return spdlog::level::warn;
        case Level::error:
            break;
    }
    return spdlog::level::err;
}

}  // namespace

void set_log_level(Level level) {
    log_level.store(level, std::memory_order_relaxed);
}

bool log_enabled(Level level) {
    return level >= log_level.load(std::memory_order_relaxed);
}

void log_line(Level level, std::string_view message) {
    if (!log_enabled(level)) return;
    // A message may contain text of a peer, which must not make lines of its own.
    the_error_log().logger->log(spdlog_level(level), spdlog::string_view_t{displayable(message)});
}

void flush_log() {
    ErrorLog* const log = error_log.load(std::memory_order_acquire);
    if (log == nullptr) return;  // the program has logged nothing: it needs no thread to flush
    const std::uint64_t seen = log->sink->flushes();
    log->logger->flush();
    log->sink->wait_for_flush(seen, kFlushPatience);
}

std::uint64_t RepeatedFailures::note(std::string_view kind, Time now) {
    const std::lock_guard lock(mutex_);
    auto found = kinds_.find(kind);
    if (found == kinds_.end()) {
        make_room();
        found = kinds_.emplace(kind, Repeats{now, 0, false}).first;
    }
    Repeats& one = found->second;
    ++one.untold;
    if (now < one.due) return 0;
    one.due = now + kEvery;
    one.was_told = true;
    return std::exchange(one.untold, 0);
}

bool RepeatedFailures::recovered(std::string_view kind) {
    const std::lock_guard lock(mutex_);
    const auto found = kinds_.find(kind);
    return found != kinds_.end() && std::exchange(found->second.was_told, false);
}

// Forgets the kind whose last line is the oldest.
void RepeatedFailures::make_room() {
    if (kinds_.size() < kKindsMax) return;
    kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) {
        return a.second.due < b.second.due;
    }));
}

RepeatedFailures& repeated_failures() {
    static RepeatedFailures failures;
    return failures;
}

std::string times_text(std::uint64_t times) {
    return times > 1 ? fmt::format(" ({} times since the last such line)", times) : std::string();
}

}  // namespace tidegate::telemetry

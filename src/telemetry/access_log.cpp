#include "telemetry/access_log.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "base/process.hpp"
#include "telemetry/byte_ring.hpp"
#include "telemetry/log_line.hpp"
#include "telemetry/log_output.hpp"

namespace tidegate::telemetry {

namespace {

constexpr int kFlushPeriodMs = 50;

// Wakes the writer from any thread; a wake-up that comes before the wait is not lost.
class WakeUp {
  public:
    WakeUp() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    ~WakeUp() { ::close(fd_); }
    WakeUp(const WakeUp&) = delete;
    WakeUp& operator=(const WakeUp&) = delete;

    void signal() {
        // One system call however many threads ask; a full counter is a wake-up as well.
        if (signalled_.load(std::memory_order_relaxed) || signalled_.exchange(true)) return;
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t n = ::write(fd_, &one, sizeof one);
    }
    void wait(int timeout_ms) {
        pollfd wanted{fd_, POLLIN, 0};
        if (::poll(&wanted, 1, timeout_ms) <= 0) return;
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t n = ::read(fd_, &count, sizeof count);
        signalled_.store(false);
    }

  private:
    int fd_;
    std::atomic<bool> signalled_{false};
};

// What belongs to one thread that writes records.
struct alignas(64) Producer {
    Producer(std::size_t ring_bytes, std::uint64_t seed) : ring(ring_bytes), random(seed) {}

    // Marsaglia's xorshift64*: quick, and good enough to choose lines by.
    std::uint64_t next_random() {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        return random * 0x2545f4914f6cdd1dULL;
    }

    ByteRing ring;
    std::uint64_t random;  // never zero
    std::atomic<std::uint64_t> dropped{0};
    LogLineFormatter formatter;
};

// The share as a bound of random 53-bit numbers.
std::uint64_t sample_bound(double share) {
    constexpr double kAll = 9007199254740992.0;  // 2^53
    if (!(share > 0.0)) return 0;
    return share >= 1.0 ? std::uint64_t{1} << 53 : static_cast<std::uint64_t>(share * kAll);
}

}  // namespace

struct AccessLog::Impl {
    Impl(const Options& options, std::size_t threads)
        : output(options.path),
          format(options.format),
          stop_patience(options.stop_patience),
          sample_below(sample_bound(options.sample)) {
        for (std::size_t i = 0; i < threads; ++i) {
            producers.push_back(
                std::make_unique<Producer>(options.ring_bytes, 0x9e3779b97f4a7c15ULL * (i + 1)));
        }
    }

    bool is_chosen(Producer& producer, const RequestRecord& record) const {
        const bool went_on = record.outcome == Outcome::forwarded ||
                             record.outcome == Outcome::answered ||
                             record.outcome == Outcome::redirected;
        if (!went_on || !record.error.empty()) return true;
        return producer.next_random() >> 11 < sample_below.load(std::memory_order_relaxed);
    }

    // The writer thread.
    void run() {
        for (;;) {
            wake_up.wait(kFlushPeriodMs);
            const bool last_round = stop.load(std::memory_order_acquire);
            if (reopen_asked.exchange(false)) output.reopen();
            for (const auto& producer : producers) {
                const auto lines = producer->ring.peek();
                lost.fetch_add(output.write(lines), std::memory_order_relaxed);
                producer->ring.pop(lines[0].size() + lines[1].size());
            }
            if (last_round) return;
        }
    }

    LogOutput output;
    std::atomic<LogFormat> format;
    const std::chrono::milliseconds stop_patience;
    std::atomic<std::uint64_t> sample_below;
    std::vector<std::unique_ptr<Producer>> producers;
    WakeUp wake_up;
    std::atomic<bool> stop{false};
    std::atomic<bool> reopen_asked{false};
    std::atomic<std::uint64_t> lost{0};  // by the writer
    std::promise<void> done;
    std::thread writer;
};

AccessLog::AccessLog(const Options& options, std::size_t threads) {
    if (options.path.empty()) return;
    impl_ = std::make_shared<Impl>(options, threads);
    // The writer shares the state: it may be left behind, see the destructor.
    impl_->writer = std::thread([impl = impl_] {
        block_all_signals();
        impl->run();
        impl->done.set_value();
    });
}

AccessLog::~AccessLog() {
    if (!impl_) return;
    impl_->stop.store(true, std::memory_order_release);
    impl_->wake_up.signal();
    // The reader of our standard output may have stopped reading: then the writer is stuck in a
    // system call, and the program must end all the same.
    if (impl_->done.get_future().wait_for(impl_->stop_patience) == std::future_status::ready) {
        impl_->writer.join();
    } else {
        impl_->writer.detach();
    }
}

void AccessLog::write(std::size_t thread, const RequestRecord& record) {
    if (!impl_) return;
    assert(thread < impl_->producers.size());
    Producer& producer = *impl_->producers[thread];
    if (!impl_->is_chosen(producer, record)) return;
    const std::string_view line =
        producer.formatter.line(impl_->format.load(std::memory_order_relaxed), record);
    ByteRing& ring = producer.ring;
    if (!ring.push(line)) {
        producer.dropped.store(producer.dropped.load(std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
        impl_->wake_up.signal();
        return;
    }
    // The writer comes by itself; it is called only when that would be too late.
    const std::size_t worth_a_call = ring.capacity() / 4;
    if (ring.used_at_most() > worth_a_call && ring.used() > worth_a_call) impl_->wake_up.signal();
}

void AccessLog::change_lines(LogFormat format, double sample) {
    if (!impl_) return;
    impl_->format.store(format, std::memory_order_relaxed);
    impl_->sample_below.store(sample_bound(sample), std::memory_order_relaxed);
}

void AccessLog::reopen() {
    if (!impl_) return;
    impl_->reopen_asked.store(true);
    impl_->wake_up.signal();
}

std::uint64_t AccessLog::dropped() const {
    if (!impl_) return 0;
    std::uint64_t total = impl_->lost.load(std::memory_order_relaxed);
    for (const auto& producer : impl_->producers) {
        total += producer->dropped.load(std::memory_order_relaxed);
    }
    return total;
}

}  // namespace tidegate::telemetry

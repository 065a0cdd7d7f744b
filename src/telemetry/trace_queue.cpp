#include "telemetry/trace_queue.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace tidegate::telemetry {

namespace {

// Calls `visit` with each text of `record` and the row of its field.
template <class Visit>
void for_each_text(RequestRecord& record, Visit visit) {
    for (const RequestField& field : kRequestFields) {
        const auto* const member = std::get_if<std::string_view RequestRecord::*>(&field.member);
        if (member != nullptr) visit(record.**member, field);
    }
}

// Each thread has room for a request of many tries, however many threads share the queue.
constexpr std::size_t kShareMin = 32;

}  // namespace

void TraceRecord::set_request(const RequestRecord& from) {
    request = from;
    request.identifiers = {};  // `decide` has digests of them
    std::size_t bytes = 0;
    for_each_text(request, [&](std::string_view& text, const RequestField& field) {
        if (field.attribute.span == SpanName::none) text = {};
        bytes += text.size();
    });
    texts = std::make_unique_for_overwrite<char[]>(bytes);
    char* copy = texts.get();
    for_each_text(request, [&](std::string_view& text, const RequestField&) {
        char* const end = std::copy_n(text.data(), text.size(), copy);
        text = {copy, text.size()};
        copy = end;
    });
}

KeepRate::KeepRate(Rate rate)
    : emission_ns_(
          rate.quota == 0
              ? 0
              : std::max<std::int64_t>(1, std::chrono::nanoseconds(rate.per).count() / rate.quota)),
      burst_ns_(emission_ns_ * (rate.quota - 1)) {}

bool KeepRate::takes(Time now) {
    if (emission_ns_ == 0) return false;
    const std::int64_t at = now.time_since_epoch().count();
    std::int64_t due = due_.load(std::memory_order_relaxed);
    while (due == 0 || due - burst_ns_ <= at) {
        const std::int64_t next = (due == 0 ? at : std::max(due, at)) + emission_ns_;
        if (due_.compare_exchange_weak(due, next, std::memory_order_relaxed)) return true;
    }
    return false;
}

TraceQueue::TraceQueue(const Options& options, std::size_t threads)
    : sampler_(options.sample),
      failed_(options.keep_failed),
      limited_(options.keep_limited),
      share_(std::max(kShareMin, options.spans / std::max<std::size_t>(1, threads))) {
    for (std::size_t i = 0; i < threads; ++i) {
        producers_.push_back(std::make_unique<Producer>(share_));
    }
}

TraceQueue::~TraceQueue() {
    while (take()) {
    }
}

void TraceQueue::push(std::size_t thread, std::unique_ptr<TraceRecord> record) {
    Producer& producer = *producers_[thread];
    const std::uint64_t spans = record->spans();
    const std::uint64_t waiting = producer.pushed - producer.taken.load(std::memory_order_acquire);
    TraceRecord* const raw = record.get();
    const auto bytes = std::bit_cast<std::array<char, kPointerBytes>>(raw);
    if (waiting + spans > share_ || !producer.ring.push({bytes.data(), bytes.size()})) {
        producer.dropped.store(producer.dropped.load(std::memory_order_relaxed) + spans,
                               std::memory_order_relaxed);
        return;
    }
    static_cast<void>(record.release());  // NOLINT(bugprone-unused-return-value): the ring has it
    producer.pushed += spans;
    if (waiting + spans < share_ / 4 || !on_much_) return;
    if (!has_called_.load(std::memory_order_relaxed) && !has_called_.exchange(true)) on_much_();
}

std::unique_ptr<TraceRecord> TraceQueue::take() {
    has_called_.store(false, std::memory_order_relaxed);
    for (std::size_t i = 0; i < producers_.size(); ++i) {
        Producer& producer = *producers_[next_++ % producers_.size()];
        // The ring's capacity is a whole number of pointers, so the ring never splits one.
        const std::string_view waiting = producer.ring.peek()[0];
        if (waiting.empty()) continue;
        TraceRecord* raw = nullptr;
        std::memcpy(&raw, waiting.data(), kPointerBytes);
        producer.ring.pop(kPointerBytes);
        std::unique_ptr<TraceRecord> record(raw);
        producer.taken.fetch_add(record->spans(), std::memory_order_release);
        return record;
    }
    return nullptr;
}

std::uint64_t TraceQueue::dropped() const {
    std::uint64_t sum = 0;
    for (const auto& producer : producers_) {
        sum += producer->dropped.load(std::memory_order_relaxed);
    }
    return sum;
}

}  // namespace tidegate::telemetry

// What the in-process store counts as bytes, for the process that takes this one's place: the part
// of the store, and of its records, that writes and reads them.
//
// The bytes are a head, then for each identifier a text of its name and its records, with a hash of
// that text, and an empty text in the end. What has the right hash is as a store has written it, so
// that records need no check of their own. They hold no secret of the store and no position in it.
// A request in flight holds a slot in the process that serves it: that slot is left out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/secrets.hpp"
#include "store/counts_bytes.hpp"
#include "store/memory_store_impl.hpp"

namespace tidegate::store {

using limit::Micros;

namespace {

// Changes whenever the bytes mean something else.
constexpr std::string_view kHead = "tidegate counts 1\n";

constexpr std::size_t kBucketsAtOnce = 64;

// Against damage, not against people: the file comes from a process of our own.
std::uint64_t hash_of(std::string_view bytes) {
    return hash_text(bytes, 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f);
}

// Of weights, which are microseconds or infinite.
constexpr std::int64_t kInfinite = -1;

}  // namespace

template <class Label>
void WindowCount<Label>::save(CountsWriter& out) const {
    out.number(std::uint64_t{window_.base});
    out.number(std::uint64_t{window_.total});
    out.number(std::uint64_t{window_.newest});
    out.number(window_.ends_us);
    out.number(std::uint64_t{window_.marks});
    for (std::size_t i = 0; i < window_.marks; ++i) {
        const auto& mark = marks_[(window_.first + i) % window_.room];
        out.number(std::uint64_t{mark.total});
        out.number(std::uint64_t{mark.label});
    }
}

template <class Label>
void WindowCount<Label>::load(CountsReader& in) {
    window_ = {};
    window_.base = static_cast<std::uint32_t>(in.number());
    window_.total = static_cast<std::uint32_t>(in.number());
    window_.newest = static_cast<Label>(in.number());
    window_.ends_us = in.time_us();
    window_.marks = static_cast<std::uint16_t>(
        std::min<std::size_t>(in.count(16), std::numeric_limits<std::uint16_t>::max()));
    window_.room = window_.marks;
    marks_ = std::make_unique<limit::MarkOf<Label>[]>(window_.room);
    for (std::size_t i = 0; i < window_.marks; ++i) {
        marks_[i].total = static_cast<std::uint32_t>(in.number());
        marks_[i].label = static_cast<Label>(in.number());
    }
}

template void WindowCount<std::uint16_t>::save(CountsWriter&) const;
template void WindowCount<std::uint64_t>::save(CountsWriter&) const;
template void WindowCount<std::uint16_t>::load(CountsReader&);
template void WindowCount<std::uint64_t>::load(CountsReader&);

void BucketCount::save(CountsWriter& out) const {
    out.number(std::uint64_t{bucket_.parts_of});
    out.number(bucket_.tat_us);
    out.number(bucket_.parts);
    out.number(bucket_.last_us);
}

void BucketCount::load(CountsReader& in) {
    bucket_.parts_of = static_cast<std::uint32_t>(in.number());
    bucket_.tat_us = in.time_us();
    bucket_.parts = in.time_us();
    bucket_.last_us = in.time_us();
    if (bucket_.parts < 0 || bucket_.parts >= std::max<std::int64_t>(1, bucket_.parts_of)) {
        in.refuse();
    }
}

void PeriodCount::save(CountsWriter& out) const {
    out.number(count_.begins_us);
    out.number(count_.opened_us);
    out.number(std::uint64_t{count_.length_s});
    out.number(std::uint64_t{count_.left_ms});
    out.number(std::uint64_t{count_.units});
}

void PeriodCount::load(CountsReader& in) {
    count_.begins_us = in.time_us();
    count_.opened_us = in.time_us();
    count_.length_s = static_cast<std::uint32_t>(in.number());
    count_.left_ms = static_cast<std::uint32_t>(in.number());
    count_.units = static_cast<std::uint32_t>(in.number());
}

void MomentsCount::save(CountsWriter& out) const {
    out.number(newest_us_);
    out.number(ends_us_);
    out.number(std::uint64_t{moments_.size()});
    for (const std::int64_t moment : moments_) out.number(moment);
}

void MomentsCount::load(CountsReader& in) {
    newest_us_ = in.time_us();
    ends_us_ = in.time_us();
    moments_.resize(in.count(8));
    for (std::int64_t& moment : moments_) moment = in.time_us();
    if (!std::is_sorted(moments_.begin(), moments_.end())) in.refuse();
}

void SlotsCount::save(CountsWriter& out) const {
    out.number(std::uint64_t{kept_until_us_.size()});
    for (const std::int64_t until : kept_until_us_) out.number(until);
}

void SlotsCount::load(CountsReader& in) {
    kept_until_us_.resize(in.count(8));
    for (std::int64_t& until : kept_until_us_) until = in.time_us();
    if (!std::is_sorted(kept_until_us_.begin(), kept_until_us_.end())) in.refuse();
}

void Record::save(CountsWriter& out) const {
    out.number(std::uint64_t{id_});
    out.number(std::uint64_t{kind_.index()});
    out.number(std::isfinite(weight_) ? static_cast<std::int64_t>(weight_) : kInfinite);
    with([&](const auto& kind) { kind.save(out); });
}

std::optional<Record> Record::load(CountsReader& in) {
    const auto id = static_cast<std::uint32_t>(in.number());
    const std::uint64_t kind = in.number();
    if (kind > static_cast<std::uint64_t>(limit::StateKind::period)) return std::nullopt;
    const std::int64_t weight = in.time_us();
    Record record(id, static_cast<limit::StateKind>(kind));
    record.with([&](auto& one) { one.load(in); });
    record.weight_ =
        weight == kInfinite ? std::numeric_limits<float>::infinity() : static_cast<float>(weight);
    if (in.is_broken()) return std::nullopt;
    return record;
}

void MemoryStore::save(const std::function<void(std::string_view)>& put) const {
    put(kHead);
    CountsWriter one;
    CountsWriter out;
    for (std::size_t i = 0; i < impl_->shard_count; ++i) {
        Shard& shard = impl_->shards[i];
        bool goes_on = true;
        for (std::size_t bucket = 0; goes_on; bucket += kBucketsAtOnce) {
            out.clear();
            {
                const std::lock_guard lock(shard.mutex());
                goes_on = shard.visit(bucket, kBucketsAtOnce, [&](const State& state) {
                    one.clear();
                    one.text(state.name);
                    one.number(std::uint64_t{state.records.size()});
                    for (const Record& record : state.records) record.save(one);
                    out.text(one.bytes());
                    out.number(hash_of(one.bytes()));
                });
            }
            if (!out.bytes().empty()) put(out.bytes());
        }
    }
    out.clear();
    out.text({});
    put(out.bytes());
}

std::optional<std::size_t> MemoryStore::load(std::string_view bytes, const limit::Now& now) {
    if (!bytes.starts_with(kHead)) return std::nullopt;
    CountsReader all(bytes.substr(kHead.size()));
    std::size_t loaded = 0;
    for (;;) {
        const std::string_view one = all.text();
        if (one.empty()) break;
        if (all.number() != hash_of(one) || all.is_broken()) return std::nullopt;
        CountsReader in(one);
        const std::string_view whole = in.text();
        const std::size_t middle = whole.find('\0');
        std::vector<Record> records;
        std::int64_t expires_us = 0;
        for (std::size_t left = in.count(24); left > 0; --left) {
            auto record = Record::load(in);
            if (!record) return std::nullopt;
            expires_us = std::max(expires_us, record->ends_us(now));
            records.push_back(std::move(*record));
        }
        if (in.is_broken() || middle == std::string_view::npos) return std::nullopt;
        if (expires_us <= now.steady.count()) continue;
        if (impl_->put(whole.substr(0, middle), whole.substr(middle + 1), std::move(records),
                       expires_us, now)) {
            ++loaded;
        }
    }
    if (all.is_broken() || !all.is_at_end()) return std::nullopt;
    return loaded;
}

}  // namespace tidegate::store

#include "telemetry/top_and_denials.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <iterator>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/secrets.hpp"

namespace tidegate::telemetry {

namespace {

void reserve(CountedNames& copy, std::size_t names) {
    copy.names.reserve(names);
    copy.text.reserve(names * SpaceSaving::kNameBytesMax);
}

void copy_names(const SpaceSaving& from, std::size_t begin, std::size_t end, CountedNames& copy) {
    from.for_each(begin, end, [&](const SpaceSaving::Name& one) {
        copy.names.push_back({copy.text.size(), one.name.size(), one.count, one.error});
        copy.text += one.name;
    });
}

bool is_more_frequent(const FrequentName& a, const FrequentName& b) {
    return a.at_least != b.at_least ? a.at_least > b.at_least : a.name < b.name;
}

template <class Value>
void forget(Value& value) {
    value = Value();
}
void forget(DenialText& text) {
    text = std::string_view();  // and keeps its memory
}

}  // namespace

SpaceSaving::SpaceSaving(std::size_t names_max, std::uint64_t secret)
    : names_max_(names_max),
      secret_(secret | 1),
      slots_(std::bit_ceil(2 * names_max), kNone),
      counters_(std::make_unique_for_overwrite<Counter[]>(names_max)),
      buckets_(std::make_unique_for_overwrite<Bucket[]>(names_max)),
      names_(std::make_unique_for_overwrite<char[]>(names_max * kNameBytesMax)) {
    assert(names_max >= 1 && names_max <= kNamesMax);
}

void SpaceSaving::clear() {
    if (total_ == 0) return;
    std::fill(slots_.begin(), slots_.end(), kNone);
    size_ = buckets_begun_ = 0;
    free_bucket_ = least_ = kNone;
    total_ = 0;
}

void SpaceSaving::add(std::string_view name) {
    name = name.substr(0, kNameBytesMax);
    const auto hash = static_cast<std::uint32_t>(hash_text(name, secret_, secret_));
    ++total_;
    std::size_t slot = home_slot(hash);
    for (; slots_[slot] != kNone; slot = next_slot(slot)) {
        const Index counter = slots_[slot];
        if (counters_[counter].hash == hash && name_of(counter) == name) return raise(counter);
    }
    if (size_ < names_max_) {
        const auto counter = static_cast<Index>(size_++);
        counters_[counter].error = 0;
        name_counter(counter, name, hash, slot);
        return begin_at_one(counter);
    }
    const Index counter = buckets_[least_].first;
    remove_from_slots(counter);
    // The removal may have moved the free slot nearer.
    for (slot = home_slot(hash); slots_[slot] != kNone;) slot = next_slot(slot);
    counters_[counter].error = buckets_[least_].count;
    name_counter(counter, name, hash, slot);
    raise(counter);
}

void SpaceSaving::name_counter(Index counter, std::string_view name, std::uint32_t hash,
                               std::size_t slot) {
    counters_[counter].hash = hash;
    counters_[counter].bytes = static_cast<std::uint8_t>(name.size());
    if (!name.empty()) std::memcpy(&names_[counter * kNameBytesMax], name.data(), name.size());
    slots_[slot] = counter;
}

// Closes the gap: later entries of the same run move back, as far as their home slots allow.
void SpaceSaving::remove_from_slots(Index counter) {
    std::size_t gap = home_slot(counters_[counter].hash);
    while (slots_[gap] != counter) gap = next_slot(gap);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = next_slot(gap); slots_[slot] != kNone; slot = next_slot(slot)) {
        const std::size_t home = home_slot(counters_[slots_[slot]].hash);
        if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
        slots_[gap] = slots_[slot];
        gap = slot;
    }
    slots_[gap] = kNone;
}

void SpaceSaving::begin_at_one(Index counter) {
    if (least_ == kNone || buckets_[least_].count != 1) {
        least_ = insert_bucket(1, kNone, least_);
    }
    attach(counter, least_);
}

void SpaceSaving::raise(Index counter) {
    const Index from = counters_[counter].bucket;
    const std::uint32_t count = buckets_[from].count + 1;
    const Index higher = buckets_[from].higher;
    const bool is_alone = counters_[counter].before == kNone && counters_[counter].after == kNone;
    const bool is_there = higher != kNone && buckets_[higher].count == count;
    if (is_alone && !is_there) {
        buckets_[from].count = count;
        return;
    }
    detach(counter);
    if (is_there) {
        if (is_alone) remove_bucket(from);
        attach(counter, higher);
    } else {
        attach(counter, insert_bucket(count, from, higher));
    }
}

void SpaceSaving::attach(Index counter, Index bucket) {
    const Index after = buckets_[bucket].first;
    counters_[counter].bucket = bucket;
    counters_[counter].before = kNone;
    counters_[counter].after = after;
    if (after != kNone) counters_[after].before = counter;
    buckets_[bucket].first = counter;
}

void SpaceSaving::detach(Index counter) {
    const Counter& one = counters_[counter];
    if (one.before != kNone) {
        counters_[one.before].after = one.after;
    } else {
        buckets_[one.bucket].first = one.after;
    }
    if (one.after != kNone) counters_[one.after].before = one.before;
}

SpaceSaving::Index SpaceSaving::insert_bucket(std::uint32_t count, Index lower, Index higher) {
    Index bucket = free_bucket_;
    if (bucket != kNone) {
        free_bucket_ = buckets_[bucket].higher;
    } else {
        // No bucket is empty, so there are never more than counters.
        assert(buckets_begun_ < names_max_);
        bucket = static_cast<Index>(buckets_begun_++);
    }
    buckets_[bucket] = {count, kNone, lower, higher};
    if (lower != kNone) buckets_[lower].higher = bucket;
    if (higher != kNone) buckets_[higher].lower = bucket;
    return bucket;
}

void SpaceSaving::remove_bucket(Index bucket) {
    const Bucket& one = buckets_[bucket];
    if (one.lower != kNone) {
        buckets_[one.lower].higher = one.higher;
    } else {
        least_ = one.higher;
    }
    if (one.higher != kNone) buckets_[one.higher].lower = one.lower;
    buckets_[bucket].higher = free_bucket_;
    free_bucket_ = bucket;
}

void TopNames::begin_generation(Time now) {
    const Time begins{now.time_since_epoch() - now.time_since_epoch() % kGeneration};
    // If no generation lies between, the present counts become those of the generation before.
    if (begins == ends_) {
        std::swap(current_, former_);
    } else {
        former_.clear();
    }
    current_.clear();
    ends_ = begins + kGeneration;
}

bool TopNames::copy_piece(NamesCopy& copy, Time now) {
    if (now >= ends_) begin_generation(now);
    if (copy.ends != ends_) {
        copy = {};
        copy.ends = ends_;
    }
    for (std::size_t room = kPieceNames; copy.generation < copy.generations.size();) {
        const SpaceSaving& from = copy.generation == 0 ? former_ : current_;
        CountedNames& to = copy.generations[copy.generation];
        if (copy.next == 0) reserve(to, from.names_max());
        const std::size_t end = std::min(copy.next + room, from.size());
        copy_names(from, copy.next, end, to);
        room -= end - copy.next;
        copy.next = end;
        if (end < from.size()) return false;
        to.total = from.total();
        to.missed_max = from.missed_max();
        to.names_max = from.names_max();
        copy.next = 0;
        ++copy.generation;
    }
    return true;
}

std::chrono::seconds TopNames::reach(Time now, Time began) {
    const auto in_generation = now.time_since_epoch() % kGeneration;
    return std::chrono::duration_cast<std::chrono::seconds>(
        std::min<Time::duration>(in_generation + kGeneration, now - began));
}

TopList merge(std::span<const CountedNames> parts, std::size_t length) {
    struct Sums {
        std::uint64_t at_least = 0;
        std::uint64_t error = 0;
        std::uint64_t not_missed = 0;        // the `missed_max` of the parts that list the name
        const CountedNames* part = nullptr;  // the last part that lists the name
        CountedNames::Name last;             // what that part says of it
    };
    TopList list;
    std::uint64_t missed = 0;
    std::unordered_map<std::string_view, Sums> sums;
    for (const CountedNames& part : parts) {
        list.total += part.total;
        missed += part.missed_max;
        for (const CountedNames::Name& one : part.names) {
            Sums& of = sums[part.name_of(one)];
            if (of.part == &part) {
                of.at_least -= of.last.count - of.last.error;
                of.error -= of.last.error;
            } else {
                of.not_missed += part.missed_max;
            }
            of.at_least += one.count - one.error;
            of.error += one.error;
            of.part = &part;
            of.last = one;
        }
    }
    list.error_max = missed;
    for (const auto& [name, of] : sums) {
        // A part that does not list the name may have missed it.
        list.names.push_back({std::string(name), of.at_least, of.error + (missed - of.not_missed)});
    }
    const std::size_t kept = std::min(length, list.names.size());
    std::partial_sort(list.names.begin(), list.names.begin() + static_cast<std::ptrdiff_t>(kept),
                      list.names.end(), is_more_frequent);
    list.names.resize(kept);
    return list;
}

bool DenialLog::admits(std::string_view identifier, Time now) {
    constexpr std::chrono::seconds kSecond{1};
    if (now >= ends_) {
        ends_ = now + kSecond;
        identifiers_ = kept_in_all_ = 0;
    }
    if (kept_in_all_ == kDenialsPerSecond) {
        ++left_out_;
        return false;
    }
    const std::uint64_t hash = hash_text(identifier, secret_, secret_);
    const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(identifiers_);
    auto found =
        std::find_if(kept_.begin(), end, [&](const Kept& one) { return one.hash == hash; });
    if (found == end) {
        *found = {hash, 0};
        ++identifiers_;
    }
    if (found->times == kDenialsPerIdentifierPerSecond) {
        ++left_out_;
        return false;
    }
    ++found->times;
    ++kept_in_all_;
    return true;
}

Denial& DenialLog::keep(std::chrono::system_clock::time_point time) {
    if (ring_.size() < kKept) ring_.emplace_back();
    Denial& kept = ring_[last_number_ % kKept];
    for (const DenialField& field : kDenialFields) {
        std::visit([&](const auto member) { forget(kept.*member); }, field.member);
    }
    kept.number = ++last_number_;
    kept.time = time;
    return kept;
}

std::vector<Denial> DenialLog::after(std::uint64_t number, std::size_t count_max) const {
    const std::uint64_t oldest = last_number_ - ring_.size() + 1;
    std::vector<Denial> found;
    for (std::uint64_t n = std::max(number + 1, oldest); n <= last_number_; ++n) {
        if (found.size() == count_max) break;
        found.push_back(ring_[(n - 1) % kKept]);
    }
    return found;
}

void Activity::set_names_max(std::size_t names_max) {
    if (names_max == names_max_) return;
    std::unique_ptr<Names> names;
    if (names_max != 0) {
        std::random_device random;
        const std::uint64_t secret = std::uint64_t{random()} << 32 | random();
        names = std::make_unique<Names>(names_max, secret);
    }
    names_ = std::move(names);
    names_max_ = names_max;
    ++version_;
}

bool ActivityCopy::add_piece(Activity& activity, ActivityKind kind, Activity::Time now) {
    if (version != activity.version()) {
        *this = {};
        version = activity.version();
    }
    Activity::Names* const from = activity.names();
    if (from == nullptr) return true;
    switch (kind) {
        case ActivityKind::top_requests:
            return from->requests.copy_piece(names, now);
        case ActivityKind::top_denials:
            return from->denials.names.copy_piece(names, now);
        case ActivityKind::top_shadow:
            return from->shadow_denials.names.copy_piece(names, now);
        case ActivityKind::denials:
            return add_denials(from->denials.last);
        case ActivityKind::candidate_denials:
            return add_denials(from->candidate_denials);
        case ActivityKind::shadow_denials:
            break;
    }
    return add_denials(from->shadow_denials.last);
}

bool ActivityCopy::add_denials(const DenialLog& log) {
    const std::uint64_t last = denials.empty() ? 0 : denials.back().number;
    denials.reserve(DenialLog::kKept);
    auto piece = log.after(last, kPieceDenials);
    std::move(piece.begin(), piece.end(), std::back_inserter(denials));
    denials_left_out = log.left_out();
    // The list may lack denials that come meanwhile.
    return piece.size() < kPieceDenials || denials.size() >= DenialLog::kKept;
}

}  // namespace tidegate::telemetry

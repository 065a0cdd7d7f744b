#include "telemetry/top_names.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

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

}  // namespace

void TopNames::begin_generation(Time now) {
    const Time begins{now.time_since_epoch() - now.time_since_epoch() % kGeneration};
    // Without a gap, the present counts become the generation before.
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
        const CountedNames* part = nullptr;  // the last one that lists it, and what that says
        CountedNames::Name last;
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

}  // namespace tidegate::telemetry

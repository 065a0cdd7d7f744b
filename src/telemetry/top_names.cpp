#include "telemetry/top_names.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tidegate::telemetry {

namespace {

CountedNames copy_of(const SpaceSaving& counters) {
    CountedNames copy{{}, counters.total(), counters.missed_max(), counters.names_max()};
    copy.names.reserve(counters.size());
    counters.for_each([&](const SpaceSaving::Name& one) {
        copy.names.push_back({std::string(one.name), one.count, one.error});
    });
    return copy;
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

std::vector<CountedNames> TopNames::counted(Time now) {
    if (now >= ends_) begin_generation(now);
    return {copy_of(former_), copy_of(current_)};
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
        std::uint64_t not_missed = 0;  // the `missed_max` of the parts that list the name
    };
    TopList list;
    std::uint64_t missed = 0;
    std::unordered_map<std::string_view, Sums> sums;
    for (const CountedNames& part : parts) {
        list.total += part.total;
        missed += part.missed_max;
        for (const CountedNames::Name& one : part.names) {
            Sums& of = sums[one.name];
            of.at_least += one.count - one.error;
            of.error += one.error;
            of.not_missed += part.missed_max;
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

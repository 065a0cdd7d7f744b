#include "store/freed_identifiers.hpp"

#include <algorithm>
#include <functional>

namespace tidegate::store {

namespace {

// Workers add at the same time: the later time stays.
void raise_to(std::atomic<std::int64_t>& number, std::int64_t to) {
    std::int64_t known = number.load(std::memory_order_relaxed);
    while (known < to && !number.compare_exchange_weak(known, to, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
    }
}

}  // namespace

void FreedIdentifiers::add(std::string_view identifier, Time now) {
    raise_to(places_[place_of(identifier)], number(now));
    raise_to(newest_, number(now));
}

std::size_t FreedIdentifiers::place_of(std::string_view identifier) {
    return std::hash<std::string_view>{}(identifier) % kPlaces;
}

bool FreedIdentifiers::look(std::span<const limit::ChargeItem> items, Time since) const {
    return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
        return places_[place_of(item.identifier)].load(std::memory_order_acquire) >= number(since);
    });
}

}  // namespace tidegate::store

#include "balance/seat_queue.hpp"

#include <algorithm>
#include <cassert>

namespace tidegate::balance {

bool SeatQueue::IsBefore::operator()(const std::optional<IpAddress>& one,
                                     const std::optional<IpAddress>& other) const {
    if (!one || !other) return !one && other;
    return one->v4 != other->v4 ? one->v4 : one->bytes < other->bytes;
}

SeatQueue::SeatQueue(std::uint32_t max) : share_(std::max<std::size_t>(1, max / 4)) {}

void SeatQueue::push(Place& place) {
    assert(place.line == nullptr);
    const auto [found, is_new] = lines_.try_emplace(place.address);
    Line& line = found->second;
    if (is_new) turns_.push_back(line);
    place.line = &line;
    queue_.push_back(place);
    line.places.push_back(place);
    if (place.address && line.places.size() == share_ + 1) crowds_.push_back(&line);
}

void SeatQueue::erase(Place& place) {
    Line& line = *place.line;
    if (place.address && line.places.size() == share_ + 1) {
        crowds_.erase(std::find(crowds_.begin(), crowds_.end(), &line));
    }
    place.line = nullptr;
    queue_.erase(queue_.iterator_to(place));
    line.places.erase(line.places.iterator_to(place));
    if (!line.places.empty()) return;
    turns_.erase(turns_.iterator_to(line));
    lines_.erase(place.address);
}

SeatQueue::Place* SeatQueue::first_besides(std::span<const IpAddress> crowds) {
    for (Line& line : turns_) {
        Place& first = line.places.front();
        const auto is_its = [&](const IpAddress& crowd) { return first.address == crowd; };
        if (std::none_of(crowds.begin(), crowds.end(), is_its)) return &first;
    }
    return nullptr;
}

void SeatQueue::pass_turn(const Place& place) {
    turns_.splice(turns_.end(), turns_, turns_.iterator_to(*place.line));
}

SeatQueue::Place* SeatQueue::last_of_crowds_besides(const std::optional<IpAddress>& address) {
    Line* largest = nullptr;
    for (Line* crowd : crowds_) {
        if (crowd->places.front().address == address) continue;
        if (largest == nullptr || crowd->places.size() > largest->places.size()) largest = crowd;
    }
    return largest == nullptr ? nullptr : &largest->places.back();
}

}  // namespace tidegate::balance

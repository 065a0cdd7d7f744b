#include "proxy/upstream_seats.hpp"

#include <algorithm>

namespace tidegate::proxy {

namespace {

using std::chrono::nanoseconds;

// A search with many seats is long: after one in vain, the next begins no sooner than this for each
// seat.
constexpr std::chrono::microseconds kPauseASeat{1};

}  // namespace

std::optional<IpAddress> UpstreamSeat::holder() const {
    if (!client_) return std::nullopt;
    return masked(*client_, settings_.widest_ipv6_prefix());
}

bool UpstreamSeats::may_join(const UpstreamSeat& asking, std::size_t free, SteadyTime now) {
    if (now >= next_end_) update_shortages(now);
    if (free > reserved_max_) return true;
    const std::optional<IpAddress> holder = asking.holder();
    if (!holder || held_by(holder) < share_) {
        Shortage* const own = find_shortage(holder);
        if (own != nullptr && free > 0) own->served = true;
        return true;
    }
    const std::size_t reserved = count_reserved();
    return reserved == 0 || free > reserved;
}

UpstreamSeat* UpstreamSeats::find_room(const UpstreamSeat& asking, SteadyTime now) {
    const std::optional<IpAddress> holder = asking.holder();
    if (now < next_search_ && (!in_vain_for_ || in_vain_for_ == holder)) return nullptr;
    // A client without an address has a share of its own, and `asking` is all that it holds.
    const std::size_t held = holder ? held_by(holder) : 1;
    const bool has_share = held > share_;  // `asking` included
    UpstreamSeat* const found = choose(find_crowds(asking), asking, now);
    // An address that has its share already keeps no connection from others.
    if (!has_share) note_shortage(holder, held - 1, found != nullptr, now);
    if (found == nullptr) {
        // Another address may take the place of one that has its share.
        in_vain_for_ = has_share ? holder : std::nullopt;
        next_search_ = now + kPauseASeat * max_;
    }
    return found;
}

std::size_t UpstreamSeats::held_by(const std::optional<IpAddress>& holder) const {
    return static_cast<std::size_t>(
        std::count_if(seats_.begin(), seats_.end(),
                      [&](const UpstreamSeat& seat) { return seat.holder() == holder; }));
}

// Other addresses than that of `asking` which have more than their share.
HeavyHitters UpstreamSeats::find_crowds(const UpstreamSeat& asking) const {
    HeavyHitters crowds;
    for (const UpstreamSeat& seat : seats_) {
        const std::optional<IpAddress> holder = seat.holder();
        if (holder && &seat != &asking) crowds.add(*holder);
    }
    crowds.erase_if([&, own = asking.holder()](const IpAddress& holder) {
        return holder == own || held_by(holder) <= share_;
    });
    return crowds;
}

UpstreamSeat* UpstreamSeats::choose(const HeavyHitters& crowds, const UpstreamSeat& asking,
                                    SteadyTime now) {
    struct Best {
        UpstreamSeat* seat = nullptr;
        nanoseconds lag{0};

        void consider(UpstreamSeat& other, const Pace& pace, SteadyTime time) {
            const nanoseconds its = pace.lag(kSlowRate, time);
            if (seat != nullptr && its <= lag) return;
            seat = &other;
            lag = its;
        }
    };
    Best crowded_body;
    Best slow_body;
    Best crowded_answer;
    for (UpstreamSeat& seat : seats_) {
        const bool uploads = seat.body.is_clients_turn();
        if (&seat == &asking || (!uploads && !seat.answer.is_clients_turn())) continue;
        const std::optional<IpAddress> holder = seat.holder();
        const bool is_crowded = holder && crowds.contains(*holder);
        if (!uploads) {
            if (is_crowded) crowded_answer.consider(seat, seat.answer, now);
        } else if (is_crowded) {
            crowded_body.consider(seat, seat.body, now);
        } else if (seat.body.lag(kSlowRate, now) >= kSlowLag) {
            slow_body.consider(seat, seat.body, now);
        }
    }
    for (const Best& best : {crowded_body, slow_body, crowded_answer}) {
        if (best.seat != nullptr) return best.seat;
    }
    return nullptr;
}

UpstreamSeats::Shortage* UpstreamSeats::find_shortage(const std::optional<IpAddress>& holder) {
    for (Shortage& shortage : shortages_) {
        if (shortage.needed > 0 && shortage.holder == holder) return &shortage;
    }
    return nullptr;
}

// A request of `holder`, which holds `held` connections besides, found none free. `served`: another
// request makes room for it.
void UpstreamSeats::note_shortage(const std::optional<IpAddress>& holder, std::size_t held,
                                  bool served, SteadyTime now) {
    update_shortages(now);
    Shortage* shortage = find_shortage(holder);
    if (shortage == nullptr) {
        const auto unused = std::find_if(shortages_.begin(), shortages_.end(),
                                         [](const Shortage& other) { return other.needed == 0; });
        if (unused == shortages_.end()) return;
        shortage = &*unused;
        *shortage = {holder, 0, now + kShortage, false};
    }
    shortage->needed = std::min(std::max(shortage->needed, held) + 1, share_);
    // An address that gets connections does not wait: its shortage may end.
    if (!shortage->served) shortage->until = now + kShortage;
    shortage->served = shortage->served || served;
    update_shortages(now);
}

void UpstreamSeats::update_shortages(SteadyTime now) {
    std::size_t needed = 0;
    next_end_ = SteadyTime::max();
    for (Shortage& shortage : shortages_) {
        if (now >= shortage.until) shortage.needed = 0;
        if (shortage.needed == 0) continue;
        needed += shortage.needed;
        next_end_ = std::min(next_end_, shortage.until);
    }
    reserved_max_ = std::min(needed, max_ - share_);
}

// What the short addresses need and do not hold. One pass: in a shortage, many requests ask.
std::size_t UpstreamSeats::count_reserved() const {
    std::array<Shortage, kShortages> left = shortages_;
    for (const UpstreamSeat& seat : seats_) {
        const std::optional<IpAddress> holder = seat.holder();
        if (!holder) continue;
        for (Shortage& shortage : left) {
            if (shortage.needed > 0 && shortage.holder == holder) --shortage.needed;
        }
    }
    std::size_t needed = 0;
    for (const Shortage& shortage : left) needed += shortage.needed;
    return std::min(needed, max_ - share_);
}

}  // namespace tidegate::proxy

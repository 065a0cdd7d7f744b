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
    const auto& prefixes = settings_.ipv6_prefixes;
    return masked(*client_, *std::min_element(prefixes.begin(), prefixes.end()));
}

bool UpstreamSeats::may_join(const UpstreamSeat& asking, std::size_t free, SteadyTime now) {
    if (now >= short_until_) reserved_ = 0;
    if (free > reserved_) return true;
    const std::optional<IpAddress> holder = asking.holder();
    return !holder || holder == short_of_ || held_by(holder) < share_;
}

UpstreamSeat* UpstreamSeats::find_room(const UpstreamSeat& asking, SteadyTime now) {
    const std::optional<IpAddress> holder = asking.holder();
    if (now < next_search_ && (!in_vain_for_ || in_vain_for_ == holder)) return nullptr;
    const bool has_share = holder && held_by(holder) > share_;  // `asking` included
    // An address that has its share already keeps no connection from others.
    if (!has_share) note_shortage(holder, now);
    UpstreamSeat* const found = choose(find_crowds(asking), asking, now);
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
Crowds UpstreamSeats::find_crowds(const UpstreamSeat& asking) const {
    Crowds crowds;
    for (const UpstreamSeat& seat : seats_) {
        const std::optional<IpAddress> holder = seat.holder();
        if (holder && &seat != &asking) crowds.add(*holder);
    }
    crowds.erase_if([&, own = asking.holder()](const IpAddress& holder) {
        return holder == own || held_by(holder) <= share_;
    });
    return crowds;
}

UpstreamSeat* UpstreamSeats::choose(const Crowds& crowds, const UpstreamSeat& asking,
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

void UpstreamSeats::note_shortage(const std::optional<IpAddress>& holder, SteadyTime now) {
    if (now >= short_until_) reserved_ = 0;
    reserved_ = std::min(reserved_ + 1, max_ - share_);
    short_of_ = holder;
    short_until_ = now + kShortage;
}

}  // namespace tidegate::proxy

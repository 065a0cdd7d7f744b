#include "upstream/fair_share.hpp"

#include <algorithm>

namespace tidegate::upstream {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How long `bytes` take at `rate` a second. Above ten years it is ten years: sums do not overflow.
nanoseconds time_of(std::uint64_t bytes, std::uint64_t rate) {
    constexpr std::uint64_t kSecondsMax = 10ULL * 365 * 24 * 3'600;
    constexpr std::uint64_t kMillisecond = 1'000;
    const std::uint64_t seconds = std::min(bytes / rate, kSecondsMax);
    // The rest is below the rate, so this stays exact up to rates of 2^54.
    const std::uint64_t rest = (bytes % rate) * kMillisecond / rate;
    return milliseconds{seconds * kMillisecond + rest};
}

using std::chrono::nanoseconds;

// A search among many requests is long: after one in vain, the next begins no sooner than this for
// each of them.
constexpr std::chrono::microseconds kPauseForEach{1};

// Of some requests, the one that is furthest behind.
struct Slowest {
    ActiveRequest* request = nullptr;
    nanoseconds lag{0};

    void consider(ActiveRequest& other, nanoseconds its) {
        if (request != nullptr && its <= lag) return;
        request = &other;
        lag = its;
    }
};

// The connection that this thread offers while it gives a seat back.
thread_local Spare* offered = nullptr;

}  // namespace

milliseconds TransferRate::time_left(const TransferBounds& bounds, SteadyTime now) const {
    const nanoseconds held = held_back(now);
    nanoseconds left = bounds.idle;
    if (is_waiting_) left -= (now - since_) - (held - held_back_before_);
    if (bounds.rate_min > 0) left = std::min(left, bounds.idle - lag(bounds.rate_min, now) + held);
    if (bounds.total > milliseconds{0}) left = std::min(left, bounds.total - waited(now));
    return std::chrono::ceil<milliseconds>(left);
}

nanoseconds TransferRate::lag(std::uint64_t rate, SteadyTime now) const {
    return waited(now) - time_of(bytes_, rate);
}

std::optional<IpAddress> ActiveRequest::key() const {
    if (!client_) return std::nullopt;
    return prefixes_.widest(*client_);
}

bool FairShare::admits(const ActiveRequest& asking, std::size_t free, SteadyTime now) {
    if (now >= next_end_) update_shortages(now);
    if (free > reserved_max_) return true;
    const std::optional<IpAddress> key = asking.key();
    if (!key || held_by(key) < share_) {
        Shortage* const own = find_shortage(key);
        if (own != nullptr && free > 0) own->served = true;
        return true;
    }
    const std::size_t reserved = count_reserved();
    return reserved == 0 || free > reserved;
}

ActiveRequest* FairShare::find_evictable(const ActiveRequest& asking, SteadyTime now) {
    const std::optional<IpAddress> key = asking.key();
    if (is_in_vain(key, now)) return nullptr;
    // A client without an address has a share of its own and holds `asking` alone.
    const std::size_t held = key ? held_by(key) + (asking.waits_for_seat ? 1 : 0) : 1;
    const bool has_share = held > share_;  // `asking` included
    ActiveRequest* const found = choose(find_crowds(&asking), &asking, now);
    // An address that has its share already keeps no connection from others.
    if (!has_share) note_shortage(key, held - 1, found != nullptr, now);
    if (found == nullptr) note_in_vain(key, has_share, now);
    return found;
}

bool FairShare::is_in_vain(const std::optional<IpAddress>& key, SteadyTime now) const {
    if (now >= next_search_) return false;
    if (any_is_in_vain_ || !key) return any_is_in_vain_;
    return std::find(searched_in_vain_.begin(), searched_in_vain_.end(), *key) !=
           searched_in_vain_.end();
}

// Another address may take the place of one that has its share.
void FairShare::note_in_vain(const std::optional<IpAddress>& key, bool has_share, SteadyTime now) {
    if (now >= next_search_) {
        searched_in_vain_.clear();
        any_is_in_vain_ = false;
    }
    if (has_share && key && searched_in_vain_.size() < searched_in_vain_.capacity()) {
        searched_in_vain_.push_back(*key);
    } else {
        any_is_in_vain_ = true;
    }
    next_search_ = now + kPauseForEach * max_;
}

std::vector<IpAddress> FairShare::crowds() const {
    return find_crowds(nullptr).addresses();
}

ActiveRequest* FairShare::find_evictable_for_others(SteadyTime now) {
    return choose(find_crowds(nullptr), nullptr, now);
}

ActiveRequest* FairShare::find_slow(SteadyTime now) {
    Slowest body;
    Slowest answer;
    for (ActiveRequest& request : requests_) {
        if (!request.waits_for_client()) continue;
        const nanoseconds lag = request.lag(kSlowRate, now);
        if (lag >= kSlowLag) (request.body.is_waiting() ? body : answer).consider(request, lag);
    }
    return body.request != nullptr ? body.request : answer.request;
}

std::size_t FairShare::held_by(const std::optional<IpAddress>& key) const {
    return static_cast<std::size_t>(
        std::count_if(requests_.begin(), requests_.end(),
                      [&](const ActiveRequest& request) { return request.key() == key; }));
}

// Addresses that have more than their share, but for that of `asking` (null: of another thread).
HeavyHitters FairShare::find_crowds(const ActiveRequest* asking) const {
    HeavyHitters crowds;
    for (const ActiveRequest& request : requests_) {
        const std::optional<IpAddress> key = request.key();
        if (key && &request != asking) crowds.add(*key);
    }
    const std::optional<IpAddress> own = asking == nullptr ? std::nullopt : asking->key();
    crowds.erase_if([&](const IpAddress& key) { return key == own || held_by(key) <= share_; });
    return crowds;
}

ActiveRequest* FairShare::choose(const HeavyHitters& crowds, const ActiveRequest* asking,
                                 SteadyTime now) {
    Slowest crowded_body;
    Slowest slow_body;
    Slowest crowded_answer;
    Slowest slow_answer;
    for (ActiveRequest& request : requests_) {
        if (&request == asking || !request.waits_for_client()) continue;
        const std::optional<IpAddress> key = request.key();
        const bool is_crowded = key && crowds.contains(*key);
        const nanoseconds lag = request.lag(kSlowRate, now);
        if (!is_crowded && lag < kSlowLag) continue;
        if (request.body.is_waiting()) {
            (is_crowded ? crowded_body : slow_body).consider(request, lag);
        } else {
            (is_crowded ? crowded_answer : slow_answer).consider(request, lag);
        }
    }
    for (const Slowest& one : {crowded_body, slow_body, crowded_answer, slow_answer}) {
        if (one.request != nullptr) return one.request;
    }
    return nullptr;
}

FairShare::Shortage* FairShare::find_shortage(const std::optional<IpAddress>& key) {
    for (Shortage& shortage : shortages_) {
        if (shortage.needed > 0 && shortage.key == key) return &shortage;
    }
    return nullptr;
}

// A request of address `key`, which holds `held` connections besides, found none free. `served`:
// another request makes room for it.
void FairShare::note_shortage(const std::optional<IpAddress>& key, std::size_t held, bool served,
                              SteadyTime now) {
    update_shortages(now);
    Shortage* shortage = find_shortage(key);
    if (shortage == nullptr) {
        const auto unused = std::find_if(shortages_.begin(), shortages_.end(),
                                         [](const Shortage& other) { return other.needed == 0; });
        if (unused == shortages_.end()) return;
        shortage = &*unused;
        *shortage = {key, 0, now + kShortage, false};
    }
    shortage->needed = std::min(std::max(shortage->needed, held) + 1, share_);
    // An address that gets connections does not wait: its shortage may end.
    if (!shortage->served) shortage->until = now + kShortage;
    shortage->served = shortage->served || served;
    update_shortages(now);
}

void FairShare::update_shortages(SteadyTime now) {
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

// The connections that the short addresses need and do not hold. One pass: many requests ask during
// a shortage.
std::size_t FairShare::count_reserved() const {
    std::array<Shortage, kShortages> left = shortages_;
    for (const ActiveRequest& request : requests_) {
        const std::optional<IpAddress> key = request.key();
        if (!key) continue;
        for (Shortage& shortage : left) {
            if (shortage.needed > 0 && shortage.key == key) --shortage.needed;
        }
    }
    std::size_t needed = 0;
    for (const Shortage& shortage : left) needed += shortage.needed;
    return std::min(needed, max_ - share_);
}

SeatWait::SeatWait(const Executor& executor, balance::Seats& seats, Wakeup& wakeup,
                   ActiveRequest& request)
    : sleeping_(std::make_shared<Sleeping>(Sleeping{executor, &wakeup})),
      request_(request),
      waiter_(seats, &SeatWait::on_changed, this, request.key()) {
    request_.waits_for_seat = true;
}

SeatWait::~SeatWait() {
    sleeping_->wakeup = nullptr;
    request_.waits_for_seat = false;
}

void SeatWait::take_over_seat() {
    waiter_.leave();  // a seat that was granted meanwhile goes on
    has_seat_ = true;
    sleeping_->wakeup->wake_later();
}

Spare SeatWait::give_back(balance::Seats& seats, Spare spare) {
    offered = &spare;
    seats.give_back();
    offered = nullptr;
    return spare;
}

// On the thread that gave the seat back or needed the place.
void SeatWait::on_changed(void* self) noexcept {
    auto& wait = *static_cast<SeatWait*>(self);
    const Executor& executor = wait.sleeping_->executor;
    if (offered != nullptr && executor.running_in_this_thread()) {
        wait.spare_ = std::move(*offered);
    }
    asio::post(executor, [sleeping = wait.sleeping_] {
        if (sleeping->wakeup != nullptr) sleeping->wakeup->wake_later();
    });
}

}  // namespace tidegate::upstream

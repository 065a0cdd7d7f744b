#include "balance/round_robin.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tidegate::balance {

namespace {

// A round of virtual time is what a turn of a server of weight 1 takes.
constexpr std::uint64_t kRound = std::uint64_t{1} << 40;
// reset() skips at most so many turns of a new list.
constexpr std::uint64_t kSeedTurns = 1'024;
// Small multiples of it, modulo kFullShare, lie far apart.
constexpr std::uint64_t kSpread = 382;
// Parked servers that a choice looks at.
constexpr int kLooks = 2;

bool is_before(std::uint64_t one, std::uint64_t other) {
    return static_cast<std::int64_t>(one - other) < 0;
}

}  // namespace

// Heaps of std have the largest on top.
struct RoundRobin::BeginsLater {
    bool operator()(const Turn& one, const Turn& other) const {
        if (one.begin != other.begin) return is_before(other.begin, one.begin);
        return one.index > other.index;
    }
};

// Of two turns that end together, the shorter is first: its server has another before long.
struct RoundRobin::EndsLater {
    bool operator()(const Turn& one, const Turn& other) const {
        const Virtual end = one.begin + one.length;
        const Virtual other_end = other.begin + other.length;
        if (end != other_end) return is_before(other_end, end);
        if (one.length != other.length) return one.length > other.length;
        return one.index > other.index;
    }
};

void RoundRobin::reset(Servers servers) {
    struct Kept {
        Virtual begin;
        int saved;
    };
    end_order();
    std::unordered_map<const ServerState*, Kept> kept;
    for (const auto* turns : {&ahead_, &begun_}) {
        for (const Turn& turn : *turns) {
            const Entry& entry = entries_[turn.index];
            kept.emplace(entry.state, Kept{turn.begin, entry.saved});
        }
    }
    entries_.clear();
    choices_ = 0;
    ahead_.clear();
    begun_.clear();
    parked_.clear();
    weights_ = 0;
    turns_by_due_.reset(servers.size());
    bool some_stay = false;
    for (ServerState* server : servers) {
        const auto index = static_cast<std::uint32_t>(entries_.size());
        // Servers that begin their slow start together must not all use the same turn.
        const auto saved = static_cast<int>((seed_ + index) * kSpread % kFullShare);
        entries_.push_back({server, 0, saved});
        const auto old = kept.find(server);
        if (old != kept.end()) {
            entries_.back().saved = old->second.saved;
            some_stay = true;
        }
        add(index, old != kept.end() ? old->second.begin : now_);
    }
    if (some_stay || entries_.empty()) return;
    const std::uint64_t turns = seed_ % std::min(weights_, kSeedTurns);
    for (std::uint64_t i = 0; i < turns; ++i) pass_on(take_turn());
}

Chosen RoundRobin::choose(SteadyTime now, const Tried& tried) {
    if (entries_.size() == 1 && entries_.front().state->rank(now) != Rank::out) return 0;
    if (!order_.empty()) {
        const Chosen next = tried.empty() ? choose_in_order(now) : std::nullopt;
        if (next) return next;
        end_order();
    }
    const Chosen chosen = choose_by_heaps(now, tried);
    if (++choices_ >= entries_.size()) begin_order(now);
    return chosen;
}

bool RoundRobin::is_even(const Entry& entry, SteadyTime now, std::chrono::nanoseconds slow_start) {
    const ServerState& server = *entry.state;
    return server.weight() == entry.weight && server.rank(now) == Rank::usable &&
           server.share_in_slow_start(now, slow_start) == kFullShare;
}

// None: the server whose turn it is differs from the others now.
Chosen RoundRobin::choose_in_order(SteadyTime now) {
    const std::uint32_t index = order_[next_in_order_];
    if (!is_even(entries_[index], now, slow_start_)) return std::nullopt;
    if (++next_in_order_ == order_.size()) next_in_order_ = 0;
    return index;
}

// If all servers are equal: of turns that are equally long, the first to begin ends first, so the
// order is theirs.
void RoundRobin::begin_order(SteadyTime now) {
    choices_ = 0;
    if (entries_.empty() || !parked_.empty()) return;
    for (const Entry& entry : entries_) {
        if (entry.weight != entries_[0].weight || !is_even(entry, now, slow_start_)) return;
    }
    ahead_.insert(ahead_.end(), begun_.begin(), begun_.end());
    begun_.clear();
    std::sort(ahead_.begin(), ahead_.end(),
              [](const Turn& one, const Turn& other) { return BeginsLater{}(other, one); });
    for (const Turn& turn : ahead_) order_.push_back(turn.index);
    ahead_.clear();
    next_in_order_ = 0;
}

// Gives each server the turn that it has next. Sorted as they are, these are a heap.
void RoundRobin::end_order() {
    Virtual begin = now_;
    for (std::size_t i = 0; i < order_.size(); ++i) {
        const std::uint32_t index = order_[(next_in_order_ + i) % order_.size()];
        ahead_.push_back({begin, kRound / entries_[index].weight, index});
        begin += step_;
    }
    order_.clear();
}

Chosen RoundRobin::choose_by_heaps(SteadyTime now, const Tried& tried) {
    if (!parked_.empty()) look_at_parked(now);
    left_out_.clear();
    Chosen chosen;
    while (!chosen && !(ahead_.empty() && begun_.empty())) {
        const Turn turn = take_turn();
        Entry& entry = entries_[turn.index];
        if (!tried.empty() && tried.has(*entry.state)) {
            left_out_.push_back(turn);
            continue;
        }
        if (entry.state->rank(now) != Rank::usable) {
            park(turn);
            continue;
        }
        pass_on(turn);
        if (may_use_turn(entry, now)) chosen = turn.index;
    }
    for (const Turn& turn : left_out_) {
        begun_.push_back(turn);
        std::push_heap(begun_.begin(), begun_.end(), EndsLater{});
    }
    return chosen ? chosen : choose_unusable(now, tried);
}

void RoundRobin::add(std::uint32_t index, Virtual begin) {
    Entry& entry = entries_[index];
    entry.weight = 0;
    set_weight(entry, entry.state->weight());
    ahead_.push_back({begin, kRound / entry.weight, index});
    std::push_heap(ahead_.begin(), ahead_.end(), BeginsLater{});
}

// Requires a turn. Where none has begun, time goes on to the next that does.
RoundRobin::Turn RoundRobin::take_turn() {
    if (begun_.empty() && is_before(now_, ahead_.front().begin)) now_ = ahead_.front().begin;
    while (!ahead_.empty() && !is_before(now_, ahead_.front().begin)) {
        std::pop_heap(ahead_.begin(), ahead_.end(), BeginsLater{});
        begun_.push_back(ahead_.back());
        ahead_.pop_back();
        std::push_heap(begun_.begin(), begun_.end(), EndsLater{});
    }
    std::pop_heap(begun_.begin(), begun_.end(), EndsLater{});
    const Turn turn = begun_.back();
    begun_.pop_back();
    return turn;
}

// In slow start, a server saves its share of each turn and uses a turn when it has saved a whole
// one.
bool RoundRobin::may_use_turn(Entry& entry, SteadyTime now) const {
    const int share = entry.state->share_in_slow_start(now, slow_start_);
    if (share == kFullShare) return true;
    entry.saved += share;
    if (entry.saved < kFullShare) return false;
    entry.saved -= kFullShare;
    return true;
}

// The server has had its turn; its next one follows.
void RoundRobin::pass_on(Turn turn) {
    now_ += step_;
    turn.begin += turn.length;
    Entry& entry = entries_[turn.index];
    const std::uint32_t weight = entry.state->weight();
    if (weight != entry.weight) {
        set_weight(entry, weight);
        turn.length = kRound / weight;
    }
    ahead_.push_back(turn);
    std::push_heap(ahead_.begin(), ahead_.end(), BeginsLater{});
}

void RoundRobin::park(const Turn& turn) {
    set_weight(entries_[turn.index], 0);
    parked_.push_back(turn.index);
}

// Looks at a few of them, so that many servers that are down cost no more than one. A server that
// is back has a turn now.
void RoundRobin::look_at_parked(SteadyTime now) {
    for (int looks = 0; looks < kLooks && !parked_.empty(); ++looks) {
        if (next_look_ >= parked_.size()) next_look_ = 0;
        const std::uint32_t index = parked_[next_look_];
        if (entries_[index].state->rank(now) == Rank::usable) {
            parked_[next_look_] = parked_.back();
            parked_.pop_back();
            add(index, now_);
        } else {
            ++next_look_;
        }
    }
}

void RoundRobin::set_weight(Entry& entry, std::uint32_t weight) {
    weights_ += weight;
    weights_ -= entry.weight;
    entry.weight = weight;
    if (weights_ > 0) step_ = kRound / weights_;
}

// No server has a turn, or only servers that were tried have one: chooses from those that are not
// usable.
Chosen RoundRobin::choose_unusable(SteadyTime now, const Tried& tried) {
    candidates_.begin();
    for (const Entry& entry : entries_) candidates_.add(*entry.state, now, slow_start_, tried);
    const Candidate* const next = turns_by_due_.next(candidates_.end());
    return next != nullptr ? Chosen(next->index) : std::nullopt;
}

}  // namespace tidegate::balance

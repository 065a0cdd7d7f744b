#include "balance/choice.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tidegate::balance {

void Candidates::begin() {
    best_.clear();
    rank_ = Rank::out;
    count_ = 0;
    last_ = {};
}

void Candidates::add(const ServerState& server, SteadyTime now, std::chrono::nanoseconds slow_start,
                     const Tried& tried) {
    const std::size_t index = count_++;
    const Rank rank = server.rank(now);
    if (rank == Rank::out) return;
    const bool is_last = tried.has(server);
    if (!is_last && rank > rank_) return;
    const auto share = static_cast<std::uint64_t>(server.share_in_slow_start(now, slow_start));
    const Candidate candidate{index, server.weight() * share, server.active(), server.id()};
    if (is_last) {
        last_ = candidate;
        return;
    }
    if (rank < rank_) best_.clear();
    rank_ = rank;
    best_.push_back(candidate);
}

std::span<const Candidate> Candidates::end() {
    if (best_.empty() && last_.weight > 0) best_.push_back(last_);
    return best_;
}

std::span<const Candidate> Candidates::find(Servers servers, SteadyTime now,
                                            std::chrono::nanoseconds slow_start,
                                            const Tried& tried) {
    begin();
    for (const ServerState* server : servers) add(*server, now, slow_start, tried);
    return end();
}

const Candidate* TurnsByDue::next(std::span<const Candidate> candidates) {
    const Candidate* next = nullptr;
    std::int64_t weights = 0;
    for (const Candidate& candidate : candidates) {
        const auto weight = static_cast<std::int64_t>(candidate.weight);
        due_[candidate.index] += weight;
        weights += weight;
        if (next == nullptr || due_[candidate.index] > due_[next->index]) next = &candidate;
    }
    if (next != nullptr) due_[next->index] -= weights;
    return next;
}

namespace {

// A turn of a server of weight 1 takes one round of virtual time.
constexpr std::uint64_t kRound = std::uint64_t{1} << 40;
// reset() skips at most so many turns of a new list.
constexpr std::uint64_t kSeedTurns = 1'024;
// Small multiples of this number, modulo kFullShare, lie far apart.
constexpr std::uint64_t kSpread = 382;
// A choice looks at so many parked servers.
constexpr int kLooks = 2;

bool is_before(std::uint64_t one, std::uint64_t other) {
    return static_cast<std::int64_t>(one - other) < 0;
}

}  // namespace

// Heaps of std have the largest on top, so this order puts the first turn there.
struct RoundRobin::BeginsLater {
    bool operator()(const Turn& one, const Turn& other) const {
        if (one.begin != other.begin) return is_before(other.begin, one.begin);
        return one.index > other.index;
    }
};

// If two turns end together, the shorter is first: its server has another turn before long.
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
        // Servers that begin their slow start together must not all use turns of the same round.
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

// Returns nothing while the next server in turn differs from the others.
Chosen RoundRobin::choose_in_order(SteadyTime now) {
    const std::uint32_t index = order_[next_in_order_];
    if (!is_even(entries_[index], now, slow_start_)) return std::nullopt;
    if (++next_in_order_ == order_.size()) next_in_order_ = 0;
    return index;
}

// Requires that all servers are equal. As their turns are equally long, the first turn to begin
// ends first: the servers keep this order.
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

// Gives each server the turn that it has next. The turns come sorted, and so are a heap.
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

// Requires a turn. If none has begun, the function moves the virtual time on to the next one that
// does.
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

// Looks at a few parked servers, so that many servers that are down cost no more than one. A server
// that is back gets a turn now.
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

// Chooses from the servers that are not usable. Requires that no server has a turn, or that
// the request has tried all that have one.
Chosen RoundRobin::choose_unusable(SteadyTime now, const Tried& tried) {
    candidates_.begin();
    for (const Entry& entry : entries_) candidates_.add(*entry.state, now, slow_start_, tried);
    const Candidate* const next = turns_by_due_.next(candidates_.end());
    return next != nullptr ? Chosen(next->index) : std::nullopt;
}

namespace {

// Says whether the first has fewer requests in flight for its weight.
bool has_fewer(const Candidate& one, const Candidate& other) {
    return one.active * other.weight < other.active * one.weight;
}

}  // namespace

void LeastConnections::reset(Servers servers) {
    servers_.assign(servers.begin(), servers.end());
    ties_.reset(servers.size());
    turns_.reset(servers);
}

Chosen LeastConnections::choose(SteadyTime now, const Tried& tried) {
    return servers_.size() <= kAllSeen ? choose_of_all(now, tried) : choose_of_two(now, tried);
}

Chosen LeastConnections::choose_of_all(SteadyTime now, const Tried& tried) {
    fewest_.clear();
    for (const Candidate& candidate : candidates_.find(servers_, now, slow_start_, tried)) {
        if (!fewest_.empty() && has_fewer(fewest_.front(), candidate)) continue;
        if (!fewest_.empty() && has_fewer(candidate, fewest_.front())) fewest_.clear();
        fewest_.push_back(candidate);
    }
    const Candidate* const next = ties_.next(fewest_);
    return next != nullptr ? Chosen(next->index) : std::nullopt;
}

Chosen LeastConnections::choose_of_two(SteadyTime now, const Tried& tried) {
    const Chosen first = turns_.choose(now, tried);
    if (!first) return first;
    const std::size_t count = servers_.size();
    const std::size_t begin = random() % count;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t second = (begin + i) % count;
        if (second == *first || tried.has(*servers_[second])) continue;
        candidates_.begin();
        candidates_.add(*servers_[*first], now, slow_start_, {});
        candidates_.add(*servers_[second], now, slow_start_, {});
        const auto both = candidates_.end();
        if (both.size() < 2) continue;  // one is of a higher rank
        return has_fewer(both[1], both[0]) ? second : first;
    }
    return first;
}

std::uint64_t LeastConnections::random() {
    random_ += kGoldenRatio;
    return scrambled(random_);
}

namespace {

// Returns what a server of that weight bids for a key; the highest bid wins. With `chance` evenly
// distributed, the bid of each server is the highest as often as its weight says. If weights are
// equal, the highest chance makes the highest bid.
double bid(std::uint64_t chance, std::uint64_t weight) {
    const double even = (static_cast<double>(chance >> 11) + 0.5) * 0x1p-53;  // 0 < even < 1
    return std::log(even) / static_cast<double>(weight);
}

}  // namespace

Chosen Hash::choose(SteadyTime now, std::uint64_t key, const Tried& tried) {
    const auto candidates = candidates_.find(servers_, now, slow_start_, tried);
    if (candidates.empty()) return std::nullopt;
    std::uint64_t requests = 1;  // this one
    std::uint64_t weights = 0;
    bool are_equal = true;
    for (const Candidate& candidate : candidates) {
        requests += candidate.active;
        weights += candidate.weight;
        are_equal = are_equal && candidate.weight == candidates.front().weight;
    }
    const Candidate* best = nullptr;
    std::uint64_t best_chance = 0;
    double best_bid = 0;
    for (const Candidate& candidate : candidates) {
        // With one more request, the server has at most its part, rounded up. At least one
        // candidate passes: together the parts are more than all requests. (The products stay below
        // 2^64 with a billion requests in flight.)
        const bool has_room =
            candidate.active * 100 * weights < kLoadPercent * requests * candidate.weight;
        if (!has_room) continue;
        const std::uint64_t chance = scrambled(key + candidate.id * kGoldenRatio);
        const double its = are_equal ? 0 : bid(chance, candidate.weight);
        if (best != nullptr && (are_equal ? chance <= best_chance : its <= best_bid)) continue;
        best = &candidate;
        best_chance = chance;
        best_bid = its;
    }
    return best->index;
}

}  // namespace tidegate::balance

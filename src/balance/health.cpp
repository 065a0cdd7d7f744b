#include "balance/health.hpp"

#include <algorithm>
#include <utility>

namespace tidegate::balance {

namespace {

using std::chrono::nanoseconds;

// After so many avoidances in a row each further one lasts kAvoidedMax.
constexpr int kAvoidancesMax = 6;

// Says whether the end of its ejection would bring the server back: no other state keeps it out.
bool is_only_ejected(const ServerState& server, SteadyTime now) {
    const Rank rank = server.rank(now);
    return rank == Rank::ejected || rank == Rank::ejected_avoided;
}

bool holds(const Health::Servers& servers, const ServerState* server) {
    return std::any_of(servers.begin(), servers.end(),
                       [&](const auto& other) { return other.get() == server; });
}

}  // namespace

std::vector<ServerState*> Health::use(Servers servers, SteadyTime now) {
    const std::lock_guard lock(mutex_);
    for (const auto& server : servers_) {
        if (!holds(servers, server.get())) server->draining_ = true;
    }
    for (const auto& server : servers) {
        const bool is_new = !servers_.empty() && !holds(servers_, server.get());
        if (is_new) ServerState::set(server->slow_since_, now);
        server->draining_ = false;
    }
    servers_ = std::move(servers);
    return return_surplus(now);
}

HealthChange Health::note_failure(ServerState& server, ServerFailure failure, SteadyTime now) {
    if (failure == ServerFailure::connect) avoid(server, now);
    if (!settings_.eject) {
        server.failures_.fetch_add(1, std::memory_order_relaxed);
        return {};
    }
    const std::lock_guard lock(mutex_);
    if (server.rank(now) > Rank::avoided) return {};
    const auto failures = server.failures_.fetch_add(1, std::memory_order_relaxed) + 1;
    const bool is_due = failures >= static_cast<std::uint32_t>(settings_.eject->failures);
    return is_due ? eject(server, now) : HealthChange{};
}

HealthChange Health::note_check(ServerState& server, bool good, SteadyTime now) {
    const CheckVerdict verdict = server.verdict();
    const CheckVerdict found = good ? CheckVerdict::healthy : CheckVerdict::unhealthy;
    if (found == verdict) {
        server.contradictions_.store(0, std::memory_order_relaxed);
        return {};
    }
    const int needed = verdict == CheckVerdict::unknown ? 1
                       : good                           ? settings_.healthy_after
                                                        : settings_.unhealthy_after;
    const auto contradictions = server.contradictions_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (contradictions < static_cast<std::uint32_t>(needed)) return {};

    const std::lock_guard lock(mutex_);
    server.contradictions_.store(0, std::memory_order_relaxed);
    if (verdict == CheckVerdict::unhealthy) {
        // The result of the check is newer than the failures that ejected the server.
        ServerState::set(server.ejected_until_,
                         std::min(now, ServerState::get(server.ejected_until_)));
        ServerState::set(server.slow_since_, now);
        server.ejections_ = 0;
        server.failures_.store(0, std::memory_order_relaxed);
        end_avoidance(server);
    }
    server.verdict_.store(found, std::memory_order_relaxed);
    HealthChange change;
    if (!good) {
        change.kind = HealthChange::Kind::became_unhealthy;
    } else if (verdict == CheckVerdict::unhealthy) {
        change.kind = HealthChange::Kind::became_healthy;
    }
    return change;
}

// Several connections may fail at once because the pool made them at once: these failures count
// once.
void Health::avoid(ServerState& server, SteadyTime now) {
    std::uint8_t avoidances = server.avoidances_.load(std::memory_order_relaxed);
    if (!server.is_avoided(now)) {
        avoidances = static_cast<std::uint8_t>(std::min(avoidances + 1, kAvoidancesMax));
        server.avoidances_.store(avoidances, std::memory_order_relaxed);
    }
    const int doublings = server.shares_name() ? std::max(avoidances - 1, 0) : 0;
    const nanoseconds time = std::min<nanoseconds>(kAvoided * (1 << doublings), kAvoidedMax);
    ServerState::set(server.avoid_until_,
                     std::max(now + time, ServerState::get(server.avoid_until_)));
}

void Health::end_avoidance(ServerState& server) {
    server.avoid_until_.store(0, std::memory_order_relaxed);
    server.avoidances_.store(0, std::memory_order_relaxed);
}

bool Health::forget_failures(ServerState& server) {
    end_avoidance(server);
    return server.failures_.exchange(0, std::memory_order_relaxed) != 0;
}

HealthChange Health::eject(ServerState& server, SteadyTime now) {
    if (ejections_max() == 0 || !holds(servers_, &server)) return {};
    HealthChange change;
    change.kind = HealthChange::Kind::ejected;
    change.ejected_for = next_duration(server, now);
    ++server.ejections_;
    server.ejection_order_ = ++ejections_;
    server.failures_.store(0, std::memory_order_relaxed);
    server.avoidances_.store(0, std::memory_order_relaxed);
    ServerState::set(server.slow_since_, now + change.ejected_for);
    ServerState::set(server.ejected_until_, now + change.ejected_for);
    change.returned = return_surplus(now);
    return change;
}

std::size_t Health::ejections_max() const {
    if (servers_.size() < 2 || !settings_.eject) return 0;
    const std::size_t part = servers_.size() * static_cast<std::size_t>(settings_.eject->at_most);
    return std::max<std::size_t>(1, part / 100);
}

// Ends the ejections of the servers that were out longest, until ejections_max() are left. It does
// not count unhealthy servers, which would not come back.
std::vector<ServerState*> Health::return_surplus(SteadyTime now) {
    std::vector<ServerState*> out;
    for (const auto& server : servers_) {
        if (is_only_ejected(*server, now)) out.push_back(server.get());
    }
    const std::size_t most = ejections_max();
    if (out.size() <= most) return {};
    std::sort(out.begin(), out.end(), [](const ServerState* one, const ServerState* other) {
        return one->ejection_order_ < other->ejection_order_;
    });
    out.resize(out.size() - most);
    for (ServerState* server : out) {
        ServerState::set(server->slow_since_, now);
        ServerState::set(server->ejected_until_, now);
        // An ejection that was cut short does not make the next one longer: where most servers
        // fail, they would take turns until each is out for minutes.
        if (server->ejections_ > 0) --server->ejections_;
    }
    return out;
}

nanoseconds Health::next_duration(ServerState& server, SteadyTime now) const {
    if (now - ServerState::get(server.ejected_until_) >= kEjectedMax) server.ejections_ = 0;
    nanoseconds duration = settings_.eject->duration;
    for (std::uint32_t i = 0; i < server.ejections_ && duration < kEjectedMax; ++i) {
        duration = std::min<nanoseconds>(2 * duration, kEjectedMax);
    }
    return duration;
}

}  // namespace tidegate::balance

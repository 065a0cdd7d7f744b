#include "upstream/group.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/units.hpp"
#include "net/deadline.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::upstream {

namespace {

std::string address_of(const config::UpstreamServer& configured,
                       const StreamProtocol::endpoint& endpoint) {
    if (configured.address.is_unix()) return configured.address.to_string();
    asio::ip::tcp::endpoint tcp;
    tcp.resize(endpoint.size());
    std::copy_n(static_cast<const char*>(static_cast<const void*>(endpoint.data())),
                endpoint.size(), static_cast<char*>(static_cast<void*>(tcp.data())));
    return config::Address{tcp.address().to_string(), tcp.port(), {}}.to_string();
}

// FNV-1a: the same in every process, so that a hash chooses the same server in all of them.
std::uint64_t id_of(const std::string& address) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : address) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return hash;
}

ServerHealth health_of(const balance::ServerState& state, SteadyTime now) {
    if (state.verdict() == balance::CheckVerdict::unhealthy) return ServerHealth::unhealthy;
    return state.is_ejected(now) ? ServerHealth::ejected : ServerHealth::up;
}

using balance::HealthChange;
using telemetry::Level;
using telemetry::log;

// Where `queue` is off, so many requests may wait for other threads to close idle connections.
constexpr std::uint32_t kWaitingForIdleMax = 64;

balance::HealthSettings health_settings(const config::Upstream& settings) {
    balance::HealthSettings health;
    if (settings.health_check) {
        health.unhealthy_after = settings.health_check->unhealthy_after;
        health.healthy_after = settings.health_check->healthy_after;
    }
    if (settings.eject) {
        health.eject = balance::EjectSettings{.failures = settings.eject->failures,
                                              .duration = settings.eject->duration,
                                              .at_most = settings.eject->at_most_percent};
    }
    return health;
}

// Too many descriptors are in use: that says nothing about a server.
bool is_shortage_here(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

constexpr EnumTexts<balance::ServerFailure> kFailures(
    {{balance::ServerFailure::connect, "the proxy cannot connect to it"},
     {balance::ServerFailure::timeout, "it does not answer in time"},
     {balance::ServerFailure::broken, "its answers are broken"}});

}  // namespace

SharedServer::SharedServer(const config::UpstreamServer& configured,
                           const StreamProtocol::endpoint& at, std::size_t workers)
    : name(configured.address.to_string()),
      address(address_of(configured, at)),
      authority(configured.authority),
      tls_host(configured.is_tls ? configured.address.host : std::string()),
      is_http2(configured.is_http2),
      endpoint(at),
      state(id_of(address), configured.weight),
      counts(workers) {}

std::uint64_t SharedServer::active() const {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    for (const Counts& worker : counts) {
        ended += worker.ended.value();
        begun += worker.requests.value();
    }
    return begun > ended ? begun - ended : 0;
}

std::shared_ptr<const TlsClient> Group::make_tls(const config::Upstream& settings) {
    const auto& servers = settings.servers;
    if (std::none_of(servers.begin(), servers.end(), [](auto& one) { return one.is_tls; })) {
        return nullptr;
    }
    auto made = TlsClient::make(settings.tls);
    if (!made) {
        throw std::runtime_error("upstreams." + settings.name + ".tls: " + made.error());
    }
    return std::move(*made);
}

Group::Group(const config::Upstream& settings, std::size_t workers, const Group* former)
    : Group(settings, workers, former, make_tls(settings)) {}

Group::Group(config::Upstream settings, std::size_t workers, const Group* former,
             std::shared_ptr<const TlsClient> tls)
    : settings_(std::move(settings)),
      tls_(std::move(tls)),
      workers_(workers),
      health_(health_settings(settings_)),
      seats_(static_cast<std::uint32_t>(settings_.max_connections),
             settings_.queue.max > 0 ? static_cast<std::uint32_t>(settings_.queue.max)
                                     : kWaitingForIdleMax),
      addresses_(settings_.servers.size()),
      names_tried_(settings_.servers.size()),
      names_failing_(settings_.servers.size()),
      worker_rooms_(workers) {
    for (std::size_t i = 0; i < settings_.servers.size(); ++i) {
        const config::Address& address = settings_.servers[i].address;
        if (address.is_unix()) {
            addresses_[i] = {asio::local::stream_protocol::endpoint(address.unix_path)};
            continue;
        }
        error_code not_an_ip;
        const auto ip = asio::ip::make_address(address.host, not_an_ip);
        if (!not_an_ip) addresses_[i] = {asio::ip::tcp::endpoint(ip, address.port)};
        if (!not_an_ip || former == nullptr) continue;
        for (std::size_t k = 0; k < former->settings_.servers.size(); ++k) {
            if (former->settings_.servers[k].address == address)
                addresses_[i] = former->addresses_[k];
        }
    }
    publish();
}

bool Group::has_idle_elsewhere(std::size_t worker) const {
    for (std::size_t i = 0; i < worker_rooms_.size(); ++i) {
        if (i != worker && worker_rooms_[i].idle.load(std::memory_order_relaxed) > 0) return true;
    }
    return false;
}

void Group::on_ask_for_room(std::size_t worker, std::function<void()> make_room) {
    const std::lock_guard lock(mutex_);
    worker_rooms_[worker].make_room = std::move(make_room);
}

std::vector<IpAddress> Group::note_crowds(std::size_t worker, std::vector<IpAddress> crowds) {
    std::vector<IpAddress> all;
    const std::lock_guard lock(mutex_);
    worker_rooms_[worker].crowds = std::move(crowds);
    for (const WorkerRoom& room : worker_rooms_) {
        all.insert(all.end(), room.crowds.begin(), room.crowds.end());
    }
    return all;
}

void Group::ask_for_room(std::size_t worker) {
    if (!has_idle_elsewhere(worker)) return;
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < worker_rooms_.size(); ++i) {
        const WorkerRoom& room = worker_rooms_[i];
        if (i == worker || room.idle.load(std::memory_order_relaxed) == 0) continue;
        if (room.make_room) room.make_room();
    }
}

bool Group::is_checked() const {
    if (!settings_.health_check) return true;
    const Servers all = servers();
    return std::all_of(all.begin(), all.end(), [](const auto& server) {
        return server->state.verdict() != balance::CheckVerdict::unknown;
    });
}

Group::Servers Group::servers() const {
    const std::lock_guard lock(mutex_);
    return servers_;
}

bool Group::is_name(const config::UpstreamServer& server) {
    if (server.address.is_unix()) return false;
    error_code not_an_ip;
    asio::ip::make_address(server.address.host, not_an_ip);
    return not_an_ip.failed();
}

bool Group::is_resolved() const {
    return std::none_of(addresses_.begin(), addresses_.end(),
                        [](const Endpoints& endpoints) { return endpoints.empty(); });
}

bool Group::are_names_tried() const {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
        if (addresses_[i].empty() && !names_tried_[i]) return false;
    }
    return true;
}

// Sorted, as name servers change the order of addresses from answer to answer.
void Group::resolved(std::size_t configured, const Endpoints& endpoints) {
    Endpoints sorted = endpoints;
    std::sort(sorted.begin(), sorted.end());
    names_tried_[configured] = true;
    names_failing_[configured] = sorted.empty();
    if (sorted.empty() || addresses_[configured] == sorted) return;
    addresses_[configured] = std::move(sorted);
    publish();
}

// Servers that stay are the same objects, with their state. Two names may lead to the same address:
// it is one server, with the weight of the first.
void Group::publish() {
    const Servers before = servers();
    Servers next;
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
        const bool shares_name = addresses_[i].size() > 1;
        for (const StreamProtocol::endpoint& endpoint : addresses_[i]) {
            const auto at = [&](const auto& server) { return server->endpoint == endpoint; };
            if (std::any_of(next.begin(), next.end(), at)) continue;
            const auto known = std::find_if(before.begin(), before.end(), at);
            next.push_back(known != before.end() ? *known
                                                 : std::make_shared<SharedServer>(
                                                       settings_.servers[i], endpoint, workers_));
            next.back()->state.set_shares_name(shares_name);
        }
    }
    if (next == before) return;
    balance::Health::Servers states;
    for (const auto& server : next) states.emplace_back(server, &server->state);
    for (const auto& gone : before) {
        if (std::find(next.begin(), next.end(), gone) != next.end()) continue;
        log(Level::info, "upstream {}: {} gets no new requests: {} no longer leads to it",
            settings_.name, gone->address, gone->name);
    }
    {
        const std::lock_guard lock(mutex_);
        servers_ = std::move(next);
    }
    // Before the other servers drain: a worker that finds all its servers draining reads the
    // version again.
    version_.fetch_add(1, std::memory_order_release);
    log_returned(health_.use(std::move(states), steady_now()));
}

std::shared_ptr<SharedServer> Group::find(const balance::ServerState& state) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(servers_.begin(), servers_.end(),
                                    [&](const auto& one) { return &one->state == &state; });
    return found == servers_.end() ? nullptr : *found;
}

void Group::note_failure(SharedServer& server, balance::ServerFailure failure, int error,
                         const std::string& tls_why) {
    if (!tls_why.empty()) {
        log_connect_failure(server, tls_why);
    } else if (failure == balance::ServerFailure::connect) {
        log_connect_failure(server, error_code(error, boost::system::system_category()).message());
        if (is_shortage_here(error)) return;
    }
    const HealthChange change = health_.note_failure(server.state, failure, steady_now());
    if (change.kind == HealthChange::Kind::ejected) ++server.ejections;
    log_change(server, change, std::string(kFailures[failure]));
}

void Group::note_check(SharedServer& server, const std::string& fault) {
    log_change(server, health_.note_check(server.state, fault.empty(), steady_now()), fault);
}

void Group::log_change(const SharedServer& server, const HealthChange& change,
                       const std::string& why) {
    switch (change.kind) {
        case HealthChange::Kind::none:
            break;
        case HealthChange::Kind::became_healthy:
            log(Level::info, "upstream {}: {} is healthy again", settings_.name, server.address);
            break;
        case HealthChange::Kind::became_unhealthy:
            log(Level::warn, "upstream {}: {} is unhealthy and gets no requests: {}",
                settings_.name, server.address, why);
            break;
        case HealthChange::Kind::ejected:
            log_ejection(server, change.ejected_for, why);
            break;
    }
    log_returned(change.returned);
}

// At most once a minute for a server: where most servers fail, they take turns.
void Group::log_ejection(const SharedServer& server, std::chrono::nanoseconds time,
                         const std::string& why) const {
    const std::uint64_t times = telemetry::repeated_failures().note(
        "eject " + settings_.name + " " + server.address, steady_now());
    if (times == 0) return;
    log(Level::warn, "upstream {}: {} failed {} requests in a row ({}) and is ejected for {}{}",
        settings_.name, server.address, settings_.eject->failures, why,
        format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(time)),
        telemetry::times_text(times));
}

void Group::log_returned(const std::vector<balance::ServerState*>& states) const {
    for (const balance::ServerState* state : states) {
        const auto returned = find(*state);
        if (returned == nullptr) continue;
        log(Level::debug,
            "upstream {}: {} is no longer ejected: at most {} % of the servers may be at once",
            settings_.name, returned->address, settings_.eject->at_most_percent);
    }
}

// Logs at most once a minute, for all threads.
void Group::log_connect_failure(const SharedServer& server, const std::string& why) const {
    const std::uint64_t times =
        telemetry::repeated_failures().note(failure_kind(server), steady_now());
    if (times == 0) return;
    log(Level::warn, "upstream {}: cannot connect to {}: {}{}", settings_.name, server.address, why,
        telemetry::times_text(times));
}

void Group::log_recovery(const SharedServer& server) const {
    if (!telemetry::repeated_failures().recovered(failure_kind(server))) return;
    log(Level::info, "upstream {}: {} is back", settings_.name, server.address);
}

std::string Group::failure_kind(const SharedServer& server) const {
    return "connect " + settings_.name + " " + server.address;
}

Group::ServerCounts Group::count_servers() const {
    ServerCounts counts;
    const SteadyTime now = steady_now();
    for (const auto& server : servers()) {
        ++counts.all;
        if (health_of(server->state, now) == ServerHealth::up) ++counts.up;
    }
    return counts;
}

UpstreamStatus Group::status() const {
    UpstreamStatus status;
    status.upstream = settings_.name;
    const SteadyTime now = steady_now();
    for (const auto& server : servers()) {
        const balance::ServerState& state = server->state;
        ServerStatus& one = status.servers.emplace_back();
        one.server = server->address;
        one.configured = server->name;
        one.weight = static_cast<int>(state.weight());
        one.is_checked = state.verdict() != balance::CheckVerdict::unknown;
        one.health = health_of(state, now);
        one.active = static_cast<std::uint32_t>(server->active());
        for (const SharedServer::Counts& worker : server->counts) {
            one.requests += worker.requests.value();
            one.failures += worker.failures.value();
        }
        one.ejections = server->ejections.load(std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
        if (!addresses_[i].empty()) continue;
        status.unresolved.push_back(settings_.servers[i].address.to_string());
    }
    status.names_failing =
        static_cast<std::uint32_t>(std::count(names_failing_.begin(), names_failing_.end(), true));
    status.connections = seats_.taken();
    status.connections_max = static_cast<std::uint32_t>(settings_.max_connections);
    status.queued = seats_.waiting();
    return status;
}

}  // namespace tidegate::upstream

#include "upstream/pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "telemetry/error_log.hpp"

namespace tidegate::upstream {

namespace {

using telemetry::Level;
using telemetry::log;

// A worker's share of a total; 0 only of 0.
std::size_t share_of(std::size_t total, std::size_t workers) {
    return total == 0 ? 0 : std::max<std::size_t>(1, total / workers);
}

}  // namespace

Pool::Pool(const Loop& loop, GroupPtr group, std::size_t worker, std::size_t metrics_slot)
    : executor_(loop.executor),
      readiness_(loop.readiness),
      buffers_(loop.buffers),
      group_(std::move(group)),
      has_http2_(settings().has_http2()),
      http2_{loop.executor, loop.deadlines, loop.buffers, loop.metrics},
      worker_(worker),
      metrics_slot_(metrics_slot),
      idle_max_(share_of(settings().idle_connections, group_->workers())),
      all_{{}, Chooser(settings(), worker)},
      requests_(share_of(settings().max_connections, group_->workers())),
      metrics_(loop.metrics),
      tls_(group_->tls() == nullptr ? nullptr : group_->tls()->copy()) {
    if (group_->tls() != nullptr && tls_ == nullptr) throw std::bad_alloc();
    if (settings().has_http2() && settings().has_http1()) {
        http2_only_.emplace(Choice{{}, Chooser(settings(), worker)});
    }
    follow_group();
}

// No request holds the pool any more.
Pool::~Pool() {
    for (const ServerPtr& server : all_.servers) close_shared(*server, false);
}

void Pool::follow_group() {
    // First the version: servers that come after it are seen the next time.
    version_ = group_->version();
    std::vector<ServerPtr> next;
    for (auto& shared : group_->servers()) {
        const auto known =
            std::find_if(all_.servers.begin(), all_.servers.end(),
                         [&](const auto& server) { return server->shared_ptr() == shared; });
        next.push_back(known != all_.servers.end()
                           ? *known
                           : ServerPtr(new Server(std::move(shared), worker_)));
    }
    std::swap(all_.servers, next);
    for (const ServerPtr& before : next) {
        if (has(*before)) continue;
        before->retire();
        forget_idle(*before);
    }
    all_.chooser.reset(all_.servers);
    if (!http2_only_) return;
    http2_only_->servers.clear();
    for (const ServerPtr& server : all_.servers) {
        if (server->speaks_http2()) http2_only_->servers.push_back(server);
    }
    http2_only_->chooser.reset(http2_only_->servers);
}

bool Pool::has(const Server& server) const {
    return std::any_of(all_.servers.begin(), all_.servers.end(),
                       [&](const ServerPtr& one) { return one.get() == &server; });
}

Server* Pool::choose(std::optional<std::uint64_t> key, const balance::Tried& tried,
                     bool needs_http2) {
    auto& [servers, chooser] = needs_http2 && http2_only_ ? *http2_only_ : all_;
    for (;;) {
        if (group_->version() != version_) follow_group();
        balance::Chosen chosen;
        if (servers.size() != 1) {
            chosen = chooser.choose(key, steady_now(), tried);
        } else if (!is_out(*servers[0])) {
            chosen = 0;
        }
        if (chosen) return servers[*chosen].get();
        // Names may just have got other addresses.
        if (group_->version() == version_) return nullptr;
    }
}

bool Pool::has_untried(const balance::Tried& tried, bool needs_http2) const {
    const std::vector<ServerPtr>& servers = choice(needs_http2).servers;
    return std::any_of(servers.begin(), servers.end(), [&](const ServerPtr& server) {
        return !is_out(*server) && !tried.has(server->shared().state);
    });
}

std::size_t Pool::count_active() const {
    std::size_t sum = 0;
    for (const ServerPtr& server : all_.servers) sum += server->shared().active();
    return sum;
}

bool Pool::admit(ActiveRequest& request) {
    if (requests_.is_short()) {
        const std::size_t free = settings().max_connections - group_->seats().taken() + idle_;
        if (!requests_.admits(request, free, steady_now())) return false;
    }
    requests_.add(request);
    return true;
}

bool Pool::take_idle(Server& server, Stream& stream) {
    if (group_->seats().waiting() > 0) return false;
    return server.speaks_http2() ? take_shared(server, stream) : open_idle(server, stream);
}

bool Pool::take_idle(Server& server, Stream& stream, Seat& seat) {
    if (server.speaks_http2() || !open_idle(server, stream)) return false;
    seat = Seat();
    return true;
}

bool Pool::open_idle(Server& server, Stream& stream) {
    while (server.idle_count() > 0) {
        ConnectionPtr connection = server.take_idle();
        count_idle(-1);
        // An idle connection that became readable was closed, or its server speaks out of turn: the
        // proxy must never take its bytes for the next answer.
        if (!connection->has_spoken()) {
            stream.open(server, std::move(connection), true);
            return true;
        }
        forget(connection);
    }
    return false;
}

Seat Pool::take_seat(const ActiveRequest& request) {
    balance::Seats& seats = group_->seats();
    // If requests wait, the seat of the idle connection goes to the first of them.
    if (seats.try_take() || (forget_oldest_idle() && seats.try_take())) return Seat(seats);
    // The evicted request's seat does not go to the queue: without this request it would not be
    // free.
    return evict_for(request, steady_now()) ? Seat(seats) : Seat();
}

bool Pool::begin_wait(SeatWait& wait) {
    const bool is_on = settings().queue.max > 0;
    if (!is_on && !group_->has_idle_elsewhere(worker_)) return false;
    waiting_.push_back(wait);
    const SeatWait::Answer answer = wait.take();
    if (answer == SeatWait::Answer::full) {
        wait.unlink();
        return false;
    }
    // Searches for a request to evict leave out the queue.
    wait.request().unlink();
    if (answer == SeatWait::Answer::waiting) group_->ask_for_room(worker_);
    return true;
}

void Pool::end_wait(SeatWait& wait, const Server& server, Reuse reuse, Stream& stream, Seat& seat) {
    wait.unlink();
    requests_.add(wait.request());
    Spare spare = wait.take_spare();
    if (!spare.connection) return;
    const bool fits =
        reuse == Reuse::any_server || (reuse == Reuse::own_server && spare.server.get() == &server);
    if (!fits || is_out(*spare.server) || spare.connection->has_spoken()) {
        close(spare.connection);
        return;
    }
    seat.release();
    stream.open(*spare.server, std::move(spare.connection), true);
}

void Pool::leave_queue(SeatWait& wait) {
    wait.unlink();
    const Spare spare = wait.leave();
    if (spare.connection) close(spare.connection);
}

void Pool::give_back(Stream& stream) {
    if (stream.is_http2()) return end_stream(stream);
    remember_session(stream.http1());
    if (idle_ >= idle_max_ || stopped_ || stream.is_evicted() || stream.server().is_retired() ||
        is_out(stream.server())) {
        throw_away(stream);
        return;
    }
    auto [server, connection] = stream.http1().release();
    connection->watch_read(nullptr);
    if (group_->seats().waiting() > 0) {
        const Spare left =
            SeatWait::give_back(group_->seats(), {std::move(server), std::move(connection)});
        if (left.connection) close(left.connection);
        return;
    }
    server->add_idle(std::move(connection), steady_now());
    count_idle(1);
}

Seat Pool::keep_seat(Stream& stream) {
    if (stream.is_http2()) return keep_shared_seat(stream);
    Http1Stream& http1 = stream.http1();
    Seat seat;
    remember_session(http1);
    if (http1.evict()) {
        close(http1.connection());
        seat = Seat(group_->seats());
    }
    http1.release();
    return seat;
}

void Pool::throw_away(Stream& stream) {
    if (stream.is_http2()) return end_stream(stream);
    if (stream) {
        remember_session(stream.http1());
        if (stream.http1().evict()) forget(stream.http1().connection());
    }
    stream.http1().release();
}

void Pool::abort(Stream& stream) {
    if (stream.is_http2()) return end_stream(stream);
    if (stream) remember_session(stream.http1());
    evict(stream);
    stream.http1().release();
}

std::unique_ptr<TunnelStream> Pool::open_tunnel(Stream& stream, ActiveRequest& request) {
    remember_session(stream.http1());
    return std::make_unique<TunnelStream>(*this, buffers_, stream.http1(), request);
}

void Pool::evict(Stream& stream) {
    if (!stream) return;
    if (!stream.is_http2()) {
        if (!stream.http1().evict()) return;
        // A FIN would wait behind what the server has not read, so that it would learn nothing of
        // the end, and each exchange that a client gives up would keep a port for a minute.
        stream.http1().connection()->reset();
        metrics_.connections.closed.add();
        if (!keeps_seats_) group_->seats().give_back();
    } else if (stream.http2().evict()) {
        stream.http2().cancel();
        if (!keeps_seats_) group_->seats().give_back();
    }
}

void Pool::sweep(SteadyTime time) {
    if (group_->version() != version_) follow_group();
    for (const ServerPtr& server : all_.servers) {
        sweep_shared(*server, time);
        server->erase_idle_if([&](const Server::Idle& idle) {
            const bool is_stale =
                idle.connection->has_spoken() || idle.since + settings().idle_timeout <= time;
            if (is_stale) {
                count_idle(-1);
                forget(idle.connection);
            }
            return is_stale;
        });
    }
}

void Pool::make_room_now(SteadyTime now) {
    constexpr int kEvictedAtOnce = 16;
    while (group_->seats().waiting() > 0 && forget_oldest_idle()) {
    }
    int left = kEvictedAtOnce;
    left -= evict_for_waiting(left, now);
    left -= evict_crowds_for_others(left, now);
    evict_slow(left, now);
}

// A request that waits here and has another one evicted gets its seat, as in take_seat().
int Pool::evict_for_waiting(int count_max, SteadyTime now) {
    int count = 0;
    for (SeatWait& wait : waiting_) {
        if (count == count_max) break;
        if (!wait.is_waiting() || !evict_for(wait.request(), now)) continue;
        wait.take_over_seat();
        ++count;
    }
    return count;
}

// The connections of an address may all be this thread's while a request of another thread waits:
// it gets the seat of one, unless its own address has more than its share in any thread. So no two
// addresses evict each other's requests by turns.
int Pool::evict_crowds_for_others(int count_max, SteadyTime now) {
    balance::Seats& seats = group_->seats();
    if (count_max == 0 || seats.waiting() == 0) return 0;
    std::vector<IpAddress> here = requests_.crowds();
    const bool has_crowds = !here.empty();
    const std::vector<IpAddress> all = group_->note_crowds(worker_, std::move(here));
    int count = 0;
    while (has_crowds && count < count_max && seats.has_waiters_besides(all)) {
        ActiveRequest* const found = requests_.find_evictable_for_others(now);
        if (found == nullptr) break;
        evict(*found, now);
        seats.give_back_besides(all);
        ++count;
    }
    return count;
}

// The first requests in the queue get the seats of uploads and answers that are slow, whatever
// their address.
void Pool::evict_slow(int count_max, SteadyTime now) {
    balance::Seats& seats = group_->seats();
    for (int left = count_max; left > 0 && seats.waiting() > 0; --left) {
        ActiveRequest* const slow = requests_.find_slow(now);
        if (slow == nullptr) return;
        evict(*slow, now);
        seats.give_back();
    }
}

void Pool::stop() {
    stopped_ = true;
    for (const ServerPtr& server : all_.servers) forget_idle(*server);
}

void Pool::forget_idle(Server& server) {
    close_shared(server, true);
    server.erase_idle_if([&](const Server::Idle& idle) {
        count_idle(-1);
        forget(idle.connection);
        return true;
    });
}

// Idle connections to one server must not keep those to another from being made.
bool Pool::forget_oldest_idle() {
    Server* oldest = nullptr;
    for (const ServerPtr& server : all_.servers) {
        if (server->idle_count() > 0 &&
            (oldest == nullptr || server->oldest_idle_since() < oldest->oldest_idle_since())) {
            oldest = server.get();
        }
    }
    if (oldest == nullptr) return false;
    count_idle(-1);
    forget(oldest->take_oldest_idle());
    return true;
}

bool Pool::evict_for(const ActiveRequest& request, SteadyTime now) {
    ActiveRequest* const evicted = requests_.find_evictable(request, now);
    if (evicted == nullptr) return false;
    evict(*evicted, now);
    return true;
}

// The connection is closed when this returns, and the caller has its seat.
void Pool::evict(ActiveRequest& request, SteadyTime now) {
    log_eviction(request, now);
    keeps_seats_ = true;
    request.evict();
    keeps_seats_ = false;
}

void Pool::log_eviction(const ActiveRequest& evicted, SteadyTime now) {
    if (!eviction_log_.is_due(now)) return;
    const auto key = evicted.key();
    log(Level::warn,
        "upstream {}: all {} connections are in use, {} of this thread's by {}; the proxy ends "
        "requests whose clients are slow, to make room. Raise upstreams.{}.max_connections if this "
        "is normal load",
        settings().name, settings().max_connections, requests_.held_by(key),
        key ? key->to_string() : "clients without an address", settings().name);
}

}  // namespace tidegate::upstream

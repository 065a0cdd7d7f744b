// The main thread watches an upstream as long as a configuration has it: Resolver looks up the
// names of its servers (DNS), and HealthChecks checks their health.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "net/name_lookup.hpp"
#include "upstream/group.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::upstream {

// Keeps the names of an upstream's servers resolved. A name that never led anywhere has no server;
// a name whose look-up fails keeps its addresses. On the main thread.
class Resolver {
  public:
    Resolver(const Executor& executor, GroupPtr group)
        : group_(std::move(group)), timer_(executor) {}

    // Looks names up again and again, if the upstream has any. Spawn once; ends soon after stop().
    static Task<> run(std::shared_ptr<Resolver> self);
    void stop();

  private:
    Task<> resolve(std::vector<std::size_t> names);
    void take(std::size_t configured, const NameLookup& lookup);

    const GroupPtr group_;
    Timer timer_;
    bool stopped_ = false;
};

// Checks each server of an upstream every `every` of its `health_check`. One object for the
// process, on the main thread, so that workers do not multiply the checks.
//
// Checks over HTTP/1 may keep their connection, one for each server, for the next check. The
// connection goes when a check fails, when the server drains, and with stop().

// For how long a connection serves checks: what only a new connection shows, such as a listener
// that is gone, is noticed by then.
inline constexpr std::chrono::minutes kKeptMax{1};

// Whether a connection of `age` to a server with `verdict` may be kept for the next check, which
// comes in `pause`. Pure.
bool keeps_connection(const config::Upstream& settings, balance::CheckVerdict verdict,
                      std::chrono::nanoseconds age, std::chrono::nanoseconds pause);

// The last tick not after `time`. Checks begin at ticks, twenty in `every`, so that checks of many
// servers wake the thread together; `phase` moves the ticks, so that two processes have others.
// Pure.
SteadyTime shared_tick(SteadyTime time, std::chrono::milliseconds every,
                       std::chrono::nanoseconds phase);

class HealthChecks : public std::enable_shared_from_this<HealthChecks> {
  public:
    HealthChecks(const Executor& executor, GroupPtr group);

    // Does nothing if the upstream has no `health_check`. Spawn once; ends soon after stop().
    static Task<> run(std::shared_ptr<HealthChecks> self);
    void stop();

  private:
    using ServerPtr = std::shared_ptr<SharedServer>;

    // The checks of one server, and their connection.
    struct Watched {
        Watched(ServerPtr server_of_it, const Executor& executor)
            : server(std::move(server_of_it)), pause(executor) {}

        const ServerPtr server;
        Timer pause;                          // until the next check
        std::shared_ptr<TimedSocket> socket;  // null, of a check, or kept for the next one
        SteadyTime connected_at;
    };
    using WatchedPtr = std::shared_ptr<Watched>;

    void follow_group();
    // Checks a server until it drains.
    static Task<> watch(std::shared_ptr<HealthChecks> self, WatchedPtr one);
    // Makes one check. The next one comes at `next`.
    Task<HealthAnswer> check(Watched& one, SteadyTime next);
    // Called after check(). True if the connection stays for the next one.
    Task<bool> keep(const Watched& one, HealthAnswer answer);
    bool is_over(const Watched& one) const { return stopped_ || one.server->state.is_draining(); }
    static void end(Watched& one);
    std::chrono::milliseconds next_pause();

    const Executor executor_;
    const GroupPtr group_;
    Timer changed_;                         // waits for servers to come; stop() ends the wait
    std::optional<std::uint64_t> version_;  // of the group's servers; unset: not looked yet
    std::vector<WatchedPtr> watched_;
    std::minstd_rand random_;
    bool stopped_ = false;
};

class Watch {
  public:
    Watch(const Executor& executor, GroupPtr group)
        : group_(std::move(group)),
          resolver_(std::make_shared<Resolver>(executor, group_)),
          checks_(std::make_shared<HealthChecks>(executor, group_)) {
        spawn_vital(executor, Resolver::run(resolver_));
        spawn_vital(executor, HealthChecks::run(checks_));
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() {
        resolver_->stop();
        checks_->stop();
    }

    const GroupPtr& group() const { return group_; }

  private:
    GroupPtr group_;
    std::shared_ptr<Resolver> resolver_;
    std::shared_ptr<HealthChecks> checks_;
};

}  // namespace tidegate::upstream

#include "upstream/resolver_health_checks.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "telemetry/error_log.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::upstream {

namespace {

// How soon a name that never had an address is looked up again.
constexpr std::chrono::milliseconds kUnresolvedPause{1'000};
// How often the resolver asks whether a look-up is done.
constexpr std::chrono::milliseconds kLookupPause{10};
// Look-ups of one upstream at a time: each has a thread.
constexpr std::size_t kLookupsMax = 16;

using std::chrono::milliseconds;

// How often the checks look whether names lead to other servers.
constexpr milliseconds kFollowEvery{500};

// One for the process: the clock is that of all processes of the machine.
std::chrono::nanoseconds phase_of_ticks() {
    static const std::chrono::nanoseconds drawn{std::random_device{}()};
    return drawn;
}

}  // namespace

Task<> Resolver::run(std::shared_ptr<Resolver> self) {
    const config::Upstream& settings = self->group_->settings();
    std::vector<std::size_t> names;
    for (std::size_t i = 0; i < settings.servers.size(); ++i) {
        if (Group::is_name(settings.servers[i])) names.push_back(i);
    }
    if (names.empty()) co_return;
    while (!self->stopped_) {
        co_await self->resolve(names);
        if (self->stopped_) break;
        const auto pause = settings.resolve_every;
        self->timer_.expires_after(self->group_->is_resolved() ? pause
                                                               : std::min(pause, kUnresolvedPause));
        co_await self->timer_.async_wait(as_values);
    }
}

void Resolver::stop() {
    stopped_ = true;
    timer_.cancel();
}

// Side by side: a name whose name server is silent keeps no other name waiting.
Task<> Resolver::resolve(std::vector<std::size_t> names) {
    struct Pending {
        std::size_t configured;
        NameLookup lookup;
    };
    std::vector<Pending> pending;
    while (!names.empty() || !pending.empty()) {
        for (; !names.empty() && pending.size() < kLookupsMax; names.pop_back()) {
            const config::Address& address = group_->settings().servers[names.back()].address;
            pending.push_back({names.back(), NameLookup(address.host, address.port)});
        }
        timer_.expires_after(kLookupPause);
        co_await timer_.async_wait(as_values);
        if (stopped_) co_return;
        std::erase_if(pending, [this](const Pending& one) {
            if (!one.lookup.done()) return false;
            take(one.configured, one.lookup);
            return true;
        });
    }
}

void Resolver::take(std::size_t configured, const NameLookup& lookup) {
    const config::Upstream& settings = group_->settings();
    const config::Address& address = settings.servers[configured].address;
    telemetry::RepeatedFailures& failures = telemetry::repeated_failures();
    const std::string kind = "resolve " + settings.name + " " + address.host;
    if (lookup.endpoints().empty()) {
        const std::uint64_t times = failures.note(kind, std::chrono::steady_clock::now());
        if (times != 0) {
            telemetry::log(telemetry::Level::warn, "upstream {}: cannot resolve {}: {}{}",
                           settings.name, address.host, lookup.error(),
                           telemetry::times_text(times));
        }
    } else if (failures.recovered(kind)) {
        telemetry::log(telemetry::Level::info, "upstream {}: {} resolves again", settings.name,
                       address.host);
    }
    group_->resolved(configured, lookup.endpoints());
}

bool keeps_connection(const config::Upstream& settings, balance::CheckVerdict verdict,
                      std::chrono::nanoseconds age, std::chrono::nanoseconds pause) {
    if (settings.idle_connections == 0 || verdict == balance::CheckVerdict::unhealthy) return false;
    return age + pause < std::min<std::chrono::nanoseconds>(kKeptMax, settings.idle_timeout);
}

SteadyTime shared_tick(SteadyTime time, std::chrono::milliseconds every,
                       std::chrono::nanoseconds phase) {
    constexpr int kTicksInEvery = 20;
    const std::chrono::nanoseconds tick = std::max(every / kTicksInEvery, milliseconds{1});
    return time - (time.time_since_epoch() + phase) % tick;
}

HealthChecks::HealthChecks(const Executor& executor, GroupPtr group)
    : executor_(executor),
      group_(std::move(group)),
      changed_(executor),
      random_(static_cast<std::minstd_rand::result_type>(
          std::chrono::steady_clock::now().time_since_epoch().count())) {}

Task<> HealthChecks::run(std::shared_ptr<HealthChecks> self) {
    if (!self->group_->settings().health_check) co_return;
    while (!self->stopped_) {
        self->follow_group();
        self->changed_.expires_after(kFollowEvery);
        co_await self->changed_.async_wait(as_values);
    }
}

void HealthChecks::stop() {
    stopped_ = true;
    changed_.cancel();
    for (const WatchedPtr& one : watched_) end(*one);
}

void HealthChecks::follow_group() {
    const std::uint64_t version = group_->version();
    if (std::exchange(version_, version) == version) return;
    for (const WatchedPtr& one : watched_) {
        if (one->server->state.is_draining()) end(*one);
    }
    for (const ServerPtr& server : group_->servers()) {
        const auto is_it = [&](const WatchedPtr& one) { return one->server == server; };
        if (std::any_of(watched_.begin(), watched_.end(), is_it)) continue;
        const auto one = std::make_shared<Watched>(server, executor_);
        watched_.push_back(one);
        spawn_vital(executor_, watch(shared_from_this(), one));
    }
}

void HealthChecks::end(Watched& one) {
    one.pause.cancel();
    if (one.socket != nullptr) one.socket->close();
}

Task<> HealthChecks::watch(std::shared_ptr<HealthChecks> self, WatchedPtr one) {
    while (!self->is_over(*one)) {
        // From beginning to beginning: a check that takes long does not stretch `every`.
        const SteadyTime next =
            shared_tick(steady_now() + self->next_pause(),
                        self->group_->settings().health_check->every, phase_of_ticks());
        HealthAnswer answer = co_await self->check(*one, next);
        if (self->is_over(*one)) break;
        if (answer.could_ask) self->group_->note_check(*one->server, answer.fault);
        const bool stays = co_await self->keep(*one, std::move(answer));
        if (!stays) one->socket.reset();
        if (self->is_over(*one)) break;
        one->pause.expires_at(next);
        co_await one->pause.async_wait(as_values);
    }
    if (one->socket != nullptr) one->socket->close();
    std::erase(self->watched_, one);
}

Task<HealthAnswer> HealthChecks::check(Watched& one, SteadyTime next) {
    const SteadyTime began = steady_now();
    HealthQuestion question{.endpoint = one.server->endpoint,
                            .authority = one.server->authority,
                            .settings = *group_->settings().health_check,
                            .tls_host = one.server->tls_host,
                            .tls = group_->tls(),
                            .is_http2 = one.server->is_http2};
    const auto keeps = [&] {
        return keeps_connection(group_->settings(), one.server->state.verdict(),
                                began - one.connected_at, next - began);
    };
    if (one.socket != nullptr && is_quiet(*one.socket)) {
        question.keeps = keeps();
        HealthAnswer answer = co_await check_health(one.socket, question);
        if (!answer.is_stale) co_return answer;
    }
    if (one.socket != nullptr) one.socket->close();
    one.socket = std::make_shared<TimedSocket>(StreamSocket(executor_));
    one.connected_at = began;
    question.keeps = keeps();
    question.spent = steady_now() - began;
    co_return co_await check_health(one.socket, question);
}

Task<bool> HealthChecks::keep(const Watched& one, HealthAnswer answer) {
    if (!answer.rest) co_return false;
    // The server may have closed in between: then the socket is no longer quiet.
    const bool is_whole = co_await read_rest(*one.socket, std::move(*answer.rest));
    if (is_whole && one.server->state.verdict() == balance::CheckVerdict::healthy) {
        one.socket->expect_nothing();
        co_return true;
    }
    one.socket->close();
    co_return false;
}

// Ten percent more or less, so that the checks of many proxies do not come at once; shared_tick()
// then takes up to five percent off.
milliseconds HealthChecks::next_pause() {
    const auto every = group_->settings().health_check->every;
    const std::int64_t tenth = every.count() / 10;
    return every +
           milliseconds(std::uniform_int_distribution<std::int64_t>(-tenth, tenth)(random_));
}

}  // namespace tidegate::upstream

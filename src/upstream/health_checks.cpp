#include "upstream/health_checks.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "upstream/health_check.hpp"

namespace tidegate::upstream {

namespace {

using std::chrono::milliseconds;

// How often the checks look whether names lead to other servers.
constexpr milliseconds kFollowEvery{500};

}  // namespace

HealthChecks::HealthChecks(const Executor& executor, GroupPtr group)
    : executor_(executor),
      group_(std::move(group)),
      changed_(executor),
      random_(static_cast<std::minstd_rand::result_type>(
          std::chrono::steady_clock::now().time_since_epoch().count())) {}

Task<> HealthChecks::run(std::shared_ptr<HealthChecks> self) {
    if (!self->group_->settings().health_check) co_return;
    while (!self->stopped_) {
        for (const ServerPtr& server : self->group_->servers()) {
            const auto is_it = [&](const auto& one) { return one.lock() == server; };
            if (std::any_of(self->watched_.begin(), self->watched_.end(), is_it)) continue;
            self->watched_.emplace_back(server);
            spawn_vital(self->executor_, watch(self, server));
        }
        self->changed_.expires_after(kFollowEvery);
        co_await self->changed_.async_wait(as_values);
    }
}

void HealthChecks::stop() {
    stopped_ = true;
    changed_.cancel();
    for (Timer* const pause : pauses_) pause->cancel();
    for (const auto& socket : sockets_) socket->close();
}

Task<> HealthChecks::watch(std::shared_ptr<HealthChecks> self, ServerPtr server) {
    Timer pause(self->executor_);
    self->pauses_.push_back(&pause);
    while (!self->stopped_ && !server->state.is_draining()) {
        // From beginning to beginning: a check that takes long does not stretch `every`.
        pause.expires_after(self->next_pause());
        const auto socket = std::make_shared<TimedSocket>(StreamSocket(self->executor_));
        self->sockets_.push_back(socket);
        const HealthAnswer answer =
            co_await check_health(socket, {.endpoint = server->endpoint,
                                           .authority = server->authority,
                                           .settings = *self->group_->settings().health_check,
                                           .tls_host = server->tls_host,
                                           .tls = self->group_->tls(),
                                           .is_http2 = server->is_http2});
        std::erase(self->sockets_, socket);
        if (self->stopped_ || server->state.is_draining()) break;
        if (answer.could_ask) self->group_->note_check(*server, answer.fault);
        co_await pause.async_wait(as_values);
    }
    std::erase(self->pauses_, &pause);
    std::erase_if(self->watched_, [&](const auto& one) { return one.lock() == server; });
}

// Ten percent more or less, so that the checks of many proxies do not come at once.
milliseconds HealthChecks::next_pause() {
    const auto every = group_->settings().health_check->every;
    const std::int64_t tenth = every.count() / 10;
    return every +
           milliseconds(std::uniform_int_distribution<std::int64_t>(-tenth, tenth)(random_));
}

}  // namespace tidegate::upstream

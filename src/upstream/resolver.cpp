#include "upstream/resolver.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "net/name_lookup.hpp"
#include "telemetry/log.hpp"
#include "telemetry/repeated_failures.hpp"

namespace tidegate::upstream {

namespace {

// How soon a name that never had an address is looked up again.
constexpr std::chrono::milliseconds kUnresolvedPause{1'000};
// How often the resolver asks whether a look-up is done.
constexpr std::chrono::milliseconds kLookupPause{10};

}  // namespace

Task<> Resolver::run(std::shared_ptr<Resolver> self) {
    const config::Upstream& settings = self->group_->settings();
    const auto& servers = settings.servers;
    if (std::none_of(servers.begin(), servers.end(), Group::is_name)) co_return;
    while (!self->stopped_) {
        for (std::size_t i = 0; i < servers.size() && !self->stopped_; ++i) {
            if (Group::is_name(servers[i])) co_await self->resolve(i);
        }
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

Task<> Resolver::resolve(std::size_t configured) {
    const config::Upstream& settings = group_->settings();
    const config::Address& address = settings.servers[configured].address;
    const NameLookup lookup(address.host, address.port);
    while (!lookup.done()) {
        timer_.expires_after(kLookupPause);
        co_await timer_.async_wait(as_values);
        if (stopped_) co_return;
    }
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

}  // namespace tidegate::upstream

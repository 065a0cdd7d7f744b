#include "upstream/resolver.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "telemetry/log.hpp"
#include "telemetry/log_interval.hpp"

namespace tidegate::upstream {

namespace {

// How soon a name that never had an address is looked up again.
constexpr std::chrono::milliseconds kUnresolvedPause{1'000};
// How often the resolver asks whether a look-up is done.
constexpr std::chrono::milliseconds kLookupPause{10};
// Look-ups of one upstream at a time: each has a thread.
constexpr std::size_t kLookupsMax = 16;

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

}  // namespace tidegate::upstream

#include "upstream/resolver.hpp"

#include <algorithm>
#include <chrono>

#include "net/name_lookup.hpp"
#include "telemetry/log.hpp"
#include "telemetry/repeated_failures.hpp"

namespace tidegate::upstream {

namespace {

// How soon a name that was never resolved is looked up again.
constexpr std::chrono::milliseconds kUnresolvedPause{1'000};
// How often the resolver asks whether a look-up is done.
constexpr std::chrono::milliseconds kLookupPause{10};

}  // namespace

void Resolver::use(const ResolvedNames& names) {
    for (Server& server : servers_) {
        if (!server.has_name() || server.is_resolved()) continue;
        const auto found = names.find(server.address());
        if (found != names.end()) server.resolved_to(found->second);
    }
}

void Resolver::add_to(ResolvedNames& names) const {
    for (const Server& server : servers_) {
        if (server.has_name() && server.is_resolved()) {
            names.try_emplace(server.address(), server.endpoints());
        }
    }
}

Task<> Resolver::run() {
    while (!stopped_) {
        bool all_resolved = true;
        for (Server& server : servers_) {
            if (server.has_name() && !stopped_) co_await resolve(server);
            all_resolved = all_resolved && server.is_resolved();
        }
        if (stopped_) break;
        const auto pause = settings_.resolve_every;
        timer_.expires_after(all_resolved ? pause : std::min(pause, kUnresolvedPause));
        co_await timer_.async_wait(as_values);
    }
}

void Resolver::stop() {
    stopped_ = true;
    timer_.cancel();
}

Task<> Resolver::resolve(Server& server) {
    const config::Address& address = server.settings().address;
    const NameLookup lookup(address.host, address.port);
    while (!lookup.done()) {
        timer_.expires_after(kLookupPause);
        co_await timer_.async_wait(as_values);
        if (stopped_) co_return;
    }
    telemetry::RepeatedFailures& failures = telemetry::repeated_failures();
    const std::string kind = "resolve " + settings_.name + " " + address.host;
    if (lookup.endpoints().empty()) {
        const std::uint64_t times = failures.note(kind, std::chrono::steady_clock::now());
        if (times != 0) {
            telemetry::log(telemetry::Level::warn, "upstream {}: cannot resolve {}: {}{}",
                           settings_.name, address.host, lookup.error(),
                           telemetry::times_text(times));
        }
        co_return;
    }
    if (failures.recovered(kind)) {
        telemetry::log(telemetry::Level::info, "upstream {}: {} resolves again", settings_.name,
                       address.host);
    }
    server.resolved_to(lookup.endpoints());
}

}  // namespace tidegate::upstream

#include "app/descriptor_limit.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "client/refused_connections.hpp"
#include "net/splice_pipe.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

// Connections of the admin listener; files.
constexpr std::size_t kOwnDescriptors = 64 + 64;
// Connections that the workers are refusing; pipes; listeners, the event loop and Redis.
constexpr std::size_t kDescriptorsOfWorker =
    client::RefusedConnections::kKeptMax + 2 * SplicePipe::kPipesMax + 16;

}  // namespace

std::size_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
    return limit.rlim_cur;
}

std::size_t descriptors_for_clients(std::size_t descriptors, std::size_t workers,
                                    const config::Config& config) {
    std::size_t others = kOwnDescriptors + workers * kDescriptorsOfWorker;
    for (const config::Upstream& upstream : config.upstreams) others += upstream.max_connections;
    return descriptors - std::min(others, descriptors / 2);
}

std::size_t client_connections_max(std::size_t workers, const config::Config& config) {
    const std::size_t descriptors = raise_descriptor_limit();
    const std::size_t most = descriptors_for_clients(descriptors, workers, config);
    if (most < config.connections.max) {
        // Many systems have a little less than the default; the operator need not change that.
        const bool matters = most < config.connections.max / 2;
        telemetry::log(
            matters ? telemetry::Level::warn : telemetry::Level::debug,
            "connections.max is {}, but the limit of open files is {}: Tidegate takes at "
            "most {} connections from clients. Raise the limit (`LimitNOFILE` of systemd, "
            "`ulimit -n`), or lower connections.max or upstreams.NAME.max_connections",
            config.connections.max, descriptors, most);
    }
    return most;
}

}  // namespace tidegate::app

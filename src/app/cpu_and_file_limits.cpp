// The cores of the machine and the quota of the control groups decide how many threads run; the
// limit on open files bounds the connections of clients.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/shared_state.hpp"
#include "base/text.hpp"
#include "client/unserved_connections.hpp"
#include "net/transfer.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

enum class CgroupVersion : bool { v1, v2 };

// A mount of cgroup v2, or of the hierarchy of v1 that has the controller `cpu`.
struct Mount {
    CgroupVersion version = CgroupVersion::v2;
    std::string root;  // the group that is seen at `point`; `/`: the top
    std::string point;
};

// Whether `name` is in a list such as `rw,cpu,cpuacct`.
bool lists(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        if (take_until(list, ',') == name) return true;
    }
    return false;
}

// proc(5): a space, a tab, a line's end and a backslash of a path are three octal digits.
std::string unescaped(std::string_view text) {
    std::string path;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t at) {
            return i + at < text.size() && text[i + at] >= '0' && text[i + at] <= '7'
                       ? text[i + at] - '0'
                       : -1;
        };
        if (text[i] != '\\' || digit(1) < 0 || digit(2) < 0 || digit(3) < 0) {
            path += text[i];
            continue;
        }
        path += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
        i += 3;
    }
    return path;
}

// A line of /proc/self/mountinfo: `36 35 0:33 ROOT POINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS`.
std::optional<Mount> parse_mount(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    std::string root;
    std::string point;
    for (int i = 0; i < 3; ++i) words >> word;
    words >> root >> point;
    while (words >> word && word != "-") {
    }
    std::string type;
    std::string source;
    std::string options;
    if (!(words >> type >> source >> options)) return std::nullopt;
    const bool has_cpu = type == "cgroup" && lists(options, "cpu");
    if (type != "cgroup2" && !has_cpu) return std::nullopt;
    return Mount{has_cpu ? CgroupVersion::v1 : CgroupVersion::v2, unescaped(root),
                 unescaped(point)};
}

std::vector<Mount> mounts(const std::string& root) {
    std::vector<Mount> found;
    std::ifstream file(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(file, line);) {
        if (auto mount = parse_mount(line)) found.push_back(std::move(*mount));
    }
    return found;
}

// The path of this process's group, by a line of /proc/self/cgroup: `4:cpu,cpuacct:/a/b` in v1,
// `0::/a/b` in v2. Nothing: it is in no such hierarchy.
std::optional<std::string> group_path(const std::string& root, CgroupVersion version) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':');
        if (first == line.npos) continue;
        const std::size_t second = line.find(':', first + 1);
        if (second == line.npos) continue;
        const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
        const bool is_it = version == CgroupVersion::v1
                               ? lists(controllers, "cpu")
                               : controllers.empty() && line.starts_with("0:");
        if (is_it) return line.substr(second + 1);
    }
    return std::nullopt;
}

// `path` below the group that is mounted. Empty: it is that group, or it is not seen there: in a
// container whose mount shows its own group alone, the path may still be the machine's.
std::string below(const std::string& mounted, const std::string& path) {
    const std::string top = mounted == "/" ? "" : mounted;
    const bool is_outside = path.find("/..") != std::string::npos || !path.starts_with(top + "/");
    return is_outside || path == "/" ? "" : path.substr(top.size());
}

std::optional<double> ratio(double quota_us, double period_us) {
    if (!(quota_us > 0) || !(period_us > 0)) return std::nullopt;
    return quota_us / period_us;
}

// The quota of one group in cgroup v2: `max 100000`, or quota and period in microseconds.
std::optional<double> quota_v2(const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    double quota_us = 0;
    double period_us = 0;
    if (!(file >> quota_us >> period_us)) return std::nullopt;
    return ratio(quota_us, period_us);
}

// The same in cgroup v1, where a quota of -1 means none.
std::optional<double> quota_v1(const std::string& folder) {
    std::ifstream quota(folder + "/cpu.cfs_quota_us");
    std::ifstream period(folder + "/cpu.cfs_period_us");
    double quota_us = 0;
    double period_us = 0;
    if (!(quota >> quota_us) || !(period >> period_us)) return std::nullopt;
    return ratio(quota_us, period_us);
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
    std::optional<double> least;
    for (const Mount& mount : mounts(root)) {
        const auto path = group_path(root, mount.version);
        if (!path) continue;
        // From the group itself up to the one that is mounted.
        for (std::string rest = below(mount.root, *path);;) {
            std::string folder = root;
            folder.append(mount.point).append(rest);
            const auto quota =
                mount.version == CgroupVersion::v1 ? quota_v1(folder) : quota_v2(folder);
            if (quota) least = std::min(least.value_or(*quota), *quota);
            if (rest.empty()) break;
            rest.erase(rest.rfind('/'));
        }
    }
    return least;
}

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

std::size_t worker_count(const config::Config& config) {
    if (config.threads != 0) return config.threads;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    std::size_t cores = 1;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        cores = static_cast<std::size_t>(std::max(1, CPU_COUNT(&allowed)));
    }
    const std::optional<double> quota = cpu_quota();
    if (!quota) return cores;
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(*quota)), 1, cores);
}

}  // namespace tidegate::app

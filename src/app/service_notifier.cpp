#include "app/service_notifier.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

bool is_socket_name(std::string_view name) {
    return name.size() > 1 && name.size() < sizeof(sockaddr_un::sun_path) &&
           (name.front() == '/' || name.front() == '@');
}

std::string system_message(int error) {
    return error_code(error, boost::system::system_category()).message();
}

}  // namespace

ServiceNotifier::ServiceNotifier(std::string socket_name) : socket_name_(std::move(socket_name)) {
    if (socket_name_.empty()) return;
    if (!is_socket_name(socket_name_)) {
        log(Level::warn, "NOTIFY_SOCKET is {}, which is not the name of a socket: ignored",
            quote(socket_name_));
        return;
    }
    socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) log(Level::warn, "cannot notify systemd: {}", system_message(errno));
}

void ServiceNotifier::tell_ready(std::string_view status) {
    send(fmt::format("READY=1\nSTATUS={}", status));
}

// systemd orders the notification against its own request to reload by this time
// (Type=notify-reload), on CLOCK_MONOTONIC, which steady_clock reads.
void ServiceNotifier::tell_reloading(std::string_view status) {
    const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS={}", now.count(), status));
}

void ServiceNotifier::tell_stopping(std::string_view status) {
    send(fmt::format("STOPPING=1\nSTATUS={}", status));
}

void ServiceNotifier::tell_status(std::string_view status) {
    send(fmt::format("STATUS={}", status));
}

void ServiceNotifier::tell_main_process(pid_t pid) {
    send(fmt::format("MAINPID={}", pid));
}

void ServiceNotifier::tell_alive() {
    send("WATCHDOG=1");
}

void ServiceNotifier::send(std::string_view assignments) {
    if (!socket_) return;
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::copy(socket_name_.begin(), socket_name_.end(), to.sun_path);
    // A name of the abstract namespace begins with a zero byte.
    if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name_.size());
    const ssize_t sent = ::sendto(socket_.get(), assignments.data(), assignments.size(),
                                  MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
    if (sent >= 0 || std::exchange(has_failed_, true)) return;
    log(Level::warn, "cannot notify systemd at {}: {}", quote(socket_name_), system_message(errno));
}

namespace {

using std::chrono::microseconds;
using telemetry::Level;
using telemetry::log;

// A loop turns at least once in each tick of its deadlines; between two looks there are some.
constexpr microseconds kLookEveryMin = 4 * DeadlineWheel::kTick;

}  // namespace

std::optional<microseconds> watchdog_interval(config::Environment environment, pid_t pid) {
    const auto number_of = [&](const char* name) -> std::optional<std::int64_t> {
        const auto text = environment(name);
        return text ? parse_decimal(*text) : std::nullopt;
    };
    const auto interval = number_of("WATCHDOG_USEC");
    if (!interval || *interval == 0) return std::nullopt;
    if (environment("WATCHDOG_PID") && number_of("WATCHDOG_PID") != pid) return std::nullopt;
    return microseconds(*interval);
}

bool LoopWatch::look(std::span<const LoopState> loops) {
    turns_.resize(loops.size());
    bool all_turned = true;
    for (std::size_t i = 0; i < loops.size(); ++i) {
        all_turned = all_turned && (loops[i].has_left || loops[i].turns != turns_[i]);
        turns_[i] = loops[i].turns;
    }
    return all_turned;
}

Task<> run_watchdog(Executor executor, const std::vector<std::unique_ptr<Worker>>& workers,
                    ServiceNotifier& notifier, microseconds interval) {
    LoopWatch watch;
    Timer pause(executor);
    std::vector<LoopState> loops;
    bool was_alive = true;
    while (true) {
        pause.expires_after(std::max(interval / 2, kLookEveryMin));
        co_await pause.async_wait(as_values);
        loops.clear();
        for (const auto& worker : workers) loops.push_back({worker->turns(), worker->has_left()});
        const bool is_alive = watch.look(loops);
        if (is_alive) {
            notifier.tell_alive();
        } else if (was_alive) {
            log(Level::error,
                "a thread does not respond: systemd is not told that Tidegate is alive");
        }
        was_alive = is_alive;
    }
}

}  // namespace tidegate::app

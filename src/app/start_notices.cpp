#include "app/start_notices.hpp"

#include <chrono>
#include <string_view>

#include <fmt/format.h>

#include "app/certificate_list.hpp"
#include "base/quote.hpp"
#include "base/units.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

using telemetry::Level;
using telemetry::log;

std::string describe_shutdown_delay(const config::Timeouts& timeouts) {
    using Origin = config::Timeouts::Origin;
    std::string_view origin;
    if (timeouts.shutdown_delay_origin == Origin::in_kubernetes) {
        origin = ", the default in Kubernetes: KUBERNETES_SERVICE_HOST is set";
    } else if (timeouts.shutdown_delay_origin == Origin::outside_kubernetes) {
        origin = ", the default outside Kubernetes";
    }
    const std::string delay = format_duration(timeouts.shutdown_delay);
    const bool at_once = timeouts.shutdown_delay.count() == 0;
    return fmt::format("on TERM, Tidegate {} (`timeouts.shutdown_delay: {}`{})",
                       at_once ? "stops accepting at once" : "goes on accepting for " + delay,
                       delay, origin);
}

void log_expiry(const config::Config& config) {
    constexpr long kSoonDays = 14;
    const auto first = first_to_expire(config);
    if (!first) return;
    const auto now = std::chrono::system_clock::now();
    log(first->days_left(now) < kSoonDays ? Level::warn : Level::info,
        "certificates: that of {} expires first: {}{}", displayable(first->name()),
        first->time_left_text(now), first->file.empty() ? "" : ", " + displayable(first->file));
}

}  // namespace tidegate::app

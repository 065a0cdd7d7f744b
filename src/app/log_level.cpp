#include "app/log_level.hpp"

#include "telemetry/log.hpp"

namespace tidegate::app {

void set_log_level(config::LogLevel level) {
    using telemetry::Level;
    switch (level) {
        case config::LogLevel::debug:
            return telemetry::set_log_level(Level::debug);
        case config::LogLevel::info:
            return telemetry::set_log_level(Level::info);
        case config::LogLevel::warn:
            return telemetry::set_log_level(Level::warn);
        case config::LogLevel::error:
            return telemetry::set_log_level(Level::error);
    }
}

}  // namespace tidegate::app

#include "cli/config_report.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "base/quote.hpp"

namespace tidegate::cli {

namespace {

std::string line_of(const config::Diagnostic& found, std::string_view kind) {
    const std::string file = displayable(found.file);
    const std::string message = displayable(found.message);
    if (found.line == 0) return fmt::format("{}: {}: {}\n", file, kind, message);
    return fmt::format("{}:{}:{}: {}: {}\n", file, found.line, found.column, kind, message);
}

// Without that of identity.failed_credentials: it is no entry of `policies`, and may be a default.
std::size_t policies_written(const config::Config& config) {
    return static_cast<std::size_t>(std::count_if(
        config.policies.begin(), config.policies.end(),
        [](const auto& policy) { return policy->name != config::kFailedCredentials; }));
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

std::string report(const config::Loaded& loaded) {
    std::string lines;
    for (const auto& error : loaded.errors) lines += line_of(error, "error");
    for (const auto& warning : loaded.warnings) lines += line_of(warning, "warning");
    return lines;
}

std::string summary(const config::Loaded& loaded) {
    std::string line;
    if (loaded.config) {
        line =
            fmt::format("ok: {}, {}, {}", counted(loaded.config->routes.size(), "route", "routes"),
                        counted(policies_written(*loaded.config), "policy", "policies"),
                        counted(loaded.config->upstreams.size(), "upstream", "upstreams"));
    } else {
        line = counted(loaded.errors.size(), "error", "errors");
    }
    if (!loaded.warnings.empty()) {
        line += ", " + counted(loaded.warnings.size(), "warning", "warnings");
    }
    return line;
}

}  // namespace tidegate::cli

#include "cli/config_report.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "base/quote.hpp"

namespace tidegate::cli {

namespace {

std::string line_of(const config::Diagnostic& found, std::string_view kind) {
    const std::string file = displayable(found.file);
    const std::string message = displayable(found.message);
    if (found.line == 0) return fmt::format("{}: {}: {}\n", file, kind, message);
    return fmt::format("{}:{}:{}: {}: {}\n", file, found.line, found.column, kind, message);
}

// Without those of identity.failed_credentials and of `preflight`, which may be defaults: they are
// not written as policies.
std::size_t policies_written(const config::Config& config) {
    const auto is_written = [](const auto& policy) {
        return policy->name != config::kFailedCredentials && policy->name != config::kPreflight &&
               !policy->name.ends_with("/preflight");
    };
    return static_cast<std::size_t>(
        std::count_if(config.policies.begin(), config.policies.end(), is_written));
}

nlohmann::ordered_json json_of(const std::vector<config::Diagnostic>& found) {
    auto list = nlohmann::ordered_json::array();
    for (const config::Diagnostic& one : found) {
        nlohmann::ordered_json entry{{"file", one.file}};
        if (one.line != 0) {
            entry["line"] = one.line;
            entry["column"] = one.column;
        }
        entry["message"] = one.message;
        list.push_back(std::move(entry));
    }
    return list;
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

std::string report_json(const config::Loaded& loaded, bool is_right) {
    nlohmann::ordered_json answer{{"ok", is_right}};
    if (loaded.config) {
        answer["routes"] = loaded.config->routes.size();
        answer["policies"] = loaded.config->policies.size();
        answer["upstreams"] = loaded.config->upstreams.size();
    }
    answer["errors"] = json_of(loaded.errors);
    answer["warnings"] = json_of(loaded.warnings);
    // A path need not be UTF-8.
    return json_text(answer);
}

}  // namespace tidegate::cli

#include "cli/config_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "admin/api_paths.hpp"
#include "app/certificate_list.hpp"
#include "base/doc.hpp"
#include "base/result.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

namespace {

// For CLI11: an empty string is no objection.
std::string objection_to_no_name(const std::string& text) {
    return text.empty() ? "it needs a file" : "";
}

}  // namespace

void add_config_file(CLI::App& command, ConfigArguments& arguments) {
    command
        .add_option(
            "-c,--config", arguments.option,
            fmt::format("The configuration, `-` for standard input (default {})", kDefaultFile))
        ->option_text("FILE")
        ->check(objection_to_no_name);
    command.add_option("FILE", arguments.argument, "The configuration; `-c FILE` means the same")
        ->option_text(" ")
        ->check(objection_to_no_name);
}

bool has_default_file() {
    std::error_code ec;
    return std::filesystem::exists(kDefaultFile, ec) || ec;
}

Result<ConfigFile, std::string> find_config_file(const ConfigArguments& arguments,
                                                 std::string_view command) {
    if (!arguments.option.empty() && !arguments.argument.empty()) {
        return ErrorMessage{fmt::format("two configurations are named, {} and {}: keep one",
                                        quote(arguments.option), quote(arguments.argument))};
    }
    if (!arguments.option.empty()) return ConfigFile{arguments.option};
    if (!arguments.argument.empty()) return ConfigFile{arguments.argument};
    if (has_default_file()) return ConfigFile{kDefaultFile};
    return ErrorMessage{
        fmt::format("there is no configuration: name one, `tidegate {} -c FILE`, or write {} in "
                    "this folder. `tidegate quickstart` needs none: it is a demonstration",
                    command, kDefaultFile)};
}

config::Loaded load_config(const std::string& path) {
    return config::load_file(
        path, config::process_environment, config::Occasion::start,
        [](const std::string& text) { fmt::print(stderr, "tidegate: {}\n", text); });
}

namespace {

// Without those of identity.failed_credentials and of `preflight`, which may be defaults, and of
// `rls`: they are not written as policies.
std::size_t policies_written(const config::Config& config) {
    const auto is_written = [](const auto& policy) {
        return !policy->is_derived() && policy->name != config::kFailedCredentials &&
               policy->name != config::kPreflight && !policy->name.ends_with("/preflight") &&
               !policy->name.starts_with(config::kRlsPolicy);
    };
    return static_cast<std::size_t>(
        std::count_if(config.policies.begin(), config.policies.end(), is_written));
}

}  // namespace

std::string report(const config::Loaded& loaded) {
    std::string lines;
    for (const std::string& line : admin::diagnostic_lines(loaded.errors, loaded.warnings)) {
        lines += line + '\n';
    }
    return lines;
}

std::string summary(const config::Loaded& loaded) {
    std::string line;
    if (loaded.config) {
        const std::size_t policies = policies_written(*loaded.config);
        line = fmt::format("ok: {}, {}, {}", counted(loaded.config->routes.size(), "route"),
                           policies == 1 ? "1 policy" : fmt::format("{} policies", policies),
                           counted(loaded.config->upstreams.size(), "upstream"));
        const std::string& hash = loaded.config->shown.hash;
        if (!hash.empty()) line += ", hash " + hash;
    } else {
        line = counted(loaded.errors.size(), "error");
    }
    if (!loaded.warnings.empty()) {
        line += ", " + counted(loaded.warnings.size(), "warning");
    }
    return line;
}

}  // namespace tidegate::cli

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
#include <nlohmann/json.hpp>

#include "app/certificate_list.hpp"
#include "base/json.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "config/config.hpp"
#include "config/error_message.hpp"

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
        return config::ErrorMessage{fmt::format("two configurations are named, {} and {}: keep one",
                                                quote(arguments.option),
                                                quote(arguments.argument))};
    }
    if (!arguments.option.empty()) return ConfigFile{arguments.option};
    if (!arguments.argument.empty()) return ConfigFile{arguments.argument};
    if (has_default_file()) return ConfigFile{kDefaultFile};
    return config::ErrorMessage{
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

std::string line_of(const config::Diagnostic& found, std::string_view kind) {
    const std::string file = displayable(found.file);
    const std::string message = displayable(found.message);
    if (found.line == 0) return fmt::format("{}: {}: {}\n", file, kind, message);
    return fmt::format("{}:{}:{}: {}: {}\n", file, found.line, found.column, kind, message);
}

// Without those of identity.failed_credentials and of `preflight`, which may be defaults, and of
// `rls`: they are not written as policies.
std::size_t policies_written(const config::Config& config) {
    const auto is_written = [](const auto& policy) {
        return policy->name != config::kFailedCredentials && policy->name != config::kPreflight &&
               !policy->name.ends_with("/preflight") &&
               !policy->name.starts_with(config::kRlsPolicy);
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

nlohmann::ordered_json json_of(const app::ListedCertificate& one,
                               std::chrono::system_clock::time_point now) {
    using std::chrono::seconds;
    nlohmann::ordered_json entry{{"place", one.place}};
    if (!one.file.empty()) entry["file"] = one.file;
    entry["names"] = one.names;
    entry["key"] = one.key;
    entry["days_left"] = one.days_left(now);
    const auto until = std::chrono::floor<seconds>(one.until.time_since_epoch());
    entry["until"] = format_timestamp(std::max(until, seconds{0}));
    return entry;
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

std::string certificate_lines(std::span<const app::ListedCertificate> certificates,
                              std::chrono::system_clock::time_point now) {
    std::string lines;
    std::map<std::string, bool> is_rsa_alone;  // by place
    for (const app::ListedCertificate& one : certificates) {
        const std::string names = one.names_text();
        lines += fmt::format(
            "{}: {}{}, {}{}\n", one.place, one.file.empty() ? "" : displayable(one.file) + ": ",
            one.key, one.time_left_text(now), names.empty() ? "" : ", " + displayable(names));
        if (!one.is_of_listener) continue;
        bool& is_alone = is_rsa_alone.emplace(one.place, true).first->second;
        is_alone = is_alone && one.key.starts_with("RSA");
    }
    for (const auto& [place, is_alone] : is_rsa_alone) {
        if (!is_alone) continue;
        lines += place +
                 ": only RSA keys: with an ECDSA certificate beside, a new connection "
                 "takes less than half of the CPU time\n";
    }
    return lines;
}

std::string report_json(const config::Loaded& loaded, bool is_right,
                        std::chrono::system_clock::time_point now) {
    nlohmann::ordered_json answer{{"ok", is_right}};
    if (loaded.config) {
        answer["routes"] = loaded.config->routes.size();
        answer["policies"] = loaded.config->policies.size();
        answer["upstreams"] = loaded.config->upstreams.size();
        auto certificates = nlohmann::ordered_json::array();
        for (const app::ListedCertificate& one : app::listed_certificates(*loaded.config)) {
            certificates.push_back(json_of(one, now));
        }
        answer["certificates"] = std::move(certificates);
    }
    answer["errors"] = json_of(loaded.errors);
    answer["warnings"] = json_of(loaded.warnings);
    // A path need not be UTF-8.
    return json_text(answer);
}

namespace {

struct CheckArguments {
    ConfigArguments config;
    bool is_strict = false;
    bool as_json = false;
};

constexpr int kRight = 0;
constexpr int kFaulty = 1;

constexpr const char* kCheckFooter =
    R"(Prints each fault and warning as file:line:column, each certificate with its key,
names and the days left, then a summary. The exit code is 1 when there is a fault, so it can guard a deployment; with --strict also when
there is a warning.

  tidegate check tidegate.yaml
  tidegate check --strict --json tidegate.yaml
  generate-configuration | tidegate check -)";

// Reads the configuration and prints what is wrong with it. Returns the exit code: 0, 1 when it has
// a fault (a warning, too, with `--strict`), 2 when there is no configuration.
int check_configuration(const CheckArguments& arguments) {
    const auto file = find_config_file(arguments.config, "check");
    if (!file) {
        fmt::print(stderr, "tidegate: {}\n", file.error());
        return exit_code::kWrongUse;
    }
    const config::Loaded loaded = load_config(file->path);
    const bool is_right = loaded.config && !(arguments.is_strict && !loaded.warnings.empty());
    const auto now = std::chrono::system_clock::now();
    if (arguments.as_json) {
        fmt::print("{}\n", report_json(loaded, is_right, now));
    } else {
        fmt::print(stderr, "{}", report(loaded));
        if (loaded.config) {
            fmt::print(is_right ? stdout : stderr, "{}",
                       certificate_lines(app::listed_certificates(*loaded.config), now));
        }
        fmt::print(is_right ? stdout : stderr, "{}{}\n", summary(loaded),
                   loaded.config && !is_right ? ": --strict takes warnings for faults" : "");
    }
    return is_right ? kRight : kFaulty;
}

}  // namespace

Command check_command(CLI::App& app) {
    const auto arguments = std::make_shared<CheckArguments>();
    CLI::App* const command = app.add_subcommand("check", "Check a configuration");
    add_config_file(*command, arguments->config);
    command->add_flag("--strict", arguments->is_strict, "Take warnings for faults");
    command->add_flag("--json", arguments->as_json, "Print an object for programs");
    command->footer(kCheckFooter);
    return {command, [arguments] { return check_configuration(*arguments); }};
}

}  // namespace tidegate::cli

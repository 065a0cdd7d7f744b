#include "cli/config_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

std::shared_ptr<const config::Config> load_or_complain(const std::string& path) {
    const config::Loaded loaded = load_config(path);
    if (!loaded.config) complain(exit_code::kRefused, report(loaded) + summary(loaded));
    return loaded.config;
}

// `tidegate check`: what the reader of a configuration has found, and its certificates.
namespace {

Doc::Json json_of(const app::ListedCertificate& one, std::chrono::system_clock::time_point now) {
    using std::chrono::seconds;
    Doc::Json entry{{"place", one.place}};
    if (!one.file.empty()) entry["file"] = one.file;
    entry["names"] = one.names;
    entry["key"] = one.key;
    entry["days_left"] = one.days_left(now);
    const auto until = std::chrono::floor<seconds>(one.validity.until.time_since_epoch());
    entry["until"] = format_timestamp(std::max(until, seconds{0}));
    return entry;
}

}  // namespace

void add_certificates(std::span<const app::ListedCertificate> certificates,
                      std::chrono::system_clock::time_point now, Doc& doc) {
    Doc::Json list = Doc::Json::array();
    std::map<std::string, bool> is_rsa_alone;  // by place
    for (const app::ListedCertificate& one : certificates) {
        list.push_back(json_of(one, now));
        const std::string names = one.names_text();
        doc.line(fmt::format(
            "{}: {}{}, {}{}", one.place, one.file.empty() ? "" : displayable(one.file) + ": ",
            one.key, one.time_left_text(now), names.empty() ? "" : ", " + displayable(names)));
        if (!one.is_of_listener) continue;
        bool& is_alone = is_rsa_alone.emplace(one.place, true).first->second;
        is_alone = is_alone && one.key.starts_with("RSA");
    }
    for (const auto& [place, is_alone] : is_rsa_alone) {
        if (!is_alone) continue;
        doc.line(place +
                 ": only RSA keys: with an ECDSA certificate beside, a new connection "
                 "takes less than half of the CPU time");
    }
    doc.json["certificates"] = std::move(list);
}

Doc check_result(const config::Loaded& loaded, bool is_strict,
                 std::chrono::system_clock::time_point now) {
    const bool is_right = loaded.config && !(is_strict && !loaded.warnings.empty());
    Doc doc(JsonStyle{});
    doc.json = {{"ok", is_right}};
    doc.exit_code = is_right ? exit_code::kDone : exit_code::kRefused;
    if (loaded.config) {
        doc.json["routes"] = loaded.config->routes.size();
        doc.json["policies"] =
            std::count_if(loaded.config->policies.begin(), loaded.config->policies.end(),
                          [](const auto& policy) { return !policy->is_derived(); });
        doc.json["upstreams"] = loaded.config->upstreams.size();
        doc.json["hash"] = loaded.config->shown.hash;
        add_certificates(app::listed_certificates(*loaded.config), now, doc);
    }
    doc.json["errors"] = admin::diagnostics_json(loaded.errors);
    doc.json["warnings"] = admin::diagnostics_json(loaded.warnings);
    doc.line(summary(loaded) +
             (loaded.config && !is_right ? ": --strict takes warnings for faults" : ""));
    return doc;
}

namespace {

struct CheckArguments {
    ConfigArguments config;
    bool is_strict = false;
    bool as_json = false;
};

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
    if (!file) return complain(exit_code::kWrongUse, "tidegate: " + file.error());
    const config::Loaded loaded = load_config(file->path);
    const Doc doc = check_result(loaded, arguments.is_strict, std::chrono::system_clock::now());
    if (arguments.as_json) return print(doc, true);
    fmt::print(stderr, "{}", report(loaded));
    fmt::print(doc.exit_code == exit_code::kDone ? stdout : stderr, "{}", doc.text());
    return doc.exit_code;
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

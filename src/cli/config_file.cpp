#include "cli/config_file.hpp"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/quote.hpp"
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

}  // namespace tidegate::cli

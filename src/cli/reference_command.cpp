// `tidegate reference`: what documents say of the program, as the program knows it. For
// scripts/reference; no help lists it.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "config/key_documents.hpp"

namespace tidegate::cli {

namespace {

struct ReferenceArguments {
    std::string table;
    std::vector<std::string> places;
};

// In Markdown; empty: there is no such table.
std::string table_of(const ReferenceArguments& arguments) {
    if (arguments.table == "keys") return config::key_table(arguments.places);
    return {};
}

int print_reference(const ReferenceArguments& arguments) {
    const std::string text = table_of(arguments);
    if (text.empty()) {
        return complain(exit_code::kWrongUse, "tidegate: reference: there is no such table or key");
    }
    fmt::print("{}", text);
    return exit_code::kDone;
}

}  // namespace

Command reference_command(CLI::App& app) {
    const auto arguments = std::make_shared<ReferenceArguments>();
    CLI::App* const command =
        app.add_subcommand("reference", "Print a table of the documents, in Markdown");
    command->group("");
    command->add_option("TABLE", arguments->table, "The table: keys")->option_text(" ")->required();
    command->add_option("PLACE", arguments->places, "Of which keys, such as `timeouts`")
        ->option_text("...");
    return {command, [arguments] { return print_reference(*arguments); }};
}

}  // namespace tidegate::cli

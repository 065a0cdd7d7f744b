#include <fstream>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "admin/api_paths.hpp"
#include "cli/commands.hpp"
#include "places.hpp"

namespace tidegate::cli::admin_commands_test {

namespace {

std::string page(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(test::source_folder() + "/" + path).rdbuf();
    return text.str();
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

const CLI::App* command_of(const CLI::App& app, const admin::AdminQuestion& question) {
    const std::string name(question.command);
    const auto found =
        app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
    return found.size() == 1 ? found.front() : nullptr;
}

}  // namespace

TEST_CASE("asking commands: each row is a command with its options") {
    CLI::App app;
    reload_command(app);
    asking_commands(app);
    for (const admin::AdminQuestion& question : admin::questions()) {
        if (question.command.empty()) continue;
        CAPTURE(question.command);
        const CLI::App* const command = command_of(app, question);
        REQUIRE(command != nullptr);
        const auto has_option = [&](const std::string& name) {
            return command->get_option_no_throw(name) != nullptr;
        };
        CHECK(has_option("--admin"));
        if (!question.in_place.empty()) {
            CHECK(has_option(std::string(question.in_place)));
            continue;
        }
        CHECK(has_option("--json") == !question.json_option.empty());
        CHECK(has_option("--follow") == (question.followed.member != nullptr));
        CHECK(command->get_description() == question.what);
        CHECK(command->get_footer() == question.footer);
        for (const admin::AdminParameter& parameter : question.parameters) {
            CAPTURE(parameter.name);
            const bool is_argument = parameter.kind == admin::AdminParameter::Kind::argument;
            CHECK(has_option(is_argument ? std::string(parameter.value)
                                         : "--" + std::string(parameter.name)));
        }
    }
}

TEST_CASE("asking commands: docs/commands.md has the command and the path of each row") {
    const std::string text = page("docs/commands.md");
    for (const admin::AdminQuestion& question : admin::questions()) {
        if (question.command.empty()) continue;
        std::string command = "`tidegate " + std::string(question.command);
        if (!question.in_place.empty()) command += " " + std::string(question.in_place);
        const bool changes = question.access != admin::AdminQuestion::Access::look;
        CHECK_MESSAGE(has(text, command + "`"), command);
        CHECK_MESSAGE(has(text, std::string(changes ? "POST " : "GET ").append(question.path)),
                      question.path);
    }
}

}  // namespace tidegate::cli::admin_commands_test

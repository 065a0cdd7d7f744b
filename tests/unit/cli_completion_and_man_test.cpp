#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/commands.hpp"

namespace tidegate::cli::completion_and_man_test {

namespace {

struct SmallProgram {
    SmallProgram() {
        app.set_help_flag("-h,--help", "Show this help");
        CLI::App* const run = app.add_subcommand("run", "Run it: 'all' of it");
        run->add_option("-c,--config", file, "The configuration")->option_text("FILE");
        run->add_option("--face", face, "How it is asked [a face]")
            ->option_text("FACE")
            ->check(CLI::IsMember({"proxy", "check"}));
        run->add_flag("--echo", with_echo, "Echo");
        run->footer("The first line\nand the second.\n\n  tidegate run\n  .hidden 'quoted'");
        CLI::App* const keys = app.add_subcommand("keys", "Make keys");
        CLI::App* const make = keys->add_subcommand("new", "Make a key");
        make->add_option("USER", user, "Whose")->option_text(" ")->required();
        CLI::App* const help = app.add_subcommand("help", "Help");
        help->add_option("COMMAND", user, "The command")->option_text(" ");
    }

    CLI::App app{"A program", "tidegate"};
    std::string file, face, user;
    bool with_echo = false;
};

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("command list: it has each command, its options and what their values may be") {
    const SmallProgram program;
    const auto commands = list_commands(program.app);
    REQUIRE(commands.size() == 5);
    CHECK(commands[0].name.empty());
    CHECK(commands[0].inner == std::vector<std::string>{"run", "keys", "help"});
    CHECK(commands[1].name == "run");
    CHECK(commands[3].name == "keys new");
    REQUIRE(commands[3].arguments.size() == 1);
    CHECK(commands[3].arguments[0].is_required);
    CHECK(commands[3].arguments[0].value.name == "USER");
    CHECK(commands[4].arguments.at(0).value.choices == commands[0].inner);

    const auto& options = commands[1].options;
    REQUIRE(options.size() == 4);
    CHECK(options[0].names == std::vector<std::string>{"-h", "--help"});
    CHECK(options[0].value.name.empty());
    CHECK(options[1].names == std::vector<std::string>{"-c", "--config"});
    CHECK(options[1].value.is_file());
    CHECK(options[1].value.choices.empty());
    CHECK(options[2].value.choices == std::vector<std::string>{"proxy", "check"});
    CHECK(options[3].value.name.empty());
}

TEST_CASE("completion: zsh and fish get texts quoted") {
    const SmallProgram program;
    const auto commands = list_commands(program.app);
    const std::string zsh = zsh_completion(commands);
    CHECK(has(zsh, R"('run:Run it\: '\''all'\'' of it')"));
    CHECK(has(zsh, R"('(--face)--face=[How it is asked \[a face\]]:FACE:(proxy check)')"));
    const std::string fish = fish_completion(commands);
    CHECK(has(fish, R"(-a run -d 'Run it: \'all\' of it')"));
    CHECK(has(fish, "'__fish_seen_subcommand_from keys; and __fish_seen_subcommand_from new'"));
}

TEST_CASE("man page: no text is taken for a command of roff") {
    const SmallProgram program;
    const std::string page = man_page(list_commands(program.app), "1.2.3");
    CHECK(has(page, "\"tidegate 1.2.3\""));
    CHECK(has(page,
              "\nThe first line\nand the second.\n.PP\n.RS 4\n.EX\ntidegate run\n"
              "\\&.hidden \\(aqquoted\\(aq\n.EE\n.RE\n"));
    CHECK(has(page, ".TP\n\\fB\\-c\\fR, \\fB\\-\\-config\\fR \\fIFILE\\fR\nThe configuration\n"));
    CHECK(has(page, ".B tidegate keys new\n[\\fIOPTIONS\\fR] \\fIUSER\\fR\n"));
    CHECK_FALSE(has(page, ".SS tidegate keys\n"));
    CHECK(roff_text("'a\\b `--c`") == "\\&\\(aqa\\eb \\fB\\-\\-c\\fR");
}

}  // namespace tidegate::cli::completion_and_man_test

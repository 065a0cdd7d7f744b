#include "cli/inspect_command.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/admin_client.hpp"
#include "cli/exit_code.hpp"
#include "cli/inspect_text.hpp"

namespace tidegate::cli {

namespace {

constexpr int kFound = 0;
constexpr int kNothingCounted = 1;
constexpr int kAllUp = 0;
constexpr int kSomeDown = 1;
// More than the proxy takes for any answer (app/inspect_service.hpp).
constexpr std::chrono::seconds kInspectPatience{30};

constexpr const char* kInspectFooter =
    R"(IDENTIFIER is as the access log has it, or an address alone:

  tidegate inspect user:alice
  tidegate inspect 203.0.113.7
  tidegate inspect '17:header:x-tenant=a+12:route:search'
  tidegate inspect --upstreams

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when something was counted, 1 when nothing was, 2 for wrong use
and 3 when there is no answer. With --upstreams it is 0 when every server is up,
and 1 when one is not.)";

constexpr const char* kResetFooter =
    R"(IDENTIFIER is as the access log has it, or an address alone:

  tidegate reset user:alice
  tidegate reset '17:header:x-tenant=a+12:route:search'

Slots of requests in flight stay. Tidegate asks the running proxy on its admin
address. It takes the address and the token from the configuration, or with
--admin from the command line. The exit code is 0 when something was counted, 1
when nothing was, 2 for wrong use and 3 when there is no answer.)";

CLI::App* describe(CLI::App& app, const char* name, const char* what, const char* footer,
                   InspectArguments& arguments) {
    CLI::App* const command = app.add_subcommand(name, what);
    const auto objection_to_nothing = [command](const std::string& text) {
        return text.empty() ? fmt::format(
                                  "it is empty; write what is counted: `tidegate {} "
                                  "user:alice`",
                                  command->get_name())
                            : std::string();
    };
    command->add_option("IDENTIFIER", arguments.identifier, "The identifier")
        ->option_text(" ")
        ->required()
        ->check(objection_to_nothing);
    add_admin_options(*command, arguments);
    command->add_flag("--json", arguments.as_json, "Print the answer as it is, for programs");
    command->footer(footer);
    return command;
}

// `text_of` makes what is printed of the answer, and `code_of` the exit code of that.
template <class TextOf, class CodeOf>
int ask(const InspectArguments& arguments, bool post, const std::string& target, TextOf text_of,
        CodeOf code_of) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const auto reply = ask_or_complain(*place, post, target, kInspectPatience);
    if (!reply) return reply.error();
    const auto shown = text_of(reply->body);
    if (!shown) return complain(exit_code::kNoAnswer, stranger_text(*place, *reply));
    fmt::print("{}", arguments.as_json ? reply->body : shown->text);
    return code_of(*shown);
}

// Whatever goes wrong is not taken for an answer.
template <class Ask>
int without_exceptions(Ask ask_admin_listener) {
    try {
        return ask_admin_listener();
    } catch (const std::exception& error) {
        return complain(exit_code::kNoAnswer, error.what());
    }
}

template <class TextOf>
int ask_for_counts(const InspectArguments& arguments, bool reset, TextOf text_of) {
    return without_exceptions([&] {
        const std::string target = fmt::format("/api/{}?identifier={}", reset ? "reset" : "inspect",
                                               percent_encoded(arguments.identifier));
        return ask(arguments, reset, target, text_of, [](const CountsText& counts) {
            return counts.counted ? kFound : kNothingCounted;
        });
    });
}

}  // namespace

CLI::App* describe_inspect(CLI::App& app, InspectArguments& arguments) {
    CLI::App* const command = describe(app, "inspect", "Show what is counted now for an identifier",
                                       kInspectFooter, arguments);
    CLI::Option* const identifier = command->get_option("IDENTIFIER");
    // The parser runs this before it looks for required arguments.
    command
        ->add_flag_function(
            "--upstreams",
            [identifier, &arguments](std::int64_t) {
                identifier->required(false);
                arguments.upstreams = true;
            },
            "Show the servers of all upstreams instead")
        ->excludes(identifier);
    return command;
}

CLI::App* describe_reset(CLI::App& app, InspectArguments& arguments) {
    return describe(app, "reset", "Clear what is counted for an identifier", kResetFooter,
                    arguments);
}

int run_inspect(const InspectArguments& arguments) {
    if (!arguments.upstreams) return ask_for_counts(arguments, false, inspect_text);
    return without_exceptions([&] {
        return ask(
            arguments, false, "/api/upstreams", upstreams_text,
            [](const UpstreamsText& upstreams) { return upstreams.all_up ? kAllUp : kSomeDown; });
    });
}

int run_reset(const InspectArguments& arguments) {
    return ask_for_counts(arguments, true, reset_text);
}

}  // namespace tidegate::cli

#include "cli/inspect_command.hpp"

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/result.hpp"
#include "cli/admin_client.hpp"
#include "cli/config_report.hpp"
#include "cli/inspect_text.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/quickstart.hpp"

namespace tidegate::cli {

namespace {

constexpr int kFound = 0;
constexpr int kNothingCounted = 1;
constexpr int kWrongUse = 2;
constexpr int kNoAnswer = 3;
// More than the proxy takes for any answer (app/inspect_service.hpp).
constexpr std::chrono::seconds kPatience{30};

constexpr const char* kFooter =
    R"(IDENTIFIER is as the access log has it, or an address alone:

  tidegate inspect user:alice
  tidegate inspect 203.0.113.7
  tidegate reset '17:header:x-tenant=a+12:route:search'

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The exit code is
0 when something was counted, 1 when nothing was, 2 for wrong use and 3 when
there is no answer.)";

std::string objection_to_address(const std::string& text) {
    const auto address = config::parse_listen_address(text);
    return address ? std::string() : address.error();
}

CLI::App* describe(CLI::App& app, const char* name, const char* what,
                   const std::string& default_file, InspectArguments& arguments) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->add_option("identifier", arguments.identifier, "The identifier")
        ->option_text("IDENTIFIER")
        ->required();
    CLI::Option* const file =
        command
            ->add_option("-c,--config", arguments.file,
                         fmt::format("The configuration (default {})", default_file))
            ->option_text("FILE");
    CLI::Option* const admin =
        command->add_option("--admin", arguments.admin, "The admin address, without configuration")
            ->option_text("ADDRESS")
            ->check(objection_to_address)
            ->excludes(file);
    command->add_option("--token-file", arguments.token_file, "A file with the admin token")
        ->option_text("FILE")
        ->needs(admin);
    command->add_flag("--json", arguments.as_json, "Print the answer as it is, for programs");
    command->footer(kFooter);
    return command;
}

// Where the proxy is asked, and what to do when it wants another token.
struct Place : AdminPlace {
    std::string token_advice;
};

Result<Place, std::string> place_on_command_line(const InspectArguments& arguments) {
    Place place{{*config::parse_listen_address(arguments.admin), {}},
                "name a file that holds it with --token-file"};
    if (arguments.token_file.empty()) return place;
    place.token_advice = fmt::format("{} holds another token", quote(arguments.token_file));
    std::ifstream file(arguments.token_file);
    place.token.assign(std::istreambuf_iterator<char>(file), {});
    if (!file || place.token.empty()) {
        return "cannot read a token from " + quote(arguments.token_file);
    }
    place.token.erase(place.token.find_last_not_of(" \t\r\n") + 1);
    return place;
}

Result<Place, std::string> find_place(const InspectArguments& arguments,
                                      const std::string& default_file) {
    if (!arguments.admin.empty()) return place_on_command_line(arguments);
    std::error_code ec;
    const bool has_file =
        !arguments.file.empty() || std::filesystem::exists(default_file, ec) || ec;
    const std::string& file = arguments.file.empty() ? default_file : arguments.file;
    const config::Loaded loaded = has_file ? config::load_file(file) : config::quickstart();
    if (!loaded.config) return report(loaded) + summary(loaded);
    if (!loaded.config->admin) return std::string("the configuration has `admin: off`");
    Place place{{loaded.config->admin->address, loaded.config->admin->token}, {}};
    const std::string where = has_file ? quote(file) : "the built-in quickstart";
    place.token_advice =
        place.token.empty()
            ? fmt::format("{} has no `admin.token`; name the file of the running proxy with -c",
                          where)
            : fmt::format(
                  "`admin.token` in {} is not the token of the running proxy; if you changed it, "
                  "reload the proxy (HUP)",
                  where);
    return place;
}

int complain(int code, std::string_view what) {
    fmt::print(stderr, "{}\n", what);
    return code;
}

std::string refusal(const Place& place, const AdminReply& reply) {
    if (reply.status == 401) {
        return fmt::format("the admin listener on {} wants a token: {}", place.address.to_string(),
                           place.token_advice);
    }
    std::string detail = problem_detail(reply.body);
    if (!detail.empty()) return detail;
    return fmt::format("the admin listener answers {}", reply.status);
}

template <class TextOf>
int ask(const InspectArguments& arguments, const std::string& default_file, bool reset,
        TextOf text_of) {
    const auto place = find_place(arguments, default_file);
    if (!place) return complain(kWrongUse, place.error());
    const std::string target = fmt::format("/api/{}?identifier={}", reset ? "reset" : "inspect",
                                           percent_encoded(arguments.identifier));
    const auto reply = ask_admin(*place, reset, target, kPatience);
    if (!reply) return complain(kNoAnswer, reply.error());
    if (reply->status == 400) return complain(kWrongUse, refusal(*place, *reply));
    if (reply->status != 200) return complain(kNoAnswer, refusal(*place, *reply));
    const std::optional<CountsText> counts = text_of(reply->body);
    if (!counts) return complain(kNoAnswer, "the answer on the admin address is not from Tidegate");
    fmt::print("{}", arguments.as_json ? reply->body : counts->text);
    return counts->counted ? kFound : kNothingCounted;
}

// Whatever goes wrong is not taken for an answer.
template <class TextOf>
int ask_and_print(const InspectArguments& arguments, const std::string& default_file, bool reset,
                  TextOf text_of) {
    try {
        return ask(arguments, default_file, reset, text_of);
    } catch (const std::exception& error) {
        return complain(kNoAnswer, error.what());
    }
}

}  // namespace

CLI::App* describe_inspect(CLI::App& app, const std::string& default_file,
                           InspectArguments& arguments) {
    return describe(app, "inspect", "Show what is counted now for an identifier", default_file,
                    arguments);
}

CLI::App* describe_reset(CLI::App& app, const std::string& default_file,
                         InspectArguments& arguments) {
    return describe(app, "reset", "Clear what is counted for an identifier", default_file,
                    arguments);
}

int run_inspect(const InspectArguments& arguments, const std::string& default_file) {
    return ask_and_print(arguments, default_file, false, inspect_text);
}

int run_reset(const InspectArguments& arguments, const std::string& default_file) {
    return ask_and_print(arguments, default_file, true, reset_text);
}

}  // namespace tidegate::cli

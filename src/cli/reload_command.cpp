#include "cli/reload_command.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/strict_json.hpp"
#include "cli/admin_client.hpp"
#include "cli/config_report.hpp"
#include "cli/exit_code.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

namespace {

constexpr int kOk = 200;
constexpr int kConflict = 409;
// A little more than the proxy gives a reload.
constexpr std::chrono::seconds kReloadPatience{65};
// Less than the time that Kubernetes or Docker gives it.
constexpr std::chrono::seconds kHealthPatience{2};

constexpr const char* kReloadFooter =
    R"(Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The exit
code is 0 when the new configuration is in force, 1 when the proxy refused it and
keeps the old one, 2 for wrong use and 3 when there is no answer.)";

constexpr const char* kHealthFooter =
    R"(Asks /readyz on the admin address, which is that of the configuration. The exit
code is 0 when the proxy is ready, and 1 when it is not or does not answer. For
containers:

  HEALTHCHECK CMD ["tidegate", "health", "-c", "/etc/tidegate/tidegate.yaml"])";

std::vector<config::Diagnostic> diagnostics(const JsonValue& answer, const char* name) {
    std::vector<config::Diagnostic> out;
    for (const JsonValue& one : answer.value(name, JsonValue::array())) {
        out.push_back({one.at("file").get<std::string>(), one.value("line", 0),
                       one.value("column", 0), one.at("message").get<std::string>()});
    }
    return out;
}

int reload(const AdminArguments& arguments) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const auto reply = ask_admin(*place, true, "/reload", kReloadPatience);
    if (!reply) return complain(exit_code::kNoAnswer, reply.error());
    if (reply->status != kOk && reply->status != kConflict) {
        return complain(exit_code::kNoAnswer, refusal_text(*place, *reply));
    }
    const std::string text = reload_text(reply->body);
    if (text.empty()) return complain(exit_code::kNoAnswer, stranger_text(*place, *reply));
    fmt::print(reply->status == kOk ? stdout : stderr, "{}", text);
    return reply->status == kOk ? exit_code::kDone : exit_code::kRefused;
}

int health(const AdminArguments& arguments) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kNotReady, place.error());
    const auto reply = ask_admin(*place, false, "/readyz", kHealthPatience);
    if (!reply) return complain(exit_code::kNotReady, reply.error());
    const std::string status = readiness_of(reply->body);
    if (status.empty()) return complain(exit_code::kNotReady, stranger_text(*place, *reply));
    if (reply->status != kOk) {
        return complain(exit_code::kNotReady,
                        fmt::format("not ready: the admin listener on {} answers {}, {}",
                                    place->address.to_string(), reply->status, status));
    }
    fmt::print("{}\n", status);
    return exit_code::kDone;
}

// Whatever goes wrong is not taken for an answer.
template <class Ask>
int guarded(Ask ask, const AdminArguments& arguments, int code) {
    try {
        return ask(arguments);
    } catch (const std::exception& error) {
        return complain(code, error.what());
    }
}

}  // namespace

CLI::App* describe_reload(CLI::App& app, AdminArguments& arguments) {
    CLI::App* const command =
        app.add_subcommand("reload", "Have a running proxy read its configuration again");
    add_admin_options(*command, arguments);
    command->footer(kReloadFooter);
    return command;
}

CLI::App* describe_health(CLI::App& app, AdminArguments& arguments) {
    CLI::App* const command =
        app.add_subcommand("health", "Say whether a running proxy is ready, for containers");
    add_admin_options(*command, arguments);
    command->footer(kHealthFooter);
    return command;
}

int run_reload(const AdminArguments& arguments) {
    return guarded(reload, arguments, exit_code::kNoAnswer);
}

int run_health(const AdminArguments& arguments) {
    return guarded(health, arguments, exit_code::kNotReady);
}

std::string readiness_of(const std::string& body) {
    const auto answer = parse_json_object(body);
    if (!answer) return {};
    const std::string_view word = string_member(*answer, "status").value_or("");
    const bool is_known = word == "ready" || word == "starting" || word == "draining";
    return is_known ? std::string(word) : std::string();
}

std::string reload_text(const std::string& body) {
    const auto parsed = parse_json_object(body);
    if (!parsed || !parsed->contains("result") || !parsed->contains("generation")) return {};
    const JsonValue& answer = *parsed;
    config::Loaded outcome;
    outcome.errors = diagnostics(answer, "errors");
    outcome.warnings = diagnostics(answer, "warnings");
    const auto generation = answer.at("generation").get<std::uint64_t>();
    if (answer.at("result") == "ok") {
        return fmt::format("{}configuration {} is in force\n", report(outcome), generation);
    }
    return fmt::format("{}{}: the proxy goes on with configuration {}\n", report(outcome),
                       summary(outcome), generation);
}

}  // namespace tidegate::cli

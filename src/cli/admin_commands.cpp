// The commands that ask the running proxy on its admin listener: those of admin/api_paths.hpp, and
// `health`.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/api_paths.hpp"
#include "base/doc.hpp"
#include "base/json.hpp"
#include "cli/admin_client.hpp"
#include "cli/commands.hpp"

namespace tidegate::cli {

namespace {

using admin::AdminParameter;
using admin::AdminQuestion;

constexpr int kOk = 200;
constexpr int kConflict = 409;
constexpr int kUnavailable = 503;  // a thread of the proxy was busy, or the proxy stops
constexpr int kNothingListed = 1;

struct AskArguments : AdminArguments {
    const AdminQuestion* question = nullptr;  // what is asked: one that is in place of another, too
    admin::AdminValues values;                // of the parameters of the command's own question
    bool follows = false;
    bool as_json = false;
};

std::string target_of(const AskArguments& arguments) {
    const AdminQuestion& question = *arguments.question;
    std::string target(question.path);
    char separator = '?';
    const auto add = [&](std::string_view name, std::string_view value) {
        target += fmt::format("{}{}={}", separator, name, percent_encoded(value));
        separator = '&';
    };
    for (std::size_t i = 0; i < question.parameters.size(); ++i) {
        const std::string& value = arguments.values[i];
        if (!value.empty()) add(question.parameters[i].name, value);
    }
    if (!arguments.as_json && !arguments.follows) add("format", "text");
    return target;
}

// An older proxy has no text, and does not say what the command ends with.
int print_answer_of_older(const AskArguments& arguments, const FoundAdmin& place,
                          const AdminReply& reply) {
    const auto json = parse_json_object(reply.body);
    if (!json || find_member(*json, arguments.question->member) == nullptr) {
        return complain(exit_code::kNoAnswer, stranger_text(place, reply));
    }
    const bool looks = arguments.question->access == AdminQuestion::Access::look;
    complain(exit_code::kDone,
             fmt::format("the proxy on {} is older than this command: it answers with JSON only{}",
                         place.address.to_string(),
                         looks ? ", and the exit code does not say what it has found" : ""));
    fmt::print("{}", reply.body);
    return reply.status == kOk ? exit_code::kDone : exit_code::kRefused;
}

int ask_once(const AskArguments& arguments, const FoundAdmin& place) {
    const AdminQuestion& question = *arguments.question;
    const bool changes = question.access != AdminQuestion::Access::look;
    const auto reply = ask_admin(place, changes, target_of(arguments), question.patience);
    if (!reply) return complain(exit_code::kNoAnswer, reply.error());
    if (reply->exit_code) {
        fmt::print(reply->status == kOk ? stdout : stderr, "{}", reply->body);
        return *reply->exit_code;
    }
    const bool is_answer = reply->status == kOk || (changes && reply->status == kConflict);
    return is_answer ? print_answer_of_older(arguments, place, *reply)
                     : complain_of_refusal(place, *reply);
}

// SIGINT and SIGTERM wait until this asks for them.
class StopSignals {
  public:
    StopSignals() {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        sigaddset(&signals_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    }
    ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    // True if one of them comes within a second, or has come.
    bool come_within_a_second() const {
        const timespec second{1, 0};
        return sigtimedwait(&signals_, nullptr, &second) > 0;
    }

  private:
    sigset_t signals_{};
    sigset_t before_{};
};

// Reports once that the proxy does not answer, and once that it does again.
class SilenceReport {
  public:
    void note_silence(const std::string& why) {
        if (!is_silent_) complain(exit_code::kNoAnswer, why + "; trying again every second");
        is_silent_ = true;
    }
    void note_answer() {
        if (is_silent_) complain(exit_code::kDone, "the proxy answers again");
        is_silent_ = false;
    }

  private:
    bool is_silent_ = false;
};

struct FollowedEntry {
    std::string id;    // no two entries have the same
    std::string text;  // with a line feed
};

// Reads an answer, which lists the newest first, and returns the oldest first; nothing if the proxy
// keeps no names.
// Throws nlohmann::json::exception if it is no such answer.
std::optional<std::vector<FollowedEntry>> entries_of(const AskArguments& arguments,
                                                     const JsonValue& answer) {
    const admin::FollowedList& followed = arguments.question->followed;
    if (!answer.at("enabled").get<bool>()) return std::nullopt;
    const JsonValue& list = answer.at(followed.member);
    std::vector<FollowedEntry> entries;
    for (auto one = list.rbegin(); one != list.rend(); ++one) {
        // Numbers begin anew with the process.
        entries.push_back(
            {fmt::format("{} {}", one->at("id").get<std::string>(),
                         one->at("time_ms").get<std::int64_t>()),
             arguments.as_json ? one->dump(-1, ' ', true) + "\n" : followed.line(Doc::Json(*one))});
    }
    return entries;
}

// Ends with 0 at SIGINT and SIGTERM, and with 3 when the proxy is not there at first.
int follow(const AskArguments& arguments, const FoundAdmin& place) {
    const StopSignals stop;
    SilenceReport report;
    bool has_answered = false;
    std::set<std::string> seen;  // those of the last answer
    if (!arguments.as_json) fmt::print("{}", arguments.question->followed.heading());
    while (true) {
        const auto reply =
            ask_admin(place, false, target_of(arguments), arguments.question->patience);
        // A wrong address ends the command; a proxy that has answered may come back.
        if (has_answered && (!reply || reply->status == kUnavailable)) {
            report.note_silence(reply ? refusal_text(place, *reply) : reply.error());
            if (stop.come_within_a_second()) return exit_code::kDone;
            continue;
        }
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        if (reply->status != kOk) return complain_of_refusal(place, *reply);
        std::optional<std::vector<FollowedEntry>> entries;
        try {
            const auto json = parse_json_object(reply->body);
            entries = entries_of(arguments, json ? *json : JsonValue());
        } catch (const JsonValue::exception&) {
            return complain(exit_code::kNoAnswer, stranger_text(place, *reply));
        }
        if (!entries) return complain(kNothingListed, arguments.question->followed.when_off);
        has_answered = true;
        report.note_answer();
        std::set<std::string> now;
        for (FollowedEntry& one : *entries) {
            if (!seen.contains(one.id)) fmt::print("{}", one.text);
            now.insert(std::move(one.id));
        }
        seen = std::move(now);
        if (std::fflush(stdout) != 0) return complain(exit_code::kNoAnswer, "cannot write");
        if (stop.come_within_a_second()) return exit_code::kDone;
    }
}

int ask(const AskArguments& arguments) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    return arguments.follows ? follow(arguments, *place) : ask_once(arguments, *place);
}

// Whatever goes wrong is not taken for an answer: the exit code is `code` then.
template <class Ask>
int ask_safely(Ask ask, int code) {
    try {
        return ask();
    } catch (const std::exception& error) {
        return complain(code, error.what());
    }
}

// For CLI11, which keeps texts as std::string.
std::string text(std::string_view view) {
    return std::string(view);
}

// Says what is wrong with an empty value.
CLI::Validator refuses_nothing(const CLI::App& command, const AdminParameter& parameter) {
    const bool is_argument = parameter.kind == AdminParameter::Kind::argument;
    const std::string option = is_argument ? "" : fmt::format("--{} ", parameter.name);
    return {[&command, &parameter, option](std::string& given) {
                return given.empty() ? fmt::format("it is empty; {}: `tidegate {} {}{}`",
                                                   parameter.when_empty, command.get_name(), option,
                                                   parameter.example)
                                     : std::string();
            },
            ""};
}

void add_parameter(CLI::App& command, const AdminParameter& parameter, std::string& value) {
    const std::string option = "--" + text(parameter.name);
    switch (parameter.kind) {
        case AdminParameter::Kind::argument:
            command.add_option(text(parameter.value), value, text(parameter.what))
                ->option_text(" ")
                ->required()
                ->check(refuses_nothing(command, parameter));
            return;
        case AdminParameter::Kind::flag:
            command.add_flag_function(
                option, [&parameter, &value](std::int64_t) { value = parameter.choices.back(); },
                text(parameter.what));
            return;
        case AdminParameter::Kind::option:
            break;
    }
    CLI::Option* const added = command.add_option(option, value, text(parameter.what));
    added->option_text(text(parameter.value));
    if (parameter.choices.empty()) {
        added->check(refuses_nothing(command, parameter));
        return;
    }
    value = parameter.choices.front();
    added->check(CLI::IsMember(
        std::vector<std::string>(parameter.choices.begin(), parameter.choices.end())));
}

// The option that asks `question` in place of what the command asks, without its argument.
void add_in_place(CLI::App& command, const AdminQuestion& question,
                  const std::shared_ptr<AskArguments>& arguments) {
    CLI::Option* const argument =
        command.get_option(text(arguments->question->parameters.front().value));
    // The parser runs this before it looks for required arguments.
    command
        .add_flag_function(
            text(question.in_place),
            [argument, arguments, &question](std::int64_t) {
                argument->required(false);
                arguments->question = &question;
            },
            text(question.what))
        ->excludes(argument);
}

Command asking_command(CLI::App& app, const AdminQuestion& question) {
    const auto arguments = std::make_shared<AskArguments>();
    arguments->question = &question;
    CLI::App* const command = app.add_subcommand(text(question.command), text(question.what));
    arguments->values.resize(question.parameters.size());
    const auto add_parameters = [&](bool arguments_only) {
        for (std::size_t i = 0; i < question.parameters.size(); ++i) {
            const AdminParameter& parameter = question.parameters[i];
            const bool is_argument = parameter.kind == AdminParameter::Kind::argument;
            if (is_argument == arguments_only) {
                add_parameter(*command, parameter, arguments->values[i]);
            }
        }
    };
    add_parameters(true);
    add_admin_options(*command, *arguments);
    if (!question.json_option.empty()) {
        command->add_flag("--json", arguments->as_json, text(question.json_option));
    }
    add_parameters(false);
    if (question.followed.member != nullptr) {
        command->add_flag("--follow", arguments->follows, text(question.followed.what));
    }
    for (const AdminQuestion& other : admin::questions()) {
        if (other.command == question.command && !other.in_place.empty()) {
            add_in_place(*command, other, arguments);
        }
    }
    command->footer(text(question.footer));
    return {command, [arguments] {
                return ask_safely([&] { return ask(*arguments); }, exit_code::kNoAnswer);
            }};
}

}  // namespace

std::vector<Command> asking_commands(CLI::App& app) {
    std::vector<Command> commands;
    for (const AdminQuestion& question : admin::questions()) {
        if (question.command.empty() || !question.in_place.empty()) continue;
        // It stands beside `run` and `check`.
        if (question.command != "reload") commands.push_back(asking_command(app, question));
    }
    return commands;
}

Command reload_command(CLI::App& app) {
    const auto all = admin::questions();
    return asking_command(app, *std::find_if(all.begin(), all.end(), [](const AdminQuestion& one) {
                              return one.command == "reload";
                          }));
}

namespace {

// Less than the time that Kubernetes or Docker gives it.
constexpr std::chrono::seconds kHealthPatience{2};

constexpr const char* kHealthFooter =
    R"(Asks /readyz on the admin address, which is that of the configuration. The exit
code is 0 when the proxy is ready, and 1 when it is not or does not answer. For
containers:

  HEALTHCHECK CMD ["tidegate", "health", "-c", "/etc/tidegate/tidegate.yaml"])";

// Asks the running proxy whether it is ready. Returns the exit code: 0 when it is, 1 when it is not
// or does not answer.
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

}  // namespace

Command health_command(CLI::App& app) {
    const auto arguments = std::make_shared<AdminArguments>();
    CLI::App* const command =
        app.add_subcommand("health", "Say whether a running proxy is ready, for containers");
    add_admin_options(*command, *arguments);
    command->footer(kHealthFooter);
    return {command, [arguments] {
                return ask_safely([&] { return health(*arguments); }, exit_code::kNotReady);
            }};
}

}  // namespace tidegate::cli

#include "cli/admin_commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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

#include "admin/answer.hpp"
#include "admin/api_paths.hpp"
#include "app/http_client.hpp"
#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "net/asio.hpp"

namespace tidegate::cli {

namespace {

using Reply = Result<AdminReply, std::string>;

// The largest answer: what a hundred policies count.
constexpr std::size_t kBodyBytesMax = std::size_t{16} << 20;
constexpr std::int64_t kExitCodeMax = 255;

std::string request_for(const AdminPlace& place, bool post, std::string_view target) {
    std::string request =
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", post ? "POST" : "GET",
                    target, place.address.is_unix() ? "localhost" : place.address.to_string());
    if (!place.token.empty()) request += "Authorization: Bearer " + place.token + "\r\n";
    if (post) request += "Content-Length: 0\r\n";
    return request + "\r\n";
}

Task<Reply> ask(Executor executor, AdminPlace place, bool post, std::string target,
                std::chrono::milliseconds patience) {
    using Fault = app::HttpAnswer::Fault;
    app::HttpClient client(executor, {.address = place.address});
    const std::string request = request_for(place, post, target);
    app::HttpAnswer answer = co_await client.call({.head = request,
                                                   .until = steady_now() + patience,
                                                   .body_bytes_max = kBodyBytesMax,
                                                   .field = admin::kExitCodeField});
    client.close();
    if (answer.fault != Fault::none) {
        co_return fmt::format("{} the admin listener on {}{}: {}",
                              answer.fault > Fault::connect ? "no answer from" : "cannot reach",
                              place.address.to_string(), place.origin,
                              answer.is_late ? "it does not answer" : answer.reason);
    }
    AdminReply reply{answer.status, std::move(answer.body)};
    const auto code = parse_decimal(answer.field);
    if (code && *code >= 0 && *code <= kExitCodeMax) reply.exit_code = static_cast<int>(*code);
    co_return reply;
}

}  // namespace

Reply ask_admin(const AdminPlace& place, bool post, std::string_view target,
                std::chrono::milliseconds patience) {
    asio::io_context io{1};
    AdminPlace reached = place;
    reached.address = config::reachable(place.address);
    std::optional<Reply> reply;
    spawn(io.get_executor(),
          ask(io.get_executor(), std::move(reached), post, std::string(target), patience),
          [&](const std::exception_ptr& failure, Reply answer) {
              if (failure) std::rethrow_exception(failure);
              reply = std::move(answer);
          });
    io.run();
    return std::move(*reply);
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view kUnreserved =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    std::string out;
    for (const char c : text) {
        if (kUnreserved.find(c) != std::string_view::npos) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

namespace {

constexpr const char* kDefaultAdmin = "127.0.0.1:9901";

ErrorMessage faulty_token_file(const std::string& file, std::string_view reason) {
    return {fmt::format("tidegate: --token-file: {}: {}", quote(file), reason)};
}

Result<FoundAdmin, std::string> admin_on_command_line(const AdminArguments& arguments) {
    FoundAdmin place{{*config::parse_listen_address(arguments.admin), {}, {}},
                     "name a file that holds it with --token-file",
                     "give the address that is in `admin`"};
    if (arguments.token_file.empty()) return place;
    place.token_advice = fmt::format("{} holds another token", quote(arguments.token_file));
    auto file = config::read_named_file(arguments.token_file);
    if (!file) return faulty_token_file(arguments.token_file, file.error());
    place.token = std::move(file->text);
    place.token.erase(place.token.find_last_not_of(" \t\r\n") + 1);
    if (place.token.empty()) return faulty_token_file(arguments.token_file, "the file is empty");
    return place;
}

std::string advice_about_token(const FoundAdmin& place, const std::string& where) {
    return place.token.empty()
               ? fmt::format("{} has no `admin.token`; name the file of the running proxy with -c",
                             where)
               : fmt::format(
                     "`admin.token` in {} is not the token of the running proxy; if you changed "
                     "it, reload the proxy (HUP)",
                     where);
}

}  // namespace

void add_admin_options(CLI::App& command, AdminArguments& arguments) {
    CLI::Option* const file =
        command
            .add_option("-c,--config", arguments.file,
                        fmt::format("The configuration (default {})", kDefaultFile))
            ->option_text("FILE");
    CLI::Option* const admin =
        command.add_option("--admin", arguments.admin, "The admin address, without configuration")
            ->option_text("ADDRESS")
            ->check(objection_to_address)
            ->excludes(file);
    command.add_option("--token-file", arguments.token_file, "A file with the admin token")
        ->option_text("FILE")
        ->needs(admin);
}

Result<FoundAdmin, std::string> find_admin(const AdminArguments& arguments) {
    if (!arguments.admin.empty()) return admin_on_command_line(arguments);
    if (arguments.file.empty() && !has_default_file()) {
        FoundAdmin place{{*config::parse_listen_address(kDefaultAdmin),
                          {},
                          fmt::format(" (the default; there is no {} here)", kDefaultFile)},
                         {},
                         "name the configuration of the running proxy with -c"};
        place.token_advice = advice_about_token(place, "the built-in quickstart");
        return place;
    }
    const std::string file = arguments.file.empty() ? kDefaultFile : arguments.file;
    config::LoadedAdmin loaded = config::load_admin(file);
    if (!loaded.errors.empty()) {
        config::Loaded refused;
        refused.errors = std::move(loaded.errors);
        return report(refused) + summary(refused);
    }
    if (!loaded.admin) return "the configuration " + quote(file) + " has `admin: off`";
    FoundAdmin place{{loaded.admin->address, loaded.admin->token, {}},
                     {},
                     fmt::format("start a Tidegate with {}, or name the configuration of the "
                                 "running one with -c",
                                 quote(file))};
    place.token_advice = advice_about_token(place, quote(file));
    return place;
}

bool is_admin_problem(const AdminReply& reply) {
    const auto problem = parse_json_object(reply.body);
    if (!problem) return false;
    const JsonValue* const type = find_member(*problem, "type");
    const JsonValue* const status = find_member(*problem, "status");
    return type != nullptr && *type == "about:blank" && status != nullptr &&
           *status == reply.status && find_member(*problem, "request_id") == nullptr;
}

std::string stranger_text(const FoundAdmin& place, const AdminReply& reply) {
    return fmt::format("{} answers {}, and is not Tidegate's admin listener: {}",
                       place.address.to_string(), reply.status, place.address_advice);
}

std::string refusal_text(const FoundAdmin& place, const AdminReply& reply) {
    if (!is_admin_problem(reply)) return stranger_text(place, reply);
    if (reply.status == 401) {
        return fmt::format("the admin listener on {} wants a token: {}", place.address.to_string(),
                           place.token_advice);
    }
    const auto problem = parse_json_object(reply.body);
    const JsonValue* const detail = find_member(*problem, "detail");
    if (detail != nullptr && detail->is_string() && !text_of(*detail).empty()) {
        return escaped_text(text_of(*detail));
    }
    return fmt::format("the admin listener answers {}", reply.status);
}

int complain_of_refusal(const FoundAdmin& place, const AdminReply& reply) {
    const bool is_wrong_use = reply.status == 400 && is_admin_problem(reply);
    const int code = is_wrong_use ? exit_code::kWrongUse : exit_code::kNoAnswer;
    return complain(code, refusal_text(place, reply));
}

std::string readiness_of(const std::string& body) {
    const auto answer = parse_json_object(body);
    if (!answer) return {};
    const std::string_view word = string_member(*answer, "status").value_or("");
    const bool is_known = word == "ready" || word == "starting" || word == "draining";
    return is_known ? std::string(word) : std::string();
}

// The commands that ask the running proxy on its admin listener: those of admin/api_paths.hpp, and
// `health`.
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
            if (stop.come_within(std::chrono::seconds(1))) return exit_code::kDone;
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
        if (stop.come_within(std::chrono::seconds(1))) return exit_code::kDone;
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

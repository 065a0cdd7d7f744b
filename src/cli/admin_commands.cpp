// The commands that ask the running proxy on its admin listener: `reload`, `health`, `inspect`,
// `reset`, `top` and `denials`.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/admin_client.hpp"
#include "cli/admin_text.hpp"
#include "cli/commands.hpp"

namespace tidegate::cli {

namespace {

constexpr int kOk = 200;

// Whatever goes wrong is not taken for an answer: the exit code is `code` then.
template <class Ask, class Arguments>
std::function<int()> asking(Ask ask, const std::shared_ptr<Arguments>& arguments,
                            int code = exit_code::kNoAnswer) {
    return [=] {
        try {
            return ask(*arguments);
        } catch (const std::exception& error) {
            return complain(code, error.what());
        }
    };
}

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

// Has the running proxy read its configuration again, and prints what came of it. Returns the exit
// code: 0 when the new configuration is in force, 1 when the proxy refused it, 2 when no admin
// listener is known, 3 when there is no answer.
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

Command asking_command(CLI::App& app, const char* name, const char* what, const char* footer,
                       int (*ask)(const AdminArguments&), int code) {
    const auto arguments = std::make_shared<AdminArguments>();
    CLI::App* const command = app.add_subcommand(name, what);
    add_admin_options(*command, *arguments);
    command->footer(footer);
    return {command, asking(ask, arguments, code)};
}

}  // namespace

Command reload_command(CLI::App& app) {
    return asking_command(app, "reload", "Have a running proxy read its configuration again",
                          kReloadFooter, reload, exit_code::kNoAnswer);
}

Command health_command(CLI::App& app) {
    return asking_command(app, "health", "Say whether a running proxy is ready, for containers",
                          kHealthFooter, health, exit_code::kNotReady);
}

namespace {

struct InspectArguments : AdminArguments {
    std::string identifier;
    bool upstreams = false;  // in place of an identifier
    bool as_json = false;
};

constexpr int kFound = 0;
constexpr int kNothingCounted = 1;
constexpr int kAllUp = 0;
constexpr int kSomeDown = 1;
// More than the proxy takes for any answer (app/admin_services.hpp).
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

CLI::App* describe_counts(CLI::App& app, const char* name, const char* what, const char* footer,
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
int ask_and_print(const InspectArguments& arguments, bool post, const std::string& target,
                  TextOf text_of, CodeOf code_of) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const auto reply = ask_or_complain(*place, post, target, kInspectPatience);
    if (!reply) return reply.error();
    const auto shown = text_of(reply->body);
    if (!shown) return complain(exit_code::kNoAnswer, stranger_text(*place, *reply));
    fmt::print("{}", arguments.as_json ? reply->body : shown->text);
    return code_of(*shown);
}

// Returns the exit code: 0 when something is (or was) counted, 1 when nothing is, 2 when the
// question makes no sense, 3 when there is no answer.
template <class TextOf>
int ask_for_counts(const InspectArguments& arguments, bool reset, TextOf text_of) {
    const std::string target = fmt::format("/api/{}?identifier={}", reset ? "reset" : "inspect",
                                           percent_encoded(arguments.identifier));
    return ask_and_print(arguments, reset, target, text_of, [](const CountsText& counts) {
        return counts.counted ? kFound : kNothingCounted;
    });
}

// Returns the exit code: 0 when every server is up, 1 when one is not, 2 and 3 likewise.
int ask_for_upstreams(const InspectArguments& arguments) {
    return ask_and_print(
        arguments, false, "/api/upstreams", upstreams_text,
        [](const UpstreamsText& upstreams) { return upstreams.all_up ? kAllUp : kSomeDown; });
}

}  // namespace

Command inspect_command(CLI::App& app) {
    const auto arguments = std::make_shared<InspectArguments>();
    CLI::App* const command = describe_counts(
        app, "inspect", "Show what is counted now for an identifier", kInspectFooter, *arguments);
    CLI::Option* const identifier = command->get_option("IDENTIFIER");
    // The parser runs this before it looks for required arguments.
    command
        ->add_flag_function(
            "--upstreams",
            [identifier, arguments](std::int64_t) {
                identifier->required(false);
                arguments->upstreams = true;
            },
            "Show the servers of all upstreams instead")
        ->excludes(identifier);
    const auto ask = [](const InspectArguments& asked) {
        return asked.upstreams ? ask_for_upstreams(asked)
                               : ask_for_counts(asked, false, inspect_text);
    };
    return {command, asking(ask, arguments)};
}

Command reset_command(CLI::App& app) {
    const auto arguments = std::make_shared<InspectArguments>();
    CLI::App* const command = describe_counts(
        app, "reset", "Clear what is counted for an identifier", kResetFooter, *arguments);
    const auto ask = [](const InspectArguments& asked) {
        return ask_for_counts(asked, true, reset_text);
    };
    return {command, asking(ask, arguments)};
}

namespace {

struct ActivityArguments : AdminArguments {
    std::string by = "requests";  // of `top`
    bool follows = false;         // of `denials`
    bool as_json = false;
};

constexpr int kListed = 0;
constexpr int kNothingListed = 1;
constexpr int kFollowedToTheEnd = 0;
constexpr int kUnavailable = 503;  // a thread of the proxy was busy, or the proxy stops
// The proxy waits 1 s for its threads. A signal waits for an answer to `--follow`.
constexpr std::chrono::seconds kActivityPatience{3};

constexpr const char* kTopFooter =
    R"(Lists the identifiers that most requests of the last one to two minutes counted
for, or that were most often over a limit:

  tidegate top
  tidegate top --by denials

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer.)";

constexpr const char* kDenialsFooter =
    R"(Lists the last requests that a limit has refused, oldest first: when, whose, by
which limit, and how much of it was taken. Of one identifier, each thread keeps
four a second.

  tidegate denials
  tidegate denials --follow

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer. With --follow it is 0 after an interrupt. When the
proxy ends, --follow says so, tries again every second, and says when it is back.)";

CLI::App* describe_activity(CLI::App& app, const char* name, const char* what, const char* footer,
                            ActivityArguments& arguments) {
    CLI::App* const command = app.add_subcommand(name, what);
    add_admin_options(*command, arguments);
    command->add_flag("--json", arguments.as_json, "Print JSON, for programs");
    command->footer(footer);
    return command;
}

// Returns the exit code: 0 when there is something to list, 1 when there is nothing, 2 for wrong
// use, 3 when there is no answer.
int ask_for_top(const ActivityArguments& arguments) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const auto reply =
        ask_or_complain(*place, false, "/api/top?by=" + arguments.by, kActivityPatience);
    if (!reply) return reply.error();
    const auto top = top_text(reply->body);
    if (!top) return complain(exit_code::kNoAnswer, stranger_text(*place, *reply));
    fmt::print("{}", arguments.as_json ? reply->body : top->text);
    return top->lists_any ? kListed : kNothingListed;
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

int follow_denials(const ActivityArguments& arguments, const FoundAdmin& place) {
    const StopSignals stop;
    SilenceReport report;
    bool has_answered = false;
    std::set<std::string> seen;  // those of the last answer
    if (!arguments.as_json) fmt::print("{}", denial_heading());
    while (true) {
        const auto reply = ask_admin(place, false, "/api/denials", kActivityPatience);
        // A wrong address ends the command; a proxy that has answered may come back.
        if (has_answered && (!reply || reply->status == kUnavailable)) {
            report.note_silence(reply ? refusal_text(place, *reply) : reply.error());
            if (stop.come_within_a_second()) return kFollowedToTheEnd;
            continue;
        }
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        if (reply->status != 200) return complain_of_refusal(place, *reply);
        const auto denials = denials_text(reply->body);
        if (!denials) return complain(exit_code::kNoAnswer, stranger_text(place, *reply));
        if (!denials->enabled) return complain(kNothingListed, kNotKept);
        has_answered = true;
        report.note_answer();
        std::set<std::string> now;
        for (const DenialText& one : denials->denials) {
            if (!seen.contains(one.id)) fmt::print("{}", arguments.as_json ? one.json : one.line);
            now.insert(one.id);
        }
        seen = std::move(now);
        if (std::fflush(stdout) != 0) return complain(exit_code::kNoAnswer, "cannot write");
        if (stop.come_within_a_second()) return kFollowedToTheEnd;
    }
}

// Returns the exit code, as ask_for_top() does. With `--follow` it is 0 at SIGINT and SIGTERM, and
// 3 when the proxy has gone before it has answered once.
int ask_for_denials(const ActivityArguments& arguments) {
    const auto place = find_admin(arguments);
    if (!place) return complain(exit_code::kWrongUse, place.error());
    if (arguments.follows) return follow_denials(arguments, *place);
    const auto reply = ask_or_complain(*place, false, "/api/denials", kActivityPatience);
    if (!reply) return reply.error();
    const auto denials = denials_text(reply->body);
    if (!denials) return complain(exit_code::kNoAnswer, stranger_text(*place, *reply));
    if (arguments.as_json) {
        fmt::print("{}", reply->body);
    } else if (!denials->enabled) {
        fmt::print("{}\n", kNotKept);
    } else if (denials->denials.empty()) {
        fmt::print("no limit has refused a request\n");
    } else {
        fmt::print("{}", denial_heading());
        for (const DenialText& one : denials->denials) fmt::print("{}", one.line);
    }
    return denials->denials.empty() ? kNothingListed : kListed;
}

}  // namespace

Command top_command(CLI::App& app) {
    const auto arguments = std::make_shared<ActivityArguments>();
    CLI::App* const command = describe_activity(
        app, "top", "List who sends most requests, or is denied most", kTopFooter, *arguments);
    command->add_option("--by", arguments->by, "What is counted: requests (default) or denials")
        ->option_text("WHAT")
        ->check(CLI::IsMember({"requests", "denials"}));
    return {command, asking(ask_for_top, arguments)};
}

Command denials_command(CLI::App& app) {
    const auto arguments = std::make_shared<ActivityArguments>();
    CLI::App* const command = describe_activity(
        app, "denials", "List the last requests that a limit refused", kDenialsFooter, *arguments);
    command->add_flag("--follow", arguments->follows, "Go on with new ones, until interrupted");
    return {command, asking(ask_for_denials, arguments)};
}

}  // namespace tidegate::cli

#include "cli/activity_command.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/activity_text.hpp"
#include "cli/admin_client.hpp"
#include "cli/exit_code.hpp"

namespace tidegate::cli {

namespace {

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

// Whatever goes wrong is not taken for an answer.
template <class Ask>
int no_answer_if_it_throws(Ask ask_admin_listener) {
    try {
        return ask_admin_listener();
    } catch (const std::exception& error) {
        return complain(exit_code::kNoAnswer, error.what());
    }
}

}  // namespace

CLI::App* describe_top(CLI::App& app, ActivityArguments& arguments) {
    CLI::App* const command = describe_activity(
        app, "top", "List who sends most requests, or is denied most", kTopFooter, arguments);
    command->add_option("--by", arguments.by, "What is counted: requests (default) or denials")
        ->option_text("WHAT")
        ->check(CLI::IsMember({"requests", "denials"}));
    return command;
}

CLI::App* describe_denials(CLI::App& app, ActivityArguments& arguments) {
    CLI::App* const command = describe_activity(
        app, "denials", "List the last requests that a limit refused", kDenialsFooter, arguments);
    command->add_flag("--follow", arguments.follows, "Go on with new ones, until interrupted");
    return command;
}

int run_top(const ActivityArguments& arguments) {
    return no_answer_if_it_throws([&] { return ask_for_top(arguments); });
}

int run_denials(const ActivityArguments& arguments) {
    return no_answer_if_it_throws([&] { return ask_for_denials(arguments); });
}

}  // namespace tidegate::cli

// `tidegate simulate`.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <climits>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/admin_commands.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "config/files.hpp"
#include "simulate/log.hpp"
#include "simulate/replay.hpp"
#include "simulate/report.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::cli {

namespace {

struct SimulateArguments {
    std::string config{};
    std::string candidate{};
    std::vector<std::string> logs{};
    std::string format{};
    std::vector<std::string> map{};
    std::string zone{};
    std::string late{};
    std::string host{};
    std::string suggest{};
    std::string svg{};
    std::string record{};
    std::string share{};
    std::string time{};
    std::string admin{};
    std::string token_file{};
    bool as_json = false;
};

constexpr const char* kSimulateFooter =
    R"(Replays access logs against a configuration, at the times of the logs, and says
who would have been limited, when and by which limit. Nothing is sent anywhere.

  tidegate simulate -c tidegate.yaml access.log
  tidegate simulate -c tidegate.yaml --suggest 0.1% access.log.1 access.log
  tidegate simulate -c tidegate.yaml --candidate next.yaml --svg limits.svg access.log
  zcat $(ls -rv access.log.*.gz) | tidegate simulate -c tidegate.yaml -
  tidegate simulate -c tidegate.yaml --map time=ts --map path=req.url app.json
  tidegate simulate -c tidegate.yaml --record requests.json --share 1% --for 10m
  tidegate simulate -c tidegate.yaml --candidate next.yaml requests.json

Formats: common and combined (nginx, Apache, Traefik, Tidegate's text), HAProxy,
AWS ALB, JSON of Caddy, Traefik and Tidegate, logfmt. Of other JSON, --map says
where the facts are: docs/simulate.md.

--record writes what decisions need of the requests of the running proxy, whose
configuration -c names: identifiers as digests, costs and times. The file has all
requests of a share of the identifiers, so that each count is whole.

For logs the exit code is 1 if the configuration has a fault, if a log cannot be
read or its format is not known, and if more than 1% of the lines could not be read
or come too late. With --record it is 1 if another recording is under way, the file
cannot be written or lacks requests, 2 if the configuration has a fault, and 3 if
the proxy does not answer, or refuses. It is 2 if the command line is wrong.)";

std::vector<std::string> format_names() {
    std::vector<std::string> names;
    names.reserve(kEnumerators<simulate::LogFormat>.size());
    for (const auto format : kEnumerators<simulate::LogFormat>) {
        names.emplace_back(to_string(format));
    }
    return names;
}

std::optional<simulate::LogFormat> format_of(const std::string& name) {
    for (const auto format : kEnumerators<simulate::LogFormat>) {
        if (to_string(format) == name) return format;
    }
    return std::nullopt;
}

// What is wrong with writing to `output`, which `option` names; empty: nothing is.
std::string objection_to_output(std::string_view option, const std::string& output,
                                const std::string& config, const SimulateArguments& arguments) {
    std::vector<std::string> inputs = arguments.logs;
    inputs.push_back(config);
    inputs.push_back(arguments.candidate);
    for (const std::string& input : inputs) {
        std::error_code ec;
        if (!std::filesystem::equivalent(output, input, ec)) continue;
        return fmt::format(
            "tidegate: simulate: {} would overwrite {}, which is read: name another "
            "file",
            option, quote(input));
    }
    return {};
}

bool write_picture(const std::string& path, const std::string& picture) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return false;
    const bool is_written = std::fwrite(picture.data(), 1, picture.size(), file) == picture.size();
    return std::fclose(file) == 0 && is_written;
}

std::string objection_to_mapping(const std::string& text) {
    const auto mapping = simulate::parse_mapping(text);
    return mapping ? std::string() : mapping.error();
}

std::string objection_to_share(const std::string& text) {
    const auto share = simulate::parse_share(text);
    return share ? std::string() : share.error();
}

// Replays the logs against one configuration, or against two of them side by side.
int simulate_logs(const SimulateArguments& arguments,
                  const std::shared_ptr<const config::Config>& live,
                  const std::shared_ptr<const config::Config>& next) {
    simulate::LogLayout layout;
    simulate::add_wanted(*live, layout.wanted);
    if (next) simulate::add_wanted(*next, layout.wanted);
    for (const std::string& text : arguments.map) {
        layout.map.push_back(*simulate::parse_mapping(text));
    }
    if (!arguments.zone.empty()) {
        const char* const folder = std::getenv("TZDIR");
        auto zone = config::load_time_zone(arguments.zone, folder != nullptr ? folder : "");
        if (!zone) {
            return complain(exit_code::kWrongUse, "tidegate: simulate: --zone: " + zone.error());
        }
        layout.zone = std::move(*zone);
    }
    layout.host = arguments.host;
    if (!arguments.late.empty()) {
        const auto late = *parse_duration(arguments.late);
        layout.order_seconds = std::chrono::duration_cast<std::chrono::seconds>(late).count();
    }
    layout.needs_address =
        simulate::needs_address(*live) || (next && simulate::needs_address(*next));
    auto opened = simulate::Replay::open(arguments.logs, layout, format_of(arguments.format));
    if (!opened) return complain(exit_code::kRefused, "tidegate: simulate: " + opened.error());
    simulate::Replay& replay = **opened;
    simulate::Simulation simulation(live, replay.facts(), layout.wanted);
    std::unique_ptr<simulate::Simulation> candidate;
    std::optional<simulate::Comparison> comparison;
    if (next) {
        candidate = std::make_unique<simulate::Simulation>(next, replay.facts(), layout.wanted);
        comparison.emplace(config::MemoryStoreSettings{}.max_keys);
    }
    replay.run([&](std::span<const simulate::LoggedRequest> requests) {
        const auto by_live = simulation.decide(requests);
        if (!candidate) return;
        const auto by_candidate = candidate->decide(requests);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            comparison->add(by_live[i], by_candidate[i]);
        }
    });
    simulate::ReportOptions options;
    if (!arguments.suggest.empty()) {
        options.suggest_share = *simulate::parse_share(arguments.suggest);
    }
    const Doc doc = simulate::report(replay, simulation, candidate.get(),
                                     comparison ? &*comparison : nullptr, options);
    const int code = print(doc, arguments.as_json);
    if (arguments.svg.empty() || write_picture(arguments.svg, simulate::picture(simulation))) {
        return code;
    }
    const std::string why = std::generic_category().message(errno);
    return complain(exit_code::kRefused,
                    "tidegate: simulate: cannot write " + quote(arguments.svg) + ": " + why);
}

std::string objection_to_time(const std::string& text) {
    const auto time = parse_duration(text);
    if (!time) return time.error();
    constexpr std::chrono::hours kMost{24};
    static_assert(kMost == std::chrono::seconds{simulate::kOrderSecondsMax});
    return *time < std::chrono::seconds{1} || *time > kMost ? "write 1s to 24h" : std::string();
}

void add_record_options(CLI::App& simulate, SimulateArguments& arguments) {
    CLI::Option* const record =
        simulate
            .add_option("--record", arguments.record,
                        "Write the requests of the running proxy to this file, to be simulated")
            ->option_text("FILE");
    simulate
        .add_option("--share", arguments.share,
                    "Of which share of the identifiers --record writes the requests (default 100%)")
        ->option_text("SHARE")
        ->default_val("100%")
        ->check(objection_to_share)
        ->needs(record);
    simulate.add_option("--for", arguments.time, "How long --record goes on (default 1m)")
        ->option_text("DURATION")
        ->default_val("1m")
        ->check(objection_to_time)
        ->needs(record);
    CLI::Option* const admin =
        simulate
            .add_option("--admin", arguments.admin,
                        "The admin address that --record asks, without configuration")
            ->option_text("ADDRESS")
            ->check(objection_to_address)
            ->needs(record);
    simulate.add_option("--token-file", arguments.token_file, "A file with the admin token")
        ->option_text("FILE")
        ->needs(admin);
}

// The first option that says how logs are read or reported; empty: there is none.
std::string_view option_of_logs(const SimulateArguments& arguments) {
    if (!arguments.candidate.empty()) return "--candidate";
    if (!arguments.suggest.empty()) return "--suggest";
    if (!arguments.format.empty()) return "--format";
    if (!arguments.map.empty()) return "--map";
    if (!arguments.zone.empty()) return "--zone";
    if (!arguments.late.empty()) return "--late";
    if (!arguments.host.empty()) return "--host";
    if (!arguments.svg.empty()) return "--svg";
    return arguments.as_json ? "--json" : "";
}

int run_record(const SimulateArguments& arguments) {
    if (const auto option = option_of_logs(arguments); !option.empty()) {
        return complain(exit_code::kWrongUse,
                        fmt::format("tidegate: simulate: {} goes with logs: simulate what --record "
                                    "has written with another command",
                                    option));
    }
    if (!arguments.logs.empty()) {
        return complain(exit_code::kWrongUse,
                        "tidegate: simulate: --record reads no log: simulate what it has written "
                        "with another command");
    }
    RecordingOptions options{
        arguments.config, arguments.admin, arguments.token_file, arguments.record, {}, {}};
    options.per_million = *simulate::parse_share(arguments.share);
    if (options.per_million == 0) {
        return complain(exit_code::kWrongUse, "tidegate: simulate: --share must be above 0%");
    }
    options.time = *parse_duration(arguments.time);
    if (const auto file = find_config_file({arguments.config, {}}, "simulate")) {
        const std::string wrong =
            objection_to_output("--record", arguments.record, file->path, arguments);
        if (!wrong.empty()) return complain(exit_code::kWrongUse, wrong);
    }
    return record_requests(options);
}

int run_simulate(const SimulateArguments& arguments) {
    if (!arguments.record.empty()) return run_record(arguments);
    if (arguments.logs.empty()) {
        return complain(exit_code::kWrongUse,
                        "tidegate: LOG is required. See `tidegate simulate --help`");
    }
    const auto file = find_config_file({arguments.config, {}}, "simulate");
    if (!file) return complain(exit_code::kWrongUse, "tidegate: " + file.error());
    const auto inputs = std::count(arguments.logs.begin(), arguments.logs.end(), "-") +
                        (file->path == "-" ? 1 : 0) + (arguments.candidate == "-" ? 1 : 0);
    if (inputs > 1) {
        return complain(exit_code::kWrongUse, "tidegate: simulate: only one file can be `-`");
    }
    const std::string wrong = objection_to_output("--svg", arguments.svg, file->path, arguments);
    if (!wrong.empty()) return complain(exit_code::kWrongUse, wrong);
    const auto live = load_or_complain(file->path);
    if (!live) return exit_code::kRefused;
    if (arguments.candidate.empty()) return simulate_logs(arguments, live, nullptr);
    const auto next = load_or_complain(arguments.candidate);
    return next ? simulate_logs(arguments, live, next) : exit_code::kRefused;
}

}  // namespace

Command simulate_command(CLI::App& app) {
    const auto arguments = std::make_shared<SimulateArguments>();
    CLI::App* const simulate = app.add_subcommand(
        "simulate", "Replay access logs: who would have been limited, when, by which limit");
    simulate->add_option("-c,--config", arguments->config, "The configuration (tidegate.yaml)")
        ->option_text("FILE");
    simulate->add_option("LOG", arguments->logs, "Access logs; `-` is standard input")
        ->option_text("FILE");
    simulate
        ->add_option(
            "--candidate", arguments->candidate,
            "Compare with this configuration: which clients only one of the two would limit")
        ->option_text("FILE");
    simulate
        ->add_option("--suggest", arguments->suggest,
                     "For each limit, the smallest quota that limits at most this share of the "
                     "clients, such as 0.1%")
        ->option_text("SHARE")
        ->check(objection_to_share);
    simulate
        ->add_option("--format", arguments->format,
                     "The format of the logs; else their first 100 lines tell it")
        ->option_text("NAME")
        ->check(CLI::IsMember(format_names()));
    simulate
        ->add_option("--map", arguments->map,
                     "Where lines have a fact, such as path=request.uri or header:x-tenant=12")
        ->option_text("NAME=FIELD")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(objection_to_mapping);
    simulate
        ->add_option("--zone", arguments->zone,
                     "The time zone of times without an offset, such as Europe/Berlin")
        ->option_text("ZONE");
    simulate
        ->add_option("--late", arguments->late,
                     "How late a line may come, as after a request that lasted long (default 1m)")
        ->option_text("DURATION")
        ->check(objection_to_time);
    simulate
        ->add_option("--host", arguments->host,
                     "The host of requests whose lines name none, such as api.example.com")
        ->option_text("NAME");
    simulate->add_option("--svg", arguments->svg, "Draw what was found into this file")
        ->option_text("FILE");
    add_record_options(*simulate, *arguments);
    simulate->add_flag("--json", arguments->as_json, "Print an object for programs");
    simulate->footer(kSimulateFooter);
    return {simulate, [arguments] { return run_simulate(*arguments); }};
}

// `tidegate simulate --record`: asks a running proxy for what decisions need, and writes it to a
// file that `tidegate simulate` reads.
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOk = 200;
constexpr int kConflict = 409;
constexpr std::chrono::seconds kRecordPatience{5};
// How often the lines are fetched: they wait in bounded memory.
constexpr std::chrono::milliseconds kFetchEvery{200};

// Where the lines go: a file, a pipe, or the output. A pipe that nothing reads does not hold up a
// signal.
class RecordingFile {
  public:
    // Without waiting for a reader of a pipe.
    explicit RecordingFile(const std::string& path)
        : is_output_(path == "-"),
          fd_(is_output_ ? STDOUT_FILENO
                         : ::open(path.c_str(),
                                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666)),
          error_(errno) {}
    ~RecordingFile() {
        if (!is_output_ && fd_ >= 0) ::close(fd_);
    }
    RecordingFile(const RecordingFile&) = delete;
    RecordingFile& operator=(const RecordingFile&) = delete;

    bool is_open() const { return fd_ >= 0; }
    std::string why() const {
        if (error_ == ENXIO) return "nothing reads this pipe";
        return error_ == EINTR ? "ended before all was read"
                               : std::generic_category().message(error_);
    }
    // Whole lines that were written.
    std::uint64_t lines() const { return lines_; }

    // False: they cannot be written, or a signal came while a pipe was full.
    bool write(std::string_view lines, const StopSignals& stop) {
        while (!lines.empty()) {
            pollfd room{fd_, POLLOUT, 0};
            if (::poll(&room, 1, kPollMs) <= 0) {
                if (!stop.come_within(std::chrono::milliseconds(0))) continue;
                error_ = EINTR;
                return false;
            }
            // A pipe with room takes so much without waiting (pipe(7)).
            const ssize_t written =
                ::write(fd_, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF));
            if (written < 0) {
                error_ = errno;
                if (error_ == EAGAIN) continue;
                return false;
            }
            const auto size = static_cast<std::size_t>(written);
            for (const char c : lines.substr(0, size)) lines_ += c == '\n' ? 1 : 0;
            lines.remove_prefix(size);
        }
        return true;
    }

  private:
    static constexpr int kPollMs = 200;

    bool is_output_;
    int fd_;
    int error_;
    std::uint64_t lines_ = 0;
};

// One recording of a proxy, from begin() to its end.
class RemoteRecording {
  public:
    explicit RemoteRecording(FoundAdmin place) : place_(std::move(place)) {}

    // Each returns an exit code, or nothing: it has worked. What is wrong is complained of.
    std::optional<int> begin(std::int64_t per_million) {
        const auto reply = ask(fmt::format("/api/record?per_million={}", per_million));
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        // Another recording is under way.
        if (reply->status == kConflict && is_admin_problem(*reply)) {
            return complain(exit_code::kRefused, refusal_text(place_, *reply));
        }
        if (reply->status != kOk) return complain_of_refusal(place_, *reply);
        const auto json = parse_json_object(reply->body);
        const auto id = json ? string_member(*json, "id") : std::nullopt;
        if (!id) return complain(exit_code::kNoAnswer, stranger_text(place_, *reply));
        id_ = *id;
        return std::nullopt;
    }

    // Gets what has come.
    std::optional<int> fetch(bool stops, std::string& lines) {
        const auto reply = ask("/api/record?id=" + id_ + (stops ? "&stop=on" : ""));
        if (!reply) return complain(exit_code::kNoAnswer, reply.error());
        if (reply->status != kOk) return complain_of_refusal(place_, *reply);
        const std::string_view body = reply->body;
        const std::size_t end = body.size() < 2 ? body.npos : body.rfind('\n', body.size() - 2);
        lines = end == body.npos ? "" : body.substr(0, end + 1);
        const auto last = parse_json_object(body.substr(lines.size()));
        const JsonValue* const left_out = last ? find_member(*last, "left_out") : nullptr;
        if (left_out == nullptr || !left_out->is_number_unsigned()) {
            return complain(exit_code::kNoAnswer, stranger_text(place_, *reply));
        }
        left_out_ = left_out->get<std::uint64_t>();
        return std::nullopt;
    }
    // The proxy forgets it; another one can begin.
    void abandon() {
        std::string lines;
        (void)fetch(true, lines);
    }

    std::uint64_t left_out() const { return left_out_; }

  private:
    Result<AdminReply, std::string> ask(const std::string& target) const {
        return ask_admin(place_, true, target, kRecordPatience);
    }

    FoundAdmin place_;
    std::string id_;
    std::uint64_t left_out_ = 0;
};

}  // namespace

int record_requests(const RecordingOptions& options) {
    auto place = find_admin({options.config, options.admin, options.token_file});
    if (!place) return complain(exit_code::kWrongUse, place.error());
    const StopSignals stop;
    RemoteRecording recording(std::move(*place));
    if (const auto code = recording.begin(options.per_million)) return *code;
    // Only now: a file that is there stays if the proxy refuses.
    RecordingFile file(options.file);
    if (!file.is_open()) {
        const std::string why = file.why();
        recording.abandon();
        return complain(exit_code::kRefused, fmt::format("tidegate: simulate: cannot write {}: {}",
                                                         quote(options.file), why));
    }
    complain(exit_code::kDone,
             fmt::format("recording for {}; Ctrl-C ends it", format_duration(options.time)));
    const auto end = Clock::now() + options.time;
    std::string lines;
    for (bool is_last = false; !is_last;) {
        is_last = stop.come_within(kFetchEvery) || Clock::now() >= end;
        auto code = recording.fetch(is_last, lines);
        if (!code && !file.write(lines, stop)) {
            code = complain(exit_code::kRefused,
                            "tidegate: simulate: cannot write the recording: " + file.why());
            if (!is_last) recording.abandon();
        }
        if (code) {
            return complain(*code,
                            fmt::format("tidegate: simulate: the recording ended early; {} has {}",
                                        quote(options.file), counted(file.lines(), "request")));
        }
    }
    complain(exit_code::kDone, "recorded " + counted(file.lines(), "request"));
    if (recording.left_out() == 0) return exit_code::kDone;
    return complain(exit_code::kRefused,
                    fmt::format("tidegate: simulate: {} more requests came faster than they could "
                                "be written, so that counts would be too low: record a smaller "
                                "--share",
                                recording.left_out()));
}

}  // namespace tidegate::cli

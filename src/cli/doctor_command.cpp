// `tidegate doctor`.
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/doc.hpp"
#include "base/units.hpp"
#include "cli/admin_commands.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "config/config.hpp"
#include "doctor/doctor.hpp"

namespace tidegate::cli {

namespace {

using std::chrono::milliseconds;

struct DoctorArguments {
    std::string file = kDefaultFile;
    std::string time = format_duration(doctor::kDefaultTime);
    bool as_json = false;
};

constexpr std::chrono::milliseconds kTimeMin{100};
constexpr std::chrono::minutes kTimeMax{10};

constexpr const char* kDoctorFooter =
    R"(Looks at the configuration, at Redis (reachable, password, rights, scripts,
memory, persistence, role, clock, latency), sentinels, cluster, upstreams, keys,
certificates and gateways, and says what to do. It may run beside a Tidegate that
serves, and asks its admin address what gateways have asked.
In Redis, throw-away keys are written and removed; an upstream gets no request
but its health check, once. The exit code is 0 when all is well, 1 with
warnings, 3 with faults.)";

milliseconds time_of(const std::string& text) {
    return std::chrono::duration_cast<milliseconds>(*parse_duration(text));
}

// For CLI11: an empty string is no objection.
std::string objection_to_time(const std::string& text) {
    const auto time = parse_duration(text);
    if (!time) return time.error();
    return *time >= kTimeMin && *time <= kTimeMax ? "" : "it is out of range: 100ms to 10min";
}

using MetricsAnswer = Result<doctor::MetricsText, std::string>;

MetricsAnswer metrics_of(const config::Admin& admin, milliseconds patience) {
    const FoundAdmin place{{admin.address, admin.token, {}},
                           "`admin.token` is not that of the running proxy",
                           "it may be of another program"};
    const auto reply = ask_admin(place, false, "/metrics", patience);
    if (!reply) return {boost::system::in_place_error, reply.error()};
    constexpr int kOk = 200;
    if (reply->status != kOk) {
        return {boost::system::in_place_error, refusal_text(place, *reply)};
    }
    return doctor::MetricsText{reply->body};
}

int examine(const DoctorArguments& arguments) {
    const config::Loaded loaded = load_config(arguments.file);
    doctor::RunningProxy beside;
    if (loaded.config && loaded.config->admin) {
        beside.metrics = [&](milliseconds patience) {
            return metrics_of(*loaded.config->admin, patience);
        };
    }
    const doctor::Findings found = doctor::examine(loaded, arguments.file + ": " + summary(loaded),
                                                   beside, time_of(arguments.time));
    return print(doctor::doc_of(found.list()), arguments.as_json);
}

// Looks at everything and prints what was found. Returns the exit code: 0 when all is well, 1 with
// warnings, 3 with faults or when it cannot look. Throws nothing.
int run_doctor(const DoctorArguments& arguments) {
    try {
        return examine(arguments);
    } catch (const std::exception& error) {
        // Uncaught, it would end with the code of a warning.
        fmt::print(stderr, "tidegate doctor: the check failed: {}\n", error.what());
        return doctor::kExitFaults;
    }
}

}  // namespace

Command doctor_command(CLI::App& app) {
    const auto arguments = std::make_shared<DoctorArguments>();
    CLI::App* const command = app.add_subcommand(
        "doctor", "Check everything a configuration depends on, and say what to do");
    command
        ->add_option("-c,--config", arguments->file,
                     fmt::format("The configuration (default {})", arguments->file))
        ->option_text("FILE");
    command
        ->add_option("--within", arguments->time,
                     fmt::format("The longest it may take (default {})", arguments->time))
        ->option_text("TIME")
        ->check(objection_to_time);
    command->add_flag("--json", arguments->as_json, "Print an object for programs");
    command->footer(kDoctorFooter);
    return {command, [arguments] { return run_doctor(*arguments); }};
}

}  // namespace tidegate::cli

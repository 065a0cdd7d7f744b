// `tidegate size`.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/doc.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "cli/size.hpp"

namespace tidegate::cli {

namespace {

constexpr double kRequestsMax = 100'000'000;
constexpr double kIdentifiersMax = 10'000'000'000;
constexpr double kConnectionsMax = 1'000'000'000;
constexpr double kThreadsMax = 1'024;
constexpr double kPercentMax = 100;

struct SizeArguments {
    ConfigArguments config{};
    SizeQuestion question{};
    bool as_json = false;
};

constexpr const char* kSizeFooter =
    R"(Estimates cores, memory, open files, Redis and network from what a request was
measured to cost. It asks neither the proxy nor Redis. Numbers may end in k or M.

  tidegate size -c tidegate.yaml --requests 200k
  tidegate size --requests 5k --route search --identifiers 2M --tls on

All requests take the route that costs most, or that of --route, and are
admitted. Another CPU differs: docs/sizing.md says how to compare.

The exit code is 1 if the configuration has a fault, and if it has no answer at
that rate.)";

constexpr double kBytesMax = 1'000'000'000;

std::string objection_to_bytes(const std::string& text) {
    const auto bytes = parse_size(text);
    if (!bytes) return bytes.error();
    return static_cast<double>(*bytes) > kBytesMax ? "at most 1000000000 bytes" : "";
}

std::string objection_to_response(const std::string& text) {
    const auto duration = parse_duration(text);
    if (!duration) return duration.error();
    return *duration > std::chrono::hours{1} ? "at most 1h" : "";
}

auto count_of(double max) {
    return [max](const std::string& text) {
        const auto number = parse_count(text, max);
        return number ? std::string() : number.error();
    };
}

std::string objection_to_percent(const std::string& text) {
    return text == "0" ? "" : count_of(kPercentMax)(text);
}

// Adds an option that takes a number from 1 to `max`.
template <class Number>
CLI::Option* add_number(CLI::App& size, const char* name, const char* what, double max,
                        Number& number) {
    const auto set = [max, &number](const std::string& text) {
        number = static_cast<Number>(*parse_count(text, max));
    };
    return size.add_option_function<std::string>(name, set, what)
        ->option_text("NUMBER")
        ->check(count_of(max));
}

int run_size(const SizeArguments& arguments) {
    const auto file = find_config_file(arguments.config, "size");
    if (!file) return complain(exit_code::kWrongUse, "tidegate: " + file.error());
    const auto config = load_or_complain(file->path);
    if (!config) return exit_code::kRefused;
    const auto estimate = estimate_size(*config, arguments.question);
    if (!estimate) return complain(exit_code::kWrongUse, "tidegate: size: " + estimate.error());
    return print(doc_of(*estimate, arguments.question), arguments.as_json);
}

}  // namespace

Result<double, std::string> parse_count(std::string_view text, double max) {
    constexpr int kDigits = 6;
    constexpr double kScale = 1'000'000;
    double factor = 1;
    std::string_view digits = text;
    if (digits.ends_with('k') || digits.ends_with('K')) factor = 1'000;
    if (digits.ends_with('M')) factor = 1'000'000;
    if (factor > 1) digits.remove_suffix(1);
    const auto number = parse_fixed(digits, kDigits);
    if (!number) {
        return ErrorMessage{
            fmt::format("{} is not a number such as `3000`, `200k` or `1.5M`", quote(text))};
    }
    const double value = static_cast<double>(*number) / kScale * factor;
    if (value < 1) return ErrorMessage{fmt::format("{} is below 1", quote(text))};
    if (value > max) {
        return ErrorMessage{fmt::format("{} is above {:.0f}", quote(text), max)};
    }
    return value;
}

Command size_command(CLI::App& app) {
    const auto arguments = std::make_shared<SizeArguments>();
    CLI::App* const size = app.add_subcommand(
        "size", "Estimate cores, memory, Redis and network for a rate of requests");
    add_config_file(*size, arguments->config);
    SizeQuestion& question = arguments->question;
    add_number(*size, "--requests", "Requests a second, such as 200k", kRequestsMax,
               question.requests)
        ->required();
    size->add_option("--route", question.route,
                     "The route that they take; else the one that costs most")
        ->option_text("NAME");
    add_number(*size, "--identifiers", "Different clients in the longest window, for memory (100k)",
               kIdentifiersMax, question.identifiers);
    add_number(*size, "--connections", "Open connections of clients (as many as requests a second)",
               kConnectionsMax, question.connections);
    add_number(*size, "--requests-per-connection",
               "Requests that a connection has before it ends (100)", kConnectionsMax,
               question.requests_a_connection);
    const auto set_tls = [&question](const std::string& text) { question.tls = text == "on"; };
    size->add_option_function<std::string>(
            "--tls", set_tls,
            "Whether clients speak TLS with Tidegate: on or off (as the listeners)")
        ->option_text("SWITCH")
        ->check(CLI::IsMember({"on", "off"}));
    const auto set_resumed = [&question](const std::string& text) {
        question.resumed = text == "0" ? 0 : *parse_count(text, kPercentMax) / kPercentMax;
    };
    size->add_option_function<std::string>("--resumed", set_resumed,
                                           "TLS handshakes that resume a session, in percent (50)")
        ->option_text("PERCENT")
        ->check(objection_to_percent);
    const auto set_bytes = [&question](const std::string& text) {
        question.body_bytes = static_cast<double>(*parse_size(text));
    };
    size->add_option_function<std::string>(
            "--bytes", set_bytes,
            "Bodies of a request and its answer together, such as 16KiB (4KiB)")
        ->option_text("SIZE")
        ->check(objection_to_bytes);
    const auto set_response = [&question](const std::string& text) {
        question.response = *parse_duration(text);
    };
    size->add_option_function<std::string>("--response", set_response,
                                           "How long an upstream takes to answer (50ms)")
        ->option_text("TIME")
        ->check(objection_to_response);
    add_number(*size, "--threads", "Threads of an instance, at most (8)", kThreadsMax,
               question.threads);
    size->add_flag("--json", arguments->as_json, "Print an object for programs");
    size->footer(kSizeFooter);
    return {size, [arguments] { return run_size(*arguments); }};
}

}  // namespace tidegate::cli

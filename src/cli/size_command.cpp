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
    std::string requests{};
    std::string identifiers{};
    std::string connections{};
    std::string requests_a_connection{};
    std::string resumed{};
    std::string tls{};
    std::string bytes{};
    std::string response{};
    std::string threads{};
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

double number_of(const std::string& text, double otherwise) {
    return text.empty() ? otherwise : *parse_count(text, kIdentifiersMax);
}

SizeQuestion question_of(const SizeArguments& arguments) {
    SizeQuestion question = arguments.question;
    question.requests = number_of(arguments.requests, 0);
    question.identifiers = number_of(arguments.identifiers, question.identifiers);
    question.connections = number_of(arguments.connections, 0);
    question.requests_a_connection =
        number_of(arguments.requests_a_connection, question.requests_a_connection);
    if (arguments.resumed == "0") {
        question.resumed = 0;
    } else {
        question.resumed =
            number_of(arguments.resumed, question.resumed * kPercentMax) / kPercentMax;
    }
    if (!arguments.tls.empty()) question.tls = arguments.tls == "on";
    if (!arguments.bytes.empty()) {
        question.body_bytes = static_cast<double>(*parse_size(arguments.bytes));
    }
    if (!arguments.response.empty()) question.response = *parse_duration(arguments.response);
    question.threads = static_cast<unsigned>(number_of(arguments.threads, question.threads));
    return question;
}

int run_size(const SizeArguments& arguments) {
    const auto file = find_config_file(arguments.config, "size");
    if (!file) return complain(exit_code::kWrongUse, "tidegate: " + file.error());
    const config::Loaded loaded = load_config(file->path);
    if (!loaded.config) {
        fmt::print(stderr, "{}{}\n", report(loaded), summary(loaded));
        return exit_code::kRefused;
    }
    const SizeQuestion question = question_of(arguments);
    const auto estimate = estimate_size(*loaded.config, question);
    if (!estimate) return complain(exit_code::kWrongUse, "tidegate: size: " + estimate.error());
    return print(doc_of(*estimate, question), arguments.as_json);
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
    size->add_option("--requests", arguments->requests, "Requests a second, such as 200k")
        ->option_text("NUMBER")
        ->required()
        ->check(count_of(kRequestsMax));
    size->add_option("--route", arguments->question.route,
                     "The route that they take; else the one that costs most")
        ->option_text("NAME");
    size->add_option("--identifiers", arguments->identifiers,
                     "Different clients in the longest window, for memory (100k)")
        ->option_text("NUMBER")
        ->check(count_of(kIdentifiersMax));
    size->add_option("--connections", arguments->connections,
                     "Open connections of clients (as many as requests a second)")
        ->option_text("NUMBER")
        ->check(count_of(kConnectionsMax));
    size->add_option("--requests-per-connection", arguments->requests_a_connection,
                     "Requests that a connection has before it ends (100)")
        ->option_text("NUMBER")
        ->check(count_of(kConnectionsMax));
    size->add_option("--tls", arguments->tls,
                     "Whether clients speak TLS with Tidegate: on or off (as the listeners)")
        ->option_text("SWITCH")
        ->check(CLI::IsMember({"on", "off"}));
    size->add_option("--resumed", arguments->resumed,
                     "TLS handshakes that resume a session, in percent (50)")
        ->option_text("PERCENT")
        ->check(objection_to_percent);
    size->add_option("--bytes", arguments->bytes,
                     "Bodies of a request and its answer together, such as 16KiB (4KiB)")
        ->option_text("SIZE")
        ->check(objection_to_bytes);
    size->add_option("--response", arguments->response,
                     "How long an upstream takes to answer (50ms)")
        ->option_text("TIME")
        ->check(objection_to_response);
    size->add_option("--threads", arguments->threads, "Threads of an instance, at most (8)")
        ->option_text("NUMBER")
        ->check(count_of(kThreadsMax));
    size->add_flag("--json", arguments->as_json, "Print an object for programs");
    size->footer(kSizeFooter);
    return {size, [arguments] { return run_size(*arguments); }};
}

}  // namespace tidegate::cli

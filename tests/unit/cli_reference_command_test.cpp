#include <array>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/command_list.hpp"
#include "cli/commands.hpp"
#include "cli/reference_command.hpp"

namespace tidegate::cli::reference_command_test {

using telemetry::MetricInfo;
using telemetry::MetricType;

constexpr std::array<std::string_view, 2> kReasons{"late", "broken"};
constexpr std::array<std::string_view, 2> kNotes{"", "no answer"};

const std::array<MetricInfo, 2> kMetrics{
    {{.name = "failures_total",
      .help = "Failures | losses",
      .labels = {{.name = "reason", .values = kReasons, .notes = kNotes},
                 {.name = "url", .note = "without its query"}},
      .note = "See [redis](redis.md)."},
     {.name = "open", .type = MetricType::gauge, .help = "Open ones"}}};

TEST_CASE("reference: a metric is a row with its type, its texts and its labels") {
    CHECK(metrics_table(kMetrics) ==
          "| Metric | Type | What | Labels |\n"
          "| --- | --- | --- | --- |\n"
          "| `failures_total` | counter | Failures \\| losses. See [redis](redis.md). | "
          "`reason`: `late`, `broken` (no answer); `url`: without its query |\n"
          "| `open` | gauge | Open ones |  |\n");
}

TEST_CASE("reference: programs get the values of labels where there are no others") {
    const std::string json = metrics_json(kMetrics);
    CHECK(json.find(R"("name": "failures_total")") != std::string::npos);
    CHECK(json.find(R"("type": "gauge")") != std::string::npos);
    CHECK(json.find("\"late\"") != std::string::npos);
    CHECK(json.find("\"note\": \"See [redis](redis.md).\"") != std::string::npos);
    CHECK(json.ends_with("]\n"));
}

TEST_CASE("reference: it is a command that help, completions and the manual do not list") {
    CLI::App app;
    const Command command = reference_command(app);  // has what the command line fills
    CHECK(shown_commands(app).empty());
    CHECK(app.help().find("reference") == std::string::npos);
    app.parse("reference metrics --json");
    CHECK(command.app->parsed());
}

}  // namespace tidegate::cli::reference_command_test

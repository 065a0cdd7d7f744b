#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metric.hpp"
#include "telemetry/top_and_denials.hpp"

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

namespace {

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        REQUIRE(end != std::string::npos);
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

// The first cell of each row, without its backquotes.
std::vector<std::string> names_in(const std::string& table) {
    std::vector<std::string> names;
    const std::vector<std::string> lines = lines_of(table);
    for (std::size_t i = 2; i < lines.size(); ++i) {
        REQUIRE(lines[i].starts_with("| `"));
        names.push_back(lines[i].substr(3, lines[i].find('`', 3) - 3));
    }
    return names;
}

TEST_CASE(
    "reference_fields: each is a table of Markdown whose rows have as many cells as its head") {
    for (const std::string& table : {log_fields_table(), denial_fields_table()}) {
        const std::vector<std::string> lines = lines_of(table);
        REQUIRE(lines.size() > 2);
        CHECK(lines[1].starts_with("| --- |"));
        const auto bars = std::count(lines[0].begin(), lines[0].end(), '|');
        for (const std::string& line : lines) {
            CAPTURE(line);
            CHECK(line.starts_with("| "));
            CHECK(line.ends_with("|"));
            CHECK(std::count(line.begin(), line.end(), '|') == bars);
        }
    }
}

TEST_CASE("reference_fields: the fields of the access log are those of a line, in the same order") {
    telemetry::RequestRecord record;
    record.grpc_status = 0;
    record.limited_identifier = record.tier = "known";
    record.limit_count = record.limit_quota = record.cost = record.retry_after = 0;
    record.usage_model = record.usage_answer_model = record.refusal = record.soft_over = "known";
    record.candidate_limited_by = "known";
    record.usage_input = record.usage_cached = record.usage_cache_write = record.usage_output = 0;
    record.usage_reserved = record.usage_cost = record.usage_usd = 0;
    telemetry::LogLineFormatter formatter;
    const auto line = nlohmann::ordered_json::parse(formatter.json(record));
    std::vector<std::string> names;
    for (const auto& [name, value] : line.items()) names.push_back(name);
    CHECK(names_in(log_fields_table()) == names);
}

TEST_CASE(
    "reference_fields: a field of the access log says where it is cut, and which span shows it") {
    const std::string table = log_fields_table();
    CHECK(table.find("| 256 | `decide`: `tidegate.limit` |\n") != std::string::npos);
    CHECK(table.find("| 1024 | `request`: `url.path` |\n") != std::string::npos);
    CHECK(table.find("| 128 each | `decide`: `tidegate.identifiers` |\n") != std::string::npos);
}

TEST_CASE("reference_fields: each verdict of the access log has its meaning") {
    const std::string table = log_fields_table();
    for (const std::string_view verdict : kEnumNames<telemetry::RecordedVerdict>) {
        CAPTURE(verdict);
        CHECK(table.find(" `" + std::string(verdict) + "`: ") != std::string::npos);
    }
}

TEST_CASE("reference_fields: the fields of a denial have its id before them") {
    std::vector<std::string> names{"id"};
    for (const auto& field : telemetry::kDenialFields) names.emplace_back(field.name);
    CHECK(names_in(denial_fields_table()) == names);
}

}  // namespace

}  // namespace tidegate::cli::reference_command_test

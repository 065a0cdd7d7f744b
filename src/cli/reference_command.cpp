// `tidegate reference`: the tables of the documents that the program itself knows. It is for those
// who write the documents (scripts/reference), so help does not list it.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/metrics.hpp"
#include "base/json.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/size.hpp"
#include "config/keys.hpp"
#include "telemetry/access_log_fields.hpp"
#include "telemetry/metric.hpp"
#include "telemetry/top_and_denials.hpp"

namespace tidegate::cli {

namespace {

struct ReferenceArguments {
    std::string table;
    std::vector<std::string> places;
    bool json = false;
};

// A label with more values is described by its note alone; programs get them all.
constexpr std::size_t kListedValuesMax = 12;

// `|` ends a cell.
std::string table_cell(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

std::string markdown_of(const telemetry::MetricLabel& label) {
    std::string text = fmt::format("`{}`", label.name);
    if (label.values.empty() || label.values.size() > kListedValuesMax) {
        return label.note.empty() ? text : fmt::format("{}: {}", text, label.note);
    }
    std::string_view separator = ": ";
    for (std::size_t i = 0; i < label.values.size(); ++i) {
        text += fmt::format("{}`{}`", separator, label.values[i]);
        if (!label.notes.empty() && !label.notes[i].empty()) {
            text += fmt::format(" ({})", label.notes[i]);
        }
        separator = ", ";
    }
    if (!label.note.empty()) text += fmt::format(" ({})", label.note);
    return text;
}

// Empty: there is no such table.
std::string table_of(const ReferenceArguments& arguments) {
    if (arguments.table == "keys") return config::key_table(arguments.places);
    if (arguments.table == "log-fields") return log_fields_table();
    if (arguments.table == "denial-fields") return denial_fields_table();
    if (arguments.table == "sizes") return size_table();
    if (arguments.table != "metrics") return {};
    const auto metrics = app::all_metrics();
    return arguments.json ? metrics_json(metrics) : metrics_table(metrics);
}

// What to write instead of what there is no table for.
std::string hint_for(const ReferenceArguments& arguments) {
    if (arguments.table != "keys") {
        return "tidegate: reference: there is no table " + quote(arguments.table) +
               ": write `keys` and places such as `timeouts`, `metrics`, `log-fields`, "
               "`denial-fields` or `sizes`";
    }
    if (arguments.places.empty()) {
        return "tidegate: reference: which keys? Write places such as `timeouts` or `listen[].tls`";
    }
    std::string places;
    for (const std::string& place : arguments.places) {
        const bool is_there = !config::key_table(std::vector{place}).empty();
        if (!is_there) places += (places.empty() ? "" : ", ") + quote(place);
    }
    return "tidegate: reference: there is no key " + places +
           ": write places such as `timeouts` or `listen[].tls`";
}

int print_reference(const ReferenceArguments& arguments) {
    const std::string text = table_of(arguments);
    if (text.empty()) return complain(exit_code::kWrongUse, hint_for(arguments));
    fmt::print("{}", text);
    return exit_code::kDone;
}

}  // namespace

Command reference_command(CLI::App& app) {
    const auto arguments = std::make_shared<ReferenceArguments>();
    CLI::App* const command =
        app.add_subcommand("reference", "Print a table of the documents, in Markdown");
    command->group("");
    command
        ->add_option("TABLE", arguments->table,
                     "The table: keys, metrics, log-fields, denial-fields or sizes")
        ->option_text(" ")
        ->required();
    command->add_option("PLACE", arguments->places, "Of which keys, such as `timeouts`")
        ->option_text("...");
    command->add_flag("--json", arguments->json, "Metrics for programs");
    return {command, [arguments] { return print_reference(*arguments); }};
}

std::string metrics_table(std::span<const telemetry::MetricInfo> metrics) {
    std::string text = "| Metric | Type | What | Labels |\n| --- | --- | --- | --- |\n";
    for (const telemetry::MetricInfo& metric : metrics) {
        std::string what(metric.help);
        if (!metric.note.empty()) what.append(". ").append(metric.note);
        std::string labels;
        for (const telemetry::MetricLabel& label : metric.labels) {
            labels += (labels.empty() ? "" : "; ") + markdown_of(label);
        }
        text += fmt::format("| `{}` | {} | {} | {} |\n", metric.name, to_string(metric.type),
                            table_cell(what), table_cell(labels));
    }
    return text;
}

std::string metrics_json(std::span<const telemetry::MetricInfo> metrics) {
    using nlohmann::ordered_json;
    ordered_json list = ordered_json::array();
    for (const telemetry::MetricInfo& metric : metrics) {
        ordered_json labels = ordered_json::array();
        for (const telemetry::MetricLabel& label : metric.labels) {
            ordered_json one{{"name", label.name}};
            if (!label.values.empty()) {
                one["values"] = std::vector(label.values.begin(), label.values.end());
            }
            labels.push_back(std::move(one));
        }
        ordered_json entry{{"name", metric.name},
                           {"type", to_string(metric.type)},
                           {"help", metric.help},
                           {"labels", std::move(labels)}};
        if (!metric.note.empty()) entry["note"] = metric.note;
        list.push_back(std::move(entry));
    }
    return json_text(list, {.indent = 2}) + "\n";
}

namespace {

std::string attribute_text(const telemetry::SpanAttribute& attribute) {
    switch (attribute.span) {
        case telemetry::SpanName::none:
            break;
        case telemetry::SpanName::request:
            return fmt::format(" `request`: `{}`", attribute.name);
        case telemetry::SpanName::decide:
            return fmt::format(" `decide`: `{}`", attribute.name);
    }
    return "";
}

// Says where the access log cuts a text; empty for other values.
std::string bound_text(const telemetry::RequestField& field) {
    if (field.is<std::span<const std::string_view>>()) {
        return fmt::format(" {} each", telemetry::kIdentifierBytesMax);
    }
    return field.is<std::string_view>() ? fmt::format(" {}", field.bytes_max) : "";
}

std::string holds_text(const telemetry::RequestField& field) {
    std::string text(field.meaning);
    for (std::size_t i = 0; i < field.values.size(); ++i) {
        text += fmt::format("{}`{}`: {}", i == 0 ? ". " : "; ", field.values[i],
                            field.value_meanings[i]);
    }
    return text;
}

}  // namespace

std::string log_fields_table() {
    std::string table =
        "| Field | Holds | Cut at (bytes) | In [spans](tracing.md) |\n"
        "| --- | --- | --- | --- |\n";
    for (const telemetry::RequestField& field : telemetry::kRequestFields) {
        table += fmt::format("| `{}` | {} |{} |{} |\n", field.name, holds_text(field),
                             bound_text(field), attribute_text(field.attribute));
    }
    return table;
}

std::string denial_fields_table() {
    std::string table =
        "| Field | Holds |\n"
        "| --- | --- |\n"
        "| `id` | tells the denials of one process apart |\n";
    for (const telemetry::DenialField& field : telemetry::kDenialFields) {
        table += fmt::format("| `{}` | {} |\n", field.name, field.meaning);
    }
    return table;
}

}  // namespace tidegate::cli

#include "cli/reference_fields.hpp"

#include <span>

#include <fmt/format.h>

#include "telemetry/activity.hpp"
#include "telemetry/request_record.hpp"

namespace tidegate::cli {

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

// Where the access log cuts a text; nothing for other values.
std::string bound_text(const telemetry::RequestField& field) {
    if (field.is<std::span<const std::string_view>>()) {
        return fmt::format(" {} each", telemetry::kIdentifierBytesMax);
    }
    return field.is<std::string_view>() ? fmt::format(" {}", field.bytes_max) : "";
}

}  // namespace

std::string log_fields_table() {
    std::string table =
        "| Field | Holds | Cut at (bytes) | In [spans](#tracing) |\n"
        "| --- | --- | --- | --- |\n";
    for (const telemetry::RequestField& field : telemetry::kRequestFields) {
        table += fmt::format("| `{}` | {} |{} |{} |\n", field.name, field.meaning,
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

// The tables of fields in docs/operating.md, from the rows that the writers of these fields read.
// Markdown. Pure.
#pragma once

#include <string>

namespace tidegate::cli {

// Of the access log: telemetry/request_record.hpp.
std::string log_fields_table();

// Of a denial in `/api/denials`: telemetry/activity.hpp.
std::string denial_fields_table();

}  // namespace tidegate::cli

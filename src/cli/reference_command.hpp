// `tidegate reference`: the tables of the documents that the program itself knows. It is for those
// who write the documents (scripts/reference), so help does not list it.
#pragma once

#include <span>
#include <string>

#include "telemetry/metric.hpp"

namespace tidegate::cli {

// A row for each metric, in Markdown. Pure.
std::string metrics_table(std::span<const telemetry::MetricInfo> metrics);
// The same for programs: an array of `name`, `type`, `help`, `labels` (`name` and, where there are
// no others, `values`), and `note` in Markdown where there is one. Pure.
std::string metrics_json(std::span<const telemetry::MetricInfo> metrics);

}  // namespace tidegate::cli

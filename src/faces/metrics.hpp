// What the faces count. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include "telemetry/metric.hpp"

namespace tidegate::faces {

// What one thread counts.
struct Metrics {
    telemetry::Metric<
        telemetry::Counter, "tidegate_questions_without_address_total",
        "Questions of gateways that name no client address, or one that cannot be read">
        questions_without_address;

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
};

}  // namespace tidegate::faces

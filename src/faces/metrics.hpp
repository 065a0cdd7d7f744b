// These metrics count the work of the faces. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include <cstdint>

#include "base/described_enum.hpp"
#include "telemetry/metric.hpp"

namespace tidegate::faces {

// Names the part of the original request that a question of a gateway does not state, or not
// usably.
BOOST_DEFINE_FIXED_ENUM_CLASS(OriginalPart, std::uint8_t, method, target, host, path_prefix, length)

// Each thread has an object of its own and counts in it.
struct Metrics {
    telemetry::Metric<
        telemetry::Counter, "tidegate_questions_without_address_total",
        "Questions of gateways that name no client address, or one that cannot be read">
        questions_without_address;
    telemetry::Metric<
        telemetry::By<"part", OriginalPart>, "tidegate_questions_unusable_total",
        "Questions of gateways that do not state one original request, by what is missing or wrong">
        questions_unusable;

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);
};

}  // namespace tidegate::faces

#include "faces/metrics.hpp"

#include "telemetry/metric_members.hpp"

namespace tidegate::faces {

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    telemetry::write_members<Metrics>(out, threads);
}

}  // namespace tidegate::faces

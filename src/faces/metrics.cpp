#include "faces/metrics.hpp"

namespace tidegate::faces {

void Metrics::write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads) {
    out.counter("tidegate_questions_without_address_total",
                "Questions of gateways that name no client address, or one that cannot be read")
        .add({}, telemetry::sum(threads, &Metrics::without_address_));
}

}  // namespace tidegate::faces

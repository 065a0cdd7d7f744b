// What the admin listener shows of one server of the upstream `api`.
#pragma once

#include <cstdint>
#include <string>

#include "integration/tidegate.hpp"

namespace tidegate::test {

// `tidegate_upstream_server_WHAT` of the server at 127.0.0.1:`port`.
inline double server_metric(const Tidegate& tidegate, const std::string& what, std::uint16_t port) {
    return tidegate.metric_sum("tidegate_upstream_server_" + what,
                               "server=\"127.0.0.1:" + std::to_string(port) + "\"");
}

// Requests that wait for a connection.
inline double queue_length(const Tidegate& tidegate) {
    return tidegate.metric_sum("tidegate_upstream_queue_length");
}

}  // namespace tidegate::test

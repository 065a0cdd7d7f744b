// The sentinels, and which master they name. Blocks.
#pragma once

#include <memory>
#include <optional>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/time_limit.hpp"
#include "redis/node_address.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

struct SentinelsFound {
    std::optional<redis::NodeAddress> master;  // none of them knows it, or none answers
    Findings findings;
};

// `tls` is null where it is not encrypted.
SentinelsFound examine_sentinels(const config::SentinelSettings& settings,
                                 std::shared_ptr<const TlsClient> tls, const TimeLimit& time_limit);

}  // namespace tidegate::doctor

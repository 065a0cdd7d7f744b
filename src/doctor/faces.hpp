// Whether the listeners of gateways and programs work as meant: which machines can reach them, and
// whether questions name the client's address. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ip.hpp"
#include "config/config.hpp"
#include "doctor/finding.hpp"

namespace tidegate::doctor {

bool is_loopback(const IpAddress& ip);

// What the configuration alone says of its listeners with another face than `proxy`.
Findings examine_faces(const config::Config& config);

// What a running Tidegate has counted since it started.
struct QuestionCounts {
    std::uint64_t asked = 0;            // in forward_auth
    std::uint64_t without_address = 0;  // of these, so many named no client
};

// Reads /metrics. Nothing: `metrics` are not Tidegate's.
std::optional<QuestionCounts> read_question_counts(std::string_view metrics);
void check_question_counts(const QuestionCounts& counts, const config::Config& config,
                           Findings& findings);

}  // namespace tidegate::doctor

// What measured values mean. Pure: time is an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"

namespace tidegate::doctor {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// `whose` begins the sentence: `its certificate`.
void check_certificate(std::string_view check, const std::string& whose,
                       std::chrono::system_clock::time_point until,
                       std::chrono::system_clock::time_point now, Findings& findings);

// `7.0.15` and the like.
struct Version {
    int major = 0;
    int minor = 0;
    std::string text;
};
std::optional<Version> parse_version(std::string_view text);
void check_version(const Version& version, Findings& findings);

// `offset`: how far the server's clock is ahead of ours, at most `accuracy` wrong.
void check_clock(microseconds offset, microseconds accuracy, bool local_clock, Findings& findings);

struct Percentiles {
    microseconds p50{0};
    microseconds p99{0};
    microseconds max{0};
};
// Requires at least one.
Percentiles percentiles_of(std::vector<microseconds> times);
// Of so many decisions that Tidegate waits `timeout` for.
void check_latency(std::size_t decisions, const Percentiles& times, milliseconds timeout,
                   Findings& findings);

// `1.5 MiB`
std::string size_text(std::uint64_t bytes);

}  // namespace tidegate::doctor

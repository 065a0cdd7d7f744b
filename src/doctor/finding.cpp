#include "doctor/finding.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/utf8.hpp"

namespace tidegate::doctor {

namespace {

constexpr int kExitWarnings = 1;
// A longer name does not move the texts of all others to the right.
constexpr std::size_t kAlignedMax = 32;

std::size_t count(std::span<const Finding> findings, Severity severity) {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(),
                      [&](const Finding& finding) { return finding.severity == severity; }));
}

std::string counted(std::span<const Finding> findings, Severity severity) {
    const std::size_t number = count(findings, severity);
    return fmt::format("{} {}{}", number, to_string(severity),
                       number == 1 || severity == Severity::ok ? "" : "s");
}

}  // namespace

std::string report_text(std::span<const Finding> findings) {
    constexpr std::size_t kSeverityWidth = 7;
    std::size_t width = 0;
    for (const Finding& finding : findings) {
        if (finding.about.size() <= kAlignedMax) width = std::max(width, finding.about.size());
    }
    std::string text;
    for (const Finding& finding : findings) {
        // Some of it comes from servers.
        text += fmt::format("{:<{}}  {:<{}}  {}\n", to_string(finding.severity), kSeverityWidth,
                            displayable(finding.about), width, displayable(finding.what));
        if (!finding.advice.empty()) {
            text += fmt::format("{:<{}}  -> {}\n", "", kSeverityWidth, displayable(finding.advice));
        }
    }
    text += fmt::format("{}, {}, {}, {}\n", counted(findings, Severity::fault),
                        counted(findings, Severity::warning), counted(findings, Severity::note),
                        counted(findings, Severity::ok));
    return text;
}

std::string report_json(std::span<const Finding> findings) {
    using nlohmann::ordered_json;
    ordered_json list = ordered_json::array();
    for (const Finding& finding : findings) {
        ordered_json entry{{"severity", to_string(finding.severity)},
                           {"check", finding.check},
                           {"about", finding.about},
                           {"what", finding.what}};
        if (!finding.advice.empty()) entry["advice"] = finding.advice;
        list.push_back(std::move(entry));
    }
    const ordered_json report{{"faults", count(findings, Severity::fault)},
                              {"warnings", count(findings, Severity::warning)},
                              {"notes", count(findings, Severity::note)},
                              {"ok", count(findings, Severity::ok)},
                              {"findings", std::move(list)}};
    return json_text(report, {.indent = 2}) + "\n";
}

int exit_code(std::span<const Finding> findings) {
    if (count(findings, Severity::fault) != 0) return kExitFaults;
    return count(findings, Severity::warning) != 0 ? kExitWarnings : 0;
}

}  // namespace tidegate::doctor

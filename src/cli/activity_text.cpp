#include "cli/activity_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_escape.hpp"
#include "base/strict_json.hpp"
#include "base/timestamp.hpp"

namespace tidegate::cli {

namespace {

constexpr std::string_view kDenialRow = "{:<24}  {:<28}  {:<20}  {:<14}  {:<8}  {:<14}  {}\n";

// Text of clients, safe for a terminal.
std::string client_text(const JsonValue& text) {
    std::string out;
    append_json_escaped(text.get_ref<const std::string&>(), out);
    return out.empty() ? "-" : out;
}

std::string moment_text(std::int64_t time_ms) {
    constexpr std::int64_t kLastMs = 253'402'300'799'999;  // of the year 9999
    const std::chrono::milliseconds time(std::clamp<std::int64_t>(time_ms, 0, kLastMs));
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    std::string text = format_timestamp(second);
    text.pop_back();  // the Z
    return fmt::format("{}.{:03}Z", text, (time - second).count());
}

std::string top_line(const JsonValue& one) {
    const auto count = one.at("count").get<std::uint64_t>();
    const auto error = one.at("error").get<std::uint64_t>();
    return fmt::format("  {:>10}  {:>10}  {}\n", count, count + error,
                       client_text(one.at("identifier")));
}

std::string denial_line(const JsonValue& one) {
    const JsonValue& retry_after = one.at("retry_after_seconds");
    const std::string taken = fmt::format("{} of {}", one.at("count").get<std::int64_t>(),
                                          one.at("quota").get<std::int64_t>());
    return fmt::format(
        kDenialRow, moment_text(one.at("time_ms").get<std::int64_t>()),
        client_text(one.at("identifier")), client_text(one.at("limit")), taken,
        retry_after.is_null() ? "-" : fmt::format("{}s", retry_after.get<std::int64_t>()),
        client_text(one.at("route")), client_text(one.at("request_id")));
}

TopText top_of(const JsonValue& json) {
    TopText top;
    if (!json.at("enabled").get<bool>()) {
        top.text = fmt::format("{}\n", kNotKept);
        return top;
    }
    const JsonValue& identifiers = json.at("identifiers");
    const bool denials = json.at("by") == "denials";
    top.lists_any = !identifiers.empty();
    top.text = fmt::format("{} of the last {}s, identifiers counted {} times\n",
                           denials ? "denials" : "requests", json.at("seconds").get<std::int64_t>(),
                           json.at("total").get<std::uint64_t>());
    if (!top.lists_any) return top;
    top.text += fmt::format("  {:>10}  {:>10}  {}\n", "AT LEAST", "AT MOST", "IDENTIFIER");
    for (const JsonValue& one : identifiers) top.text += top_line(one);
    return top;
}

}  // namespace

std::string denial_heading() {
    return fmt::format(kDenialRow, "TIME", "IDENTIFIER", "LIMIT", "TAKEN", "RETRY", "ROUTE",
                       "REQUEST");
}

std::optional<TopText> top_text(std::string_view json) {
    const auto parsed = parse_json_object(json);
    if (!parsed) return std::nullopt;
    try {
        return top_of(*parsed);
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

std::optional<DenialsText> denials_text(std::string_view json) {
    const auto parsed = parse_json_object(json);
    if (!parsed) return std::nullopt;
    try {
        DenialsText all;
        all.enabled = parsed->at("enabled").get<bool>();
        for (const JsonValue& one : parsed->at("denials")) {
            // Numbers begin anew with the process.
            all.denials.push_back({fmt::format("{} {}", one.at("id").get<std::string>(),
                                               one.at("time_ms").get<std::int64_t>()),
                                   denial_line(one), one.dump(-1, ' ', true) + "\n"});
        }
        std::reverse(all.denials.begin(), all.denials.end());
        return all;
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

}  // namespace tidegate::cli

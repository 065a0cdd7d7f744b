#include "cli/admin_text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/timestamp.hpp"
#include "cli/config_file.hpp"
#include "config/config.hpp"
#include "telemetry/activity.hpp"

namespace tidegate::cli {

namespace {

constexpr std::size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

constexpr std::string_view kOneRowHolds =
    "  A request meets one row of each policy: that of its tier. `tidegate explain` shows the tier "
    "of a request.\n";

// Text from outside, safe for a terminal.
std::string shown_value(const JsonValue& text) {
    if (!text.is_string()) return "-";
    std::string out;
    append_json_escaped(text.get_ref<const std::string&>(), out);
    return out;
}

// Rounded up, so that clients do not come back too early.
std::string rough(std::int64_t us) {
    const auto up = [](std::int64_t number, std::int64_t unit) {
        return number / unit + (number % unit > 0 ? 1 : 0);
    };
    const std::int64_t ms = up(us, 1'000);
    if (ms < 1'000) return fmt::format("{}ms", ms);
    const std::int64_t tenths = up(us, 100'000);
    if (tenths < 600) return fmt::format("{}.{}s", tenths / 10, tenths % 10);
    const std::int64_t seconds = up(us, 1'000'000);
    if (seconds < 3'600) return fmt::format("{}min {}s", seconds / 60, seconds % 60);
    const std::int64_t minutes = up(seconds, 60);
    if (minutes < 1'440) return fmt::format("{}h {}min", minutes / 60, minutes % 60);
    const std::int64_t hours = up(minutes, 60);
    return fmt::format("{}d {}h", hours / 24, hours % 24);
}

std::string rough_or_dash(const JsonValue& us) {
    return us.is_number_integer() ? rough(us.get<std::int64_t>()) : "-";
}

std::string number(const JsonValue& json) {
    return json.is_number_integer() ? std::to_string(json.get<std::int64_t>()) : "-";
}

std::string state_of(const JsonValue& limit) {
    if (!limit.at("denied").get<bool>()) return "admits";
    if (limit.value("never_passes", false)) return "always denies";
    const JsonValue& time = limit.at("denied_for_us");
    return time.is_number_integer() ? "denies for " + rough(time.get<std::int64_t>()) : "denies";
}

std::string policy_of(const JsonValue& policy, bool has_tiers) {
    std::string text = shown_value(policy.at("policy"));
    if (policy.at("tier").is_string()) {
        text += fmt::format(" ({})", shown_value(policy.at("tier")));
    } else if (has_tiers) {
        text += " (no tier)";
    }
    if (policy.at("mode") == "shadow") text += ", shadow";
    return text;
}

Row row_of(const std::string& policy, const JsonValue& limit) {
    std::string counted = number(limit.at("counted"));
    if (!limit.value("counted_all", true)) counted += " or more";
    return {policy,
            shown_value(limit.at("name")),
            std::move(counted),
            number(limit.at("quota")),
            number(limit.at("remaining")),
            rough_or_dash(limit.at("next_unit_us")),
            rough_or_dash(limit.at("all_free_us")),
            state_of(limit)};
}

void append_table(const std::vector<Row>& rows, std::string& out) {
    std::array<std::size_t, kColumns> widths{};
    for (const Row& row : rows) {
        for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const Row& row : rows) {
        out += "  ";
        for (std::size_t i = 0; i + 1 < kColumns; ++i) {
            out += fmt::format("{:<{}}  ", row[i], widths[i]);
        }
        out += row.back() + "\n";
    }
}

std::string moments_of(const JsonValue& limit) {
    std::string text;
    const auto moments = limit.find("moments");
    if (moments == limit.end() || moments->empty()) return text;
    text = fmt::format("  booked in {}:\n", shown_value(limit.at("name")));
    for (const JsonValue& moment : *moments) text += fmt::format("    {}\n", shown_value(moment));
    const auto booked = limit.at("counted").get<std::int64_t>();
    const auto listed = static_cast<std::int64_t>(moments->size());
    if (booked > listed) text += fmt::format("    and {} more\n", booked - listed);
    return text;
}

std::string heading(const JsonValue& one, const JsonValue& json) {
    const std::string store = json.at("store") == "redis" ? "in Redis" : "in process";
    std::string text = fmt::format("{}, counted {}", shown_value(one.at("identifier")), store);
    if (one.contains("known_tier") && one.at("known_tier").is_string()) {
        text += fmt::format(", of tier {}", shown_value(one.at("known_tier")));
    }
    return text + "\n";
}

std::string inspected_text(const JsonValue& one, const JsonValue& json) {
    std::vector<Row> rows{
        {"POLICY", "LIMIT", "COUNTED", "QUOTA", "LEFT", "NEXT UNIT", "ALL FREE", "NOW"}};
    std::string behind;
    bool any_tiers = false;
    for (const JsonValue& policy : one.at("policies")) {
        const bool has_tiers = policy.value("has_tiers", false);
        any_tiers = any_tiers || has_tiers;
        const std::string name = policy_of(policy, has_tiers);
        for (const JsonValue& limit : policy.at("limits")) {
            rows.push_back(row_of(name, limit));
            behind += moments_of(limit);
        }
        for (const JsonValue& unknown : policy.at("unknown")) {
            behind += fmt::format("  {}: still holds {}, of a limit that was removed, for {}\n",
                                  name, shown_value(unknown.at("record")),
                                  rough_or_dash(unknown.at("all_free_us")));
        }
    }
    std::string text = heading(one, json);
    if (rows.size() > 1) append_table(rows, text);
    if (rows.size() == 1 && behind.empty()) text += "  no policy counts it\n";
    text += behind;
    if (any_tiers) text += kOneRowHolds;
    return text;
}

std::string forgotten_text(const JsonValue& one, const JsonValue& json) {
    std::string text = heading(one, json);
    if (one.at("forgotten").empty()) return text + "  nothing was counted\n";
    for (const JsonValue& policy : one.at("forgotten")) {
        text += fmt::format("  {}: forgotten\n", shown_value(policy));
    }
    return text;
}

bool is_up(const JsonValue& server) {
    return server.at("state") == "up";
}

Row row_of_server(const JsonValue& server) {
    std::string state = shown_value(server.at("state"));
    if (is_up(server) && server.at("checked").get<bool>()) state += " (checked)";
    return {shown_value(server.at("server")), shown_value(server.at("configured")),
            number(server.at("weight")),      std::move(state),
            number(server.at("active")),      number(server.at("requests")),
            number(server.at("failures")),    number(server.at("ejections"))};
}

std::string upstream_text(const JsonValue& upstream) {
    const JsonValue& servers = upstream.at("servers");
    const auto up = std::count_if(servers.begin(), servers.end(), is_up);
    std::string text = fmt::format(
        "{}: {} of {} servers up, {} of {} connections, {} waiting\n",
        shown_value(upstream.at("name")), up, servers.size(), number(upstream.at("connections")),
        number(upstream.at("connections_max")), number(upstream.at("queued")));
    std::vector<Row> rows{
        {"SERVER", "CONFIGURED", "WEIGHT", "STATE", "ACTIVE", "REQUESTS", "FAILURES", "EJECTIONS"}};
    for (const bool wanted : {false, true}) {
        for (const JsonValue& server : servers) {
            if (is_up(server) == wanted) rows.push_back(row_of_server(server));
        }
    }
    if (rows.size() > 1) append_table(rows, text);
    for (const JsonValue& name : upstream.at("unresolved")) {
        text += fmt::format("  {}: has no address yet\n", shown_value(name));
    }
    return text;
}

template <class TextOf>
std::optional<CountsText> text_of(std::string_view body, TextOf text_of_one) {
    const auto parsed = parse_json_object(body);
    if (!parsed) return std::nullopt;
    const JsonValue& json = *parsed;
    try {
        CountsText counts;
        counts.counted = json.at("counted").get<bool>();
        for (const JsonValue& one : json.at("identifiers")) counts.text += text_of_one(one, json);
        return counts;
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

}  // namespace

std::optional<CountsText> inspect_text(std::string_view json) {
    return text_of(json, inspected_text);
}

std::optional<CountsText> reset_text(std::string_view json) {
    return text_of(json, forgotten_text);
}

std::optional<UpstreamsText> upstreams_text(std::string_view json) {
    const auto parsed = parse_json_object(json);
    if (!parsed) return std::nullopt;
    try {
        UpstreamsText all;
        for (const JsonValue& upstream : parsed->at("upstreams")) {
            const JsonValue& servers = upstream.at("servers");
            all.all_up = all.all_up && upstream.at("unresolved").empty() &&
                         std::all_of(servers.begin(), servers.end(), is_up);
            all.text += upstream_text(upstream);
        }
        if (all.text.empty()) all.text = "the configuration has no upstreams\n";
        return all;
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

std::string problem_detail(std::string_view json) {
    const auto problem = parse_json_object(json);
    const JsonValue* const detail = problem ? find_member(*problem, "detail") : nullptr;
    return detail == nullptr ? std::string() : shown_value(*detail);
}

namespace {

// A column of `tidegate denials`.
struct DenialColumn {
    std::string_view heading;
    int width;
    const telemetry::DenialField* field;
    const telemetry::DenialField* quota = nullptr;  // shown as `COUNT of QUOTA`
};

constexpr auto kDenialColumns = std::to_array<DenialColumn>({
    {"TIME", 24, &telemetry::denial_field("time_ms")},
    {"IDENTIFIER", 28, &telemetry::denial_field("identifier")},
    {"LIMIT", 20, &telemetry::denial_field("limit")},
    {"TAKEN", 14, &telemetry::denial_field("count"), &telemetry::denial_field("quota")},
    {"RETRY", 8, &telemetry::denial_field("retry_after_seconds")},
    {"ROUTE", 14, &telemetry::denial_field("route")},
    {"REQUEST", 0, &telemetry::denial_field("request_id")},
});

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

// The text of a value, by the type of its field.
struct DenialCell {
    const JsonValue& value;

    template <class Value>
    using In = telemetry::DenialField::In<Value>;
    std::string operator()(In<telemetry::DenialText>) const { return client_text(value); }
    std::string operator()(In<std::chrono::system_clock::time_point>) const {
        return moment_text(value.get<std::int64_t>());
    }
    std::string operator()(In<std::int64_t>) const {
        return fmt::format("{}", value.get<std::int64_t>());
    }
    std::string operator()(In<std::optional<std::int64_t>>) const {
        return value.is_null() ? "-" : fmt::format("{}s", value.get<std::int64_t>());
    }
};

std::string denial_cell(const JsonValue& denial, const telemetry::DenialField& field) {
    return std::visit(DenialCell{denial.at(std::string(field.name))}, field.member);
}

// Of the table of denials; `cell` is the text of a column.
template <class Cell>
std::string denial_row(Cell cell) {
    std::string row;
    for (const DenialColumn& column : kDenialColumns) {
        if (!row.empty()) row += "  ";
        row += fmt::format("{:<{}}", cell(column), column.width);
    }
    return row + '\n';
}

std::string denial_line(const JsonValue& denial) {
    return denial_row([&](const DenialColumn& column) {
        std::string text = denial_cell(denial, *column.field);
        if (column.quota != nullptr) text += " of " + denial_cell(denial, *column.quota);
        return text;
    });
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
    return denial_row([](const DenialColumn& column) { return column.heading; });
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

std::string readiness_of(const std::string& body) {
    const auto answer = parse_json_object(body);
    if (!answer) return {};
    const std::string_view word = string_member(*answer, "status").value_or("");
    const bool is_known = word == "ready" || word == "starting" || word == "draining";
    return is_known ? std::string(word) : std::string();
}

namespace {

std::vector<config::Diagnostic> diagnostics(const JsonValue& answer, const char* name) {
    std::vector<config::Diagnostic> out;
    for (const JsonValue& one : answer.value(name, JsonValue::array())) {
        out.push_back({one.at("file").get<std::string>(), one.value("line", 0),
                       one.value("column", 0), one.at("message").get<std::string>()});
    }
    return out;
}

}  // namespace

std::string reload_text(const std::string& body) {
    const auto parsed = parse_json_object(body);
    if (!parsed || !parsed->contains("result") || !parsed->contains("generation")) return {};
    const JsonValue& answer = *parsed;
    config::Loaded outcome;
    outcome.errors = diagnostics(answer, "errors");
    outcome.warnings = diagnostics(answer, "warnings");
    const auto generation = answer.at("generation").get<std::uint64_t>();
    if (answer.at("result") == "ok") {
        return fmt::format("{}configuration {} is in force\n", report(outcome), generation);
    }
    return fmt::format("{}{}: the proxy goes on with configuration {}\n", report(outcome),
                       summary(outcome), generation);
}

}  // namespace tidegate::cli

#include "admin/top_denials_upstreams.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "admin/api_paths.hpp"
#include "admin/inspect_reset_answer.hpp"
#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"

namespace tidegate::admin {

namespace {

using Json = Doc::Json;
using telemetry::LiveCounts;
using telemetry::LivePair;
using telemetry::LiveSample;
using telemetry::LiveTotals;
using telemetry::Outcome;

constexpr std::array<std::string_view, telemetry::kAnswerClasses> kAnswerNames{
    "1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"};

std::int64_t unix_ms(std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json policy_columns(const LiveTotals& totals) {
    Json columns = Json::array();
    for (std::size_t i = 0; i < totals.policy_names.size(); ++i) {
        const auto& [policy, shadow] = totals.policy_names[i];
        const bool is_candidate = policy.ends_with(config::kCandidateSuffix);
        columns.push_back({{"policy", policy},
                           {"mode", is_candidate ? "candidate"
                                    : shadow     ? "shadow"
                                                 : "enforce"}});
        const auto unit = i < totals.policy_units.size() ? totals.policy_units[i] : std::nullopt;
        if (unit) columns.back()["unit"] = to_string(*unit);
    }
    if (totals.policies_left != 0) columns.push_back({{"rest", totals.policies_left}});
    return columns;
}

Json route_columns(const LiveTotals& totals) {
    Json columns = Json::array();
    for (const std::string& route : totals.route_names) columns.push_back({{"route", route}});
    if (totals.routes_left != 0) columns.push_back({{"rest", totals.routes_left}});
    return columns;
}

Json upstream_columns(const std::vector<upstream::UpstreamStatus>& upstreams) {
    Json columns = Json::array();
    for (const upstream::UpstreamStatus& one : upstreams) {
        if (columns.size() == telemetry::kLiveColumnsMax) {
            columns.push_back({{"rest", upstreams.size() - columns.size()}});
            break;
        }
        const auto up = std::count_if(
            one.servers.begin(), one.servers.end(),
            [](const auto& server) { return server.health == upstream::ServerHealth::up; });
        std::uint64_t active = 0;
        for (const upstream::ServerStatus& server : one.servers) active += server.active;
        columns.push_back({{"upstream", one.upstream},
                           {"servers", one.servers.size()},
                           {"up", up},
                           {"queued", one.queued},
                           {"connections", one.connections},
                           {"connections_max", one.connections_max},
                           {"active", active}});
    }
    return columns;
}

// The samples may be many, and are numbers alone: they are written by hand.
class SampleText {
  public:
    // `generation`: of the upstreams that the answer names. `units`: of LiveCounts::costs.
    SampleText(std::string& out, std::uint64_t generation,
               const std::vector<std::optional<telemetry::CostUnit>>& units)
        : out_(out), generation_(generation), units_(units) {}

    void write(const LiveSample& sample) {
        number("{\"time_ms\":", sample.time_ms);
        number(",\"took_ms\":", sample.took_ms);
        out_ += ',';
        counts(sample);
        percentiles(",\"decision_seconds\":", sample.decision_times);
        percentiles(",\"request_seconds\":", sample.request_times);
        out_ += sample.gauges.store_is_up ? ",\"store\":\"up\"" : ",\"store\":\"down\"";
        number(",\"store_failures\":", sample.store_failures);
        number(",\"leased_units\":", sample.gauges.leased_units);
        number(",\"connections\":", sample.gauges.connections);
        number(",\"upstream_connections\":", sample.gauges.upstream_connections);
        number(",\"upstream_failures\":", sample.upstream_failures);
        // Another configuration may have had other upstreams.
        if (sample.gauges.generation == generation_) {
            pairs(",\"upstreams\":", sample.gauges.upstreams,
                  [](const auto& one) { return std::pair(one.all, one.up); });
        }
        number(",\"generation\":", sample.gauges.generation);
        columns(sample);
        out_ += '}';
    }

    void write(const LiveTotals& totals) {
        out_ += '{';
        counts(totals);
        columns(totals);
        out_ += '}';
    }

  private:
    template <class Number>
    void number(std::string_view name, Number value) {
        fmt::format_to(std::back_inserter(out_), "{}{}", name, value);
    }

    void counts(const LiveCounts& of) {
        number("\"requests\":", of.requests());
        number(",\"denials\":", of.outcomes[static_cast<std::size_t>(Outcome::limited)]);
        for (std::size_t i = 0; i < of.answers.size(); ++i) {
            out_ += i == 0 ? ",\"answers\":{" : ",";
            fmt::format_to(std::back_inserter(out_), "\"{}\":{}", kAnswerNames[i], of.answers[i]);
        }
        for (std::size_t i = 0; i < of.outcomes.size(); ++i) {
            out_ += i == 0 ? "},\"outcomes\":{" : ",";
            fmt::format_to(std::back_inserter(out_), "\"{}\":{}",
                           to_string(static_cast<Outcome>(i)), of.outcomes[i]);
        }
        out_ += '}';
    }

    void percentiles(std::string_view name, const telemetry::Percentiles& of) {
        fmt::format_to(std::back_inserter(out_), "{}{{\"count\":{}", name, of.count);
        for (const auto& [label, bound] :
             {std::pair("p50", of.p50), std::pair("p99", of.p99), std::pair("p999", of.p999)}) {
            const double seconds = std::chrono::duration<double>(bound).count();
            if (of.count == 0) {
                fmt::format_to(std::back_inserter(out_), ",\"{}\":null", label);
            } else {
                fmt::format_to(std::back_inserter(out_), ",\"{}\":{:.9g}", label, seconds);
            }
        }
        out_ += '}';
    }

    void columns(const LiveCounts& of) {
        const auto both = [](const LivePair& one) { return std::pair(one.all, one.denied); };
        pairs(",\"policies\":", of.policies, both);
        pairs(",\"routes\":", of.routes, both);
        if (!of.candidates.empty()) pairs(",\"candidates\":", of.candidates, both);
        costs(of.costs);
    }

    // Only of policies that have settled something: [column, settled, reserved].
    void costs(const std::vector<telemetry::LiveCost>& all) {
        if (all.empty()) return;
        out_ += ",\"costs\":[";
        bool is_first = true;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] == telemetry::LiveCost{}) continue;
            if (!std::exchange(is_first, false)) out_ += ',';
            const bool in_money = units_[i] == telemetry::CostUnit::usd;
            const auto shown = [&](std::uint64_t units) {
                return shown_amount({static_cast<std::int64_t>(units), in_money});
            };
            fmt::format_to(std::back_inserter(out_), "[{},{},{}]", i, shown(all[i].settled),
                           shown(all[i].reserved));
        }
        out_ += ']';
    }

    template <class Values, class PairOf>
    void pairs(std::string_view name, const Values& values, PairOf pair_of) {
        out_ += name;
        out_ += '[';
        for (const auto& value : values) {
            const auto [first, second] = pair_of(value);
            if (&value != &values.front()) out_ += ',';
            fmt::format_to(std::back_inserter(out_), "[{},{}]", first, second);
        }
        out_ += ']';
    }

    std::string& out_;
    std::uint64_t generation_;
    const std::vector<std::optional<telemetry::CostUnit>>& units_;
};

}  // namespace

AdminAnswer answer_to_live(std::string_view target, const LiveView& view) {
    auto since_text = asked_in_query(target, "since");
    if (!since_text) return since_text.error();
    std::optional<std::int64_t> since;
    if (*since_text) {
        since = parse_decimal(**since_text);
        if (!since) {
            return problem(400,
                           "`since` is not the `time_ms` of a sample: write a whole number of "
                           "milliseconds, such as `since=1764000600001`.");
        }
    }
    const LiveTotals& totals = view.series.totals();
    AdminAnswer answer;
    answer.content_type = "application/json";
    std::string& out = answer.body;
    out = json_text({{"now_ms", unix_ms(view.now)},
                     {"started_ms", unix_ms(view.started)},
                     {"version", view.version},
                     {"workers", view.threads},
                     {"store", {{"kind", view.store}}},
                     {"config", {{"hash", view.config_hash}, {"rolled_back", view.is_rolled_back}}},
                     {"policies", policy_columns(totals)},
                     {"routes", route_columns(totals)},
                     {"upstreams", upstream_columns(view.upstreams)}},
                    {.ascii = true});
    out.pop_back();  // the brace: more members follow
    SampleText text(out, view.generation, totals.policy_units);
    out += ",\"totals\":";
    text.write(totals);
    out += ",\"samples\":[";
    bool is_first = true;
    for (const LiveSample& sample : view.series.samples()) {
        if (since && sample.time_ms <= *since) continue;
        if (!std::exchange(is_first, false)) out += ',';
        text.write(sample);
    }
    out += "]}\n";
    return answer;
}

namespace {

constexpr std::size_t kListedMax = 100;

constexpr std::array<Doc::Column, 3> kTopColumns{
    {{"AT LEAST", 10, true}, {"AT MOST", 10, true}, {"IDENTIFIER"}}};

std::string name_or_dash(std::string_view name) {
    return name.empty() ? "-" : escaped_text(name);
}

Json denial_value(const telemetry::DenialText& text) {
    return std::string(text.view());
}
Json denial_value(Amount amount) {
    return amount_json(amount);
}
Json denial_value(const std::optional<std::int64_t>& number) {
    return number ? Json(*number) : nullptr;
}
Json denial_value(std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json denial_json(std::size_t thread, const telemetry::Denial& denial) {
    Json json = Json::object();
    json.emplace("id", fmt::format("{}-{}", thread, denial.number));
    for (const telemetry::DenialField& field : telemetry::kDenialFields) {
        std::visit(
            [&](const auto member) {
                json.emplace(std::string(field.name), denial_value(denial.*member));
            },
            field.member);
    }
    if (denial.quota.in_money) json.emplace("unit", "usd");
    return json;
}

// A column of `tidegate denials`, and the fields of a denial that it shows.
struct DenialColumn {
    Doc::Column column;
    const telemetry::DenialField* field;
    const telemetry::DenialField* quota = nullptr;  // shown as `COUNT of QUOTA`
};

constexpr auto kDenialTable = std::to_array<DenialColumn>({
    {{"TIME", 24}, &telemetry::denial_field("time_ms")},
    {{"IDENTIFIER", 28}, &telemetry::denial_field("identifier")},
    {{"LIMIT", 20}, &telemetry::denial_field("limit")},
    {{"TAKEN", 14}, &telemetry::denial_field("count"), &telemetry::denial_field("quota")},
    {{"RETRY", 8}, &telemetry::denial_field("retry_after_seconds")},
    {{"ROUTE", 14}, &telemetry::denial_field("route")},
    {{"REQUEST", 1}, &telemetry::denial_field("request_id")},
});

constexpr auto kDenialColumns = [] {
    std::array<Doc::Column, kDenialTable.size()> columns;
    std::transform(kDenialTable.begin(), kDenialTable.end(), columns.begin(),
                   [](const DenialColumn& one) { return one.column; });
    return columns;
}();

std::string moment_text(std::int64_t time_ms) {
    constexpr std::int64_t kLastMs = 253'402'300'799'999;  // of the year 9999
    const std::chrono::milliseconds time(std::clamp<std::int64_t>(time_ms, 0, kLastMs));
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    std::string text = format_timestamp(second);
    text.pop_back();  // the Z
    return fmt::format("{}.{:03}Z", text, (time - second).count());
}

// The text of a value, by the type of its field.
struct DenialCell {
    const Json& value;

    template <class Value>
    using In = telemetry::DenialField::In<Value>;
    std::string operator()(In<telemetry::DenialText>) const {
        return name_or_dash(value.get_ref<const std::string&>());
    }
    std::string operator()(In<std::chrono::system_clock::time_point>) const {
        return moment_text(value.get<std::int64_t>());
    }
    std::string operator()(In<Amount>) const {
        if (!value.is_number_float()) return fmt::format("{}", value.get<std::int64_t>());
        return fmt::format("{:.6f}", value.get<double>());
    }
    std::string operator()(In<std::optional<std::int64_t>>) const {
        return value.is_null() ? "-" : fmt::format("{}s", value.get<std::int64_t>());
    }
};

std::string denial_cell(const Json& denial, const telemetry::DenialField& field) {
    return std::visit(DenialCell{denial.at(std::string(field.name))}, field.member);
}

Doc::Row denial_row(const Json& denial) {
    Doc::Row row;
    for (const DenialColumn& column : kDenialTable) {
        row.push_back(denial_cell(denial, *column.field));
        if (column.quota != nullptr) row.back() += " of " + denial_cell(denial, *column.quota);
    }
    return row;
}

std::string_view name_of_top(ActivityRequest::Kind kind) {
    switch (kind) {
        case ActivityRequest::Kind::top_denials:
            return "denials";
        case ActivityRequest::Kind::top_shadow:
            return "shadow";
        default:
            return "requests";
    }
}

// Identifiers of Envoy's calls, which no other question takes.
bool is_of_descriptor(std::string_view identifier) {
    constexpr std::array<std::string_view, 3> kKinds{"descriptor:", "pair:", "domain:"};
    return std::any_of(kKinds.begin(), kKinds.end(),
                       [&](std::string_view kind) { return identifier.starts_with(kind); });
}

// A candidate is named as the policy that has it, too.
bool is_by_policy(const telemetry::Denial& denial, const WantedDenials& wanted) {
    if (denial.policy == wanted.policy) return true;
    return wanted.of_candidates &&
           denial.policy == wanted.policy + std::string(config::kCandidateSuffix);
}

bool is_wanted(const telemetry::Denial& denial, const WantedDenials& wanted) {
    if (wanted.since && denial.time < *wanted.since) return false;
    if (!wanted.policy.empty() && !is_by_policy(denial, wanted)) return false;
    const auto& identifiers = wanted.identifiers;
    return identifiers.empty() ||
           std::any_of(identifiers.begin(), identifiers.end(), [&](std::string_view one) {
               return denial.identifier == one.substr(0, telemetry::DenialText::kBytesMax);
           });
}

std::string text_of_no_denial(const WantedDenials& wanted) {
    std::string text = wanted.in_shadow       ? "no policy in shadow would have refused a request"
                       : wanted.of_candidates ? "no candidate would have refused a request"
                                              : "no limit has refused a request";
    if (wanted.has_filter()) text += " that the options describe";
    return text;
}

}  // namespace

std::string denial_heading() {
    Doc::Row headings;
    for (const Doc::Column& column : kDenialColumns) headings.emplace_back(column.heading);
    return table_line(kDenialColumns, headings);
}

std::string denial_line(const Doc::Json& denial) {
    return table_line(kDenialColumns, denial_row(denial));
}

AdminAnswer answer_to_top(ActivityRequest::Kind kind, const std::vector<ThreadActivity>& threads,
                          std::size_t names_max, std::chrono::seconds reach) {
    std::vector<telemetry::CountedNames> parts;
    for (const ThreadActivity& one : threads) {
        const auto& generations = one.copy.names.generations;
        parts.insert(parts.end(), generations.begin(), generations.end());
    }
    const telemetry::TopList list = telemetry::merge(parts, kListedMax);
    const std::string_view by = name_of_top(kind);
    Json identifiers = Json::array();
    std::vector<Doc::Row> rows;
    for (const telemetry::FrequentName& one : list.names) {
        identifiers.push_back(
            {{"identifier", one.name}, {"count", one.at_least}, {"error", one.error}});
        rows.push_back({fmt::format("{}", one.at_least),
                        fmt::format("{}", one.at_least + one.error), name_or_dash(one.name)});
    }
    Doc doc;
    doc.exit_code = rows.empty() ? 1 : 0;
    if (names_max == 0) {
        doc.exit_code = 1;
        doc.line(kNotKept);
    } else {
        doc.line(fmt::format("{} of the last {}s, identifiers counted {} times", by, reach.count(),
                             list.total));
        if (!rows.empty()) doc.table(kTopColumns, rows, "  ");
    }
    doc.json = {{"by", by},
                {"enabled", names_max != 0},
                {"names", names_max},
                {"seconds", reach.count()},
                {"total", list.total},
                {"error_max", list.error_max},
                {"identifiers", std::move(identifiers)}};
    return answer_of(doc);
}

bool lists_denials(ActivityRequest::Kind kind) {
    using Kind = ActivityRequest::Kind;
    return kind == Kind::denials || kind == Kind::shadow_denials || kind == Kind::candidate_denials;
}

Result<WantedDenials, std::string> wanted_denials(const ActivityRequest& request,
                                                  const config::Config& config,
                                                  std::chrono::system_clock::time_point now) {
    const DenialFilter& filter = request.filter;
    WantedDenials wanted;
    wanted.in_shadow = request.kind == ActivityRequest::Kind::shadow_denials;
    wanted.of_candidates = request.kind == ActivityRequest::Kind::candidate_denials;
    if (!filter.identifier.empty()) {
        auto meant = identifiers_meant(filter.identifier, config);
        if (!meant && !is_of_descriptor(filter.identifier)) return meant.error();
        if (meant) wanted.identifiers = std::move(*meant);
        wanted.identifiers.push_back(filter.identifier);
    }
    wanted.policy = filter.policy;
    wanted.policy_is_known =
        filter.policy.empty() ||
        std::any_of(config.policies.begin(), config.policies.end(),
                    [&](const auto& policy) { return policy->name == filter.policy; });
    if (filter.since) wanted.since = now - *filter.since;
    return wanted;
}

AdminAnswer answer_to_denials(const std::vector<ThreadActivity>& threads, std::size_t names_max,
                              const WantedDenials& wanted) {
    std::uint64_t left_out = 0;
    bool policy_is_known = wanted.policy_is_known;
    std::vector<std::pair<std::size_t, const telemetry::Denial*>> all;
    for (const ThreadActivity& one : threads) {
        left_out += one.copy.denials_left_out;
        const auto& denials = one.copy.denials;
        for (auto denial = denials.rbegin(); denial != denials.rend(); ++denial) {
            policy_is_known = policy_is_known || denial->policy == wanted.policy;
            if (is_wanted(*denial, wanted)) all.emplace_back(one.thread, &*denial);
        }
    }
    if (!policy_is_known) {
        return problem(400, fmt::format("The configuration has no policy {}: the column LIMIT of "
                                        "`tidegate denials` begins with the names of policies.",
                                        quote(wanted.policy)));
    }
    // The denials of one thread stay in their order, also if the clock was set.
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second->time > b.second->time; });
    Json denials = Json::array();
    for (const auto& [thread, denial] : all) denials.push_back(denial_json(thread, *denial));
    Doc doc;
    doc.exit_code = denials.empty() ? 1 : 0;
    if (names_max == 0) {
        doc.line(kNotKept);
    } else if (denials.empty()) {
        doc.line(text_of_no_denial(wanted));
    } else {
        std::vector<Doc::Row> rows;
        for (const Json& denial : denials) rows.push_back(denial_row(denial));
        std::reverse(rows.begin(), rows.end());  // the oldest first
        doc.table(kDenialColumns, rows);
    }
    doc.json = {{"enabled", names_max != 0},
                {"shadow", wanted.in_shadow},
                {"candidate", wanted.of_candidates},
                {"left_out", left_out},
                {"denials", std::move(denials)}};
    return answer_of(doc);
}

namespace {

constexpr std::array<Doc::Column, 8> kServerColumns{{{"SERVER"},
                                                     {"CONFIGURED"},
                                                     {"WEIGHT"},
                                                     {"STATE"},
                                                     {"ACTIVE"},
                                                     {"REQUESTS"},
                                                     {"FAILURES"},
                                                     {"EJECTIONS"}}};

bool is_up(const upstream::ServerStatus& server) {
    return server.health == upstream::ServerHealth::up;
}

Json server_json(const upstream::ServerStatus& server) {
    return {{"server", server.server},      {"configured", server.configured},
            {"weight", server.weight},      {"state", to_string(server.health)},
            {"checked", server.is_checked}, {"active", server.active},
            {"requests", server.requests},  {"failures", server.failures},
            {"ejections", server.ejections}};
}

Doc::Row server_row(const upstream::ServerStatus& server) {
    std::string state(to_string(server.health));
    if (is_up(server) && server.is_checked) state += " (checked)";
    return {escaped_text(server.server),        escaped_text(server.configured),
            fmt::format("{}", server.weight),   std::move(state),
            fmt::format("{}", server.active),   fmt::format("{}", server.requests),
            fmt::format("{}", server.failures), fmt::format("{}", server.ejections)};
}

// In the text, servers that get no requests come first.
void add_upstream(const upstream::UpstreamStatus& one, Doc& doc) {
    Json servers = Json::array();
    std::vector<Doc::Row> rows;
    for (const upstream::ServerStatus& server : one.servers) {
        servers.push_back(server_json(server));
        if (!is_up(server)) rows.push_back(server_row(server));
    }
    const std::size_t up = servers.size() - rows.size();
    if (!rows.empty() || !one.unresolved.empty()) doc.exit_code = 1;
    for (const upstream::ServerStatus& server : one.servers) {
        if (is_up(server)) rows.push_back(server_row(server));
    }
    doc.line(fmt::format("{}: {} of {} servers up, {} of {} connections, {} waiting",
                         escaped_text(one.upstream), up, rows.size(), one.connections,
                         one.connections_max, one.queued));
    if (!rows.empty()) doc.table(kServerColumns, rows, "  ");
    for (const std::string& name : one.unresolved) {
        doc.line(fmt::format("  {}: has no address yet", escaped_text(name)));
    }
    doc.json["upstreams"].push_back({{"name", one.upstream},
                                     {"connections", one.connections},
                                     {"connections_max", one.connections_max},
                                     {"queued", one.queued},
                                     {"servers", std::move(servers)},
                                     {"unresolved", one.unresolved}});
}

}  // namespace

AdminAnswer answer_to_upstreams(std::span<const upstream::UpstreamStatus> all) {
    Doc doc({.indent = 2, .ascii = true});
    doc.json["upstreams"] = Json::array();
    for (const upstream::UpstreamStatus& one : all) add_upstream(one, doc);
    if (all.empty()) doc.line("the configuration has no upstreams");
    return answer_of(doc);
}

std::string upstreams_summary(std::span<const upstream::UpstreamStatus> all) {
    Json summary = Json::object();
    for (const upstream::UpstreamStatus& one : all) {
        summary[one.upstream] = {
            {"servers", one.servers.size()},
            {"up", std::count_if(one.servers.begin(), one.servers.end(), is_up)}};
    }
    return json_text(summary, {.ascii = true});
}

}  // namespace tidegate::admin

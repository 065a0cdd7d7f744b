#include "admin/dashboard_answer.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/answer.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate::admin {

namespace {

using LiveJson = nlohmann::ordered_json;
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

LiveJson policy_columns(const LiveTotals& totals) {
    LiveJson columns = LiveJson::array();
    for (const auto& [policy, shadow] : totals.policy_names) {
        columns.push_back({{"policy", policy}, {"mode", shadow ? "shadow" : "enforce"}});
    }
    if (totals.policies_left != 0) columns.push_back({{"rest", totals.policies_left}});
    return columns;
}

LiveJson route_columns(const LiveTotals& totals) {
    LiveJson columns = LiveJson::array();
    for (const std::string& route : totals.route_names) columns.push_back({{"route", route}});
    if (totals.routes_left != 0) columns.push_back({{"rest", totals.routes_left}});
    return columns;
}

LiveJson upstream_columns(const std::vector<upstream::UpstreamStatus>& upstreams) {
    LiveJson columns = LiveJson::array();
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
    SampleText(std::string& out, std::uint64_t generation) : out_(out), generation_(generation) {}

    void write(const LiveSample& sample) {
        number("{\"time_ms\":", sample.time_ms);
        number(",\"took_ms\":", sample.took_ms);
        out_ += ',';
        counts(sample);
        percentiles(",\"decision_seconds\":", sample.decision_times);
        percentiles(",\"request_seconds\":", sample.request_times);
        out_ += sample.gauges.store_is_up ? ",\"store\":\"up\"" : ",\"store\":\"down\"";
        number(",\"store_failures\":", sample.store_failures);
        number(",\"connections\":", sample.gauges.connections);
        number(",\"upstream_connections\":", sample.gauges.upstream_connections);
        number(",\"upstream_failures\":", sample.upstream_failures);
        // Those of another configuration may be others.
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
    std::uint64_t generation_;  // of the upstreams that the answer names
};

}  // namespace

AdminAnswer answer_to_live(std::string_view target, const LiveView& view) {
    auto since_text = asked_in_query(target, "since");
    if (!since_text) return std::move(since_text.error());
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
                     {"policies", policy_columns(totals)},
                     {"routes", route_columns(totals)},
                     {"upstreams", upstream_columns(view.upstreams)}},
                    {.ascii = true});
    out.pop_back();  // the brace: more members follow
    SampleText text(out, view.generation);
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

using ActivityJson = nlohmann::ordered_json;

constexpr std::size_t kListedMax = 100;

AdminAnswer activity_answer(const ActivityJson& json) {
    AdminAnswer answer;
    answer.content_type = "application/json";
    answer.body = json_text(json, {.ascii = true}) + "\n";
    return answer;
}

ActivityJson denial_value(const telemetry::DenialText& text) {
    return std::string(text.view());
}
ActivityJson denial_value(std::int64_t number) {
    return number;
}
ActivityJson denial_value(const std::optional<std::int64_t>& number) {
    return number ? ActivityJson(*number) : nullptr;
}
ActivityJson denial_value(std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

ActivityJson denial_json(std::size_t thread, const telemetry::Denial& denial) {
    ActivityJson json = ActivityJson::object();
    json.emplace("id", fmt::format("{}-{}", thread, denial.number));
    for (const telemetry::DenialField& field : telemetry::kDenialFields) {
        std::visit(
            [&](const auto member) {
                json.emplace(std::string(field.name), denial_value(denial.*member));
            },
            field.member);
    }
    return json;
}

}  // namespace

Result<ActivityRequest, AdminAnswer> top_asked_for(std::string_view target) {
    auto by = asked_in_query(target, "by");
    if (!by) return std::move(by.error());
    if (!*by || **by == "requests") return ActivityRequest{ActivityRequest::Kind::top_requests};
    if (**by == "denials") return ActivityRequest{ActivityRequest::Kind::top_denials};
    return problem(400, "`by` is " + quote(**by) + ": write `by=requests` or `by=denials`.");
}

AdminAnswer answer_to_top(ActivityRequest::Kind kind, const std::vector<ThreadActivity>& threads,
                          std::size_t names_max, std::chrono::seconds reach) {
    std::vector<telemetry::CountedNames> parts;
    for (const ThreadActivity& one : threads) {
        const auto& generations = one.copy.names.generations;
        parts.insert(parts.end(), generations.begin(), generations.end());
    }
    const telemetry::TopList list = telemetry::merge(parts, kListedMax);
    ActivityJson identifiers = ActivityJson::array();
    for (const telemetry::FrequentName& one : list.names) {
        identifiers.push_back(
            {{"identifier", one.name}, {"count", one.at_least}, {"error", one.error}});
    }
    return activity_answer(
        {{"by", kind == ActivityRequest::Kind::top_denials ? "denials" : "requests"},
         {"enabled", names_max != 0},
         {"names", names_max},
         {"seconds", reach.count()},
         {"total", list.total},
         {"error_max", list.error_max},
         {"identifiers", std::move(identifiers)}});
}

AdminAnswer answer_to_denials(const std::vector<ThreadActivity>& threads, std::size_t names_max) {
    std::uint64_t left_out = 0;
    std::vector<std::pair<std::size_t, const telemetry::Denial*>> all;
    for (const ThreadActivity& one : threads) {
        left_out += one.copy.denials_left_out;
        const auto& denials = one.copy.denials;
        for (auto denial = denials.rbegin(); denial != denials.rend(); ++denial) {
            all.emplace_back(one.thread, &*denial);
        }
    }
    // Those of one thread stay in their order, also if the clock was set.
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second->time > b.second->time; });
    ActivityJson denials = ActivityJson::array();
    for (const auto& [thread, denial] : all) denials.push_back(denial_json(thread, *denial));
    return activity_answer(
        {{"enabled", names_max != 0}, {"left_out", left_out}, {"denials", std::move(denials)}});
}

}  // namespace tidegate::admin

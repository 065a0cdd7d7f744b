#include "simulate/report.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "simulate/tally.hpp"

namespace tidegate::simulate {

namespace {

using Json = Doc::Json;
using Verdict = Simulation::Verdict;

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::uint64_t kLeftOutParts = 100;  // one in so many lines may be unread, or late

std::string time_text(Micros at) {
    return format_timestamp(std::chrono::duration_cast<std::chrono::seconds>(at));
}

std::string percent_text(std::uint64_t part, std::uint64_t of) {
    if (of == 0) return "0%";
    return fmt::format("{:.2f}%", static_cast<double>(part) * 100 / static_cast<double>(of));
}

// One limit as the report shows it. Clients in the order in which they are listed.
struct LimitView {
    const LimitTally* tally = nullptr;
    std::string name;
    std::vector<ClientView> limited;
    std::vector<std::int64_t> peaks;  // ascending
    std::uint64_t near = 0;           // limited clients whose peak was below twice the limit
};

LimitView view_of(const Simulation& simulation, std::size_t list, std::size_t limit) {
    LimitView view;
    view.tally = &simulation.tally().lists()[list].limits[limit];
    const config::LimitList& of = simulation.config().limit_lists[list];
    view.name = full_name(*of.policy, *view.tally->limit);
    const std::int64_t size = Tally::size_of(*view.tally->limit);
    for (const ClientView& client : simulation.tally().views(list, limit)) {
        view.peaks.push_back(client.peak);
        if (client.limited == 0) continue;
        view.limited.push_back(client);
        if (view.tally->has_peaks && client.peak < 2 * size) ++view.near;
    }
    std::sort(view.peaks.begin(), view.peaks.end());
    std::sort(
        view.limited.begin(), view.limited.end(), [](const ClientView& a, const ClientView& b) {
            return a.limited != b.limited ? a.limited > b.limited : a.identifier < b.identifier;
        });
    return view;
}

// The value that the given share of the peaks does not exceed: nearest rank.
std::int64_t quantile(const std::vector<std::int64_t>& peaks, double share) {
    if (peaks.empty()) return 0;
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(peaks.size())));
    return peaks[std::clamp<std::size_t>(rank, 1, peaks.size()) - 1];
}

struct NamedQuantile {
    const char* name;
    double share;
};
constexpr std::array<NamedQuantile, 5> kQuantiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}}};

std::string units_text(const limit::Limit& limit, std::int64_t units) {
    return shown_amount({units, limit.in_money});
}

// `10 per 1s`, of a bucket `10 per 1s, burst 20`.
std::string limit_text(const limit::Limit& limit) {
    std::string text =
        fmt::format("{} per {}", units_text(limit, limit.quota), format_duration(limit.duration));
    if (limit.traits().has(limit::kBurst)) text += fmt::format(", burst {}", limit.burst);
    return text;
}

Json units_json(const limit::Limit& limit, std::int64_t units) {
    return amount_json({units, limit.in_money});
}

Json peaks_json(const LimitView& view) {
    Json json = Json::object();
    for (const NamedQuantile& one : kQuantiles) {
        json[one.name] = units_json(*view.tally->limit, quantile(view.peaks, one.share));
    }
    return json;
}

Json clients_json(const LimitView& view) {
    Json list = Json::array();
    for (std::size_t i = 0; i < std::min(view.limited.size(), kMostLimited); ++i) {
        const ClientView& client = view.limited[i];
        Json one = Json::object();
        one["identifier"] = client.identifier;
        one["limited"] = client.limited;
        if (view.tally->has_peaks) one["peak"] = units_json(*view.tally->limit, client.peak);
        list.push_back(std::move(one));
    }
    return list;
}

void add_limit_json(const LimitView& view, const std::string& tier, const ReportOptions& options,
                    Json& out) {
    const limit::Limit& limit = *view.tally->limit;
    Json one = Json::object();
    one["limit"] = view.name;
    if (!tier.empty()) one["tier"] = tier;
    one["quota"] = units_json(limit, limit.quota);
    if (limit.in_money) one["unit"] = "usd";
    if (limit.traits().has(limit::kBurst)) one["burst"] = units_json(limit, limit.burst);
    one["per"] = format_duration(limit.duration);
    one["limited"] = view.tally->limited;
    one["clients"] = view.limited.size();
    if (view.tally->limited > 0) {
        one["first"] = time_text(view.tally->first);
        one["last"] = time_text(view.tally->last);
        one["worst"] = {{"at", time_text(view.tally->worst)},
                        {"limited", view.tally->worst_limited}};
    }
    if (view.tally->has_peaks) {
        one["near"] = view.near;
        one["peaks"] = peaks_json(view);
        if (options.suggest_share) {
            const auto found = suggest(view.peaks, *options.suggest_share);
            one["suggest"] = found ? units_json(limit, found->quota) : Json();
            if (found) one["suggest_clients"] = found->clients;
        }
    }
    one["top"] = clients_json(view);
    out.push_back(std::move(one));
}

void add_limit_text(const LimitView& view, const std::string& tier, const ReportOptions& options,
                    Doc& doc) {
    const LimitTally& tally = *view.tally;
    const limit::Limit& limit = *tally.limit;
    doc.line(fmt::format("  {}{}: {}", view.name, tier.empty() ? "" : " of tier " + tier,
                         limit_text(limit)));
    if (tally.limited == 0) {
        doc.line("    limited no request");
    } else {
        doc.line(fmt::format("    limited {} of {}", counted(tally.limited, "request"),
                             counted(view.limited.size(), "client")));
        doc.line(fmt::format("    first at {}, worst at {}: {} in that minute",
                             time_text(tally.first), time_text(tally.worst), tally.worst_limited));
        if (tally.has_peaks) {
            doc.line(fmt::format("    {} of these clients asked for less than twice the limit",
                                 view.near));
        }
    }
    if (!tally.has_peaks) return;
    std::string peaks;
    for (const NamedQuantile& one : kQuantiles) {
        peaks += fmt::format("{}{} {}", peaks.empty() ? "" : ", ", one.name,
                             units_text(limit, quantile(view.peaks, one.share)));
    }
    doc.line("    peaks of clients: " + peaks);
    if (!options.suggest_share) return;
    const auto found = suggest(view.peaks, *options.suggest_share);
    if (!found) return;
    const char* const what = limit.traits().has(limit::kBurst) ? "burst" : "quota";
    doc.line(fmt::format("    suggest: {} {} limits {} of {} ({})", what,
                         units_text(limit, found->quota), found->clients,
                         counted(view.peaks.size(), "client"),
                         percent_text(found->clients, view.peaks.size())));
}

void add_top_text(const LimitView& view, Doc& doc) {
    if (view.limited.empty()) return;
    static constexpr Doc::Column kColumns[] = {
        {"limited", 0, true}, {"peak", 0, true}, {"identifier", 0, false}};
    std::vector<Doc::Row> rows;
    for (std::size_t i = 0; i < std::min(view.limited.size(), kMostLimited); ++i) {
        const ClientView& client = view.limited[i];
        const std::string peak =
            view.tally->has_peaks ? units_text(*view.tally->limit, client.peak) : "-";
        rows.push_back({std::to_string(client.limited), peak, escaped_text(client.identifier)});
    }
    doc.table(kColumns, rows, "    ");
}

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
    }
    return text;
}

// `--map header:x-tenant=FIELD`, for each thing that the log lacks and a map could name.
std::vector<std::string> maps_of(const PolicyPlan& plan) {
    std::vector<std::string> maps;
    for (const std::string& lack : plan.lacks) {
        if (lack.starts_with("body") || lack.starts_with("form")) continue;
        const bool is_query = lack.starts_with("query:");
        maps.push_back((is_query ? std::string("path") : lack) + "=FIELD");
    }
    return maps;
}

std::string maps_text(const PolicyPlan& plan) {
    std::string text;
    for (const std::string& map : maps_of(plan)) text += " --map " + map;
    return text;
}

std::string mode_text(const config::PolicySettings& policy) {
    if (policy.twin_of != nullptr) return " (mode: shadow, for what `enforce` leaves out)";
    if (policy.unenforced != nullptr) return " (for the share of `enforce`)";
    return policy.is_enforced() ? "" : fmt::format(" (mode: {})", policy.mode());
}

// Policies of routes, with their candidates: others, such as the one for guesses, have nothing in a
// log of requests. A recording has calls of the check API, which name policies themselves.
bool has_clients(const Simulation& simulation, const config::PolicySettings& policy) {
    const auto& lists = simulation.config().limit_lists;
    for (std::size_t list = 0; list < lists.size(); ++list) {
        if (lists[list].policy == &policy && !simulation.tally().lists()[list].clients.empty()) {
            return true;
        }
    }
    return false;
}

bool is_on_route(const config::Config& config, const config::PolicySettings& policy) {
    const limit::Policy* live = &policy;
    if (policy.is_candidate()) live = policy.candidate_of;
    if (policy.twin_of != nullptr) live = policy.twin_of;
    return std::any_of(config.routes.begin(), config.routes.end(), [&](const auto& route) {
        return std::find(route.policies.begin(), route.policies.end(), live) !=
                   route.policies.end() ||
               (route.cors != nullptr && route.cors->preflight == live);
    });
}

void add_plan_text(const PolicyPlan& plan, Doc& doc) {
    const config::PolicySettings& policy = *plan.policy;
    const std::string mode = mode_text(policy);
    if (!plan.shared.empty()) {
        doc.line(fmt::format("policy {}{}: {}, as all requests share {}", escaped_text(policy.name),
                             mode, plan.is_simulated ? "simulated without a key" : "not simulated",
                             listed(plan.shared)));
        return;
    }
    if (plan.is_simulated) {
        doc.line(fmt::format("policy {}{}", escaped_text(policy.name), mode));
        if (!plan.lacks.empty()) {
            doc.line(fmt::format("  simulated without {}, which the log does not have:{}",
                                 listed(plan.lacks), maps_text(plan)));
        }
        return;
    }
    if (plan.is_recorded) {
        doc.line(fmt::format("policy {}{}: not simulated, as recordings do not have {}",
                             escaped_text(policy.name), mode, fmt::join(plan.lacks, ", ")));
        return;
    }
    doc.line(
        fmt::format("policy {}{}: not simulated, as the log does not have {}{}",
                    escaped_text(policy.name), mode, listed(plan.lacks),
                    plan.can_map ? "; say where it is:" + maps_text(plan) : ", which no log has"));
}

Json plan_json(const PolicyPlan& plan) {
    Json one = Json::object();
    one["policy"] = plan.policy->name;
    one["mode"] = std::string(plan.policy->mode());
    one["simulated"] = plan.is_simulated;
    if (!plan.shared.empty()) one["shared"] = plan.shared;
    if (!plan.lacks.empty()) {
        one["lacks"] = plan.lacks;
        if (plan.can_map) one["map"] = maps_of(plan);
    }
    return one;
}

void add_changes(const CandidateChanges& changes, Json& json, Doc& doc) {
    json["only_live"] = changes.only_live;
    json["only_candidate"] = changes.only_candidate;
    doc.line(fmt::format("  live, it would limit {} more and admit {} more",
                         counted(changes.only_candidate, "request"), changes.only_live));
}

void add_routes(const Simulation& simulation, Json& json, Doc& doc) {
    if (simulation.routes_lack().empty()) return;
    json["routes_lack"] = simulation.routes_lack();
    for (const std::string& lack : simulation.routes_lack()) {
        doc.line(fmt::format(
            "routes depend on `{}`, which the log does not have: {}", lack,
            lack == "host" ? "--host NAME, or --map host=FIELD" : "--map " + lack + "=FIELD"));
    }
}

void add_policies(const Simulation& simulation, const ReportOptions& options, Json& json,
                  Doc& doc) {
    const config::Config& config = simulation.config();
    json["policies"] = Json::array();
    for (const PolicyPlan& plan : simulation.plans()) {
        const config::PolicySettings& policy = *plan.policy;
        if (!is_on_route(config, policy) && !has_clients(simulation, policy)) continue;
        add_plan_text(plan, doc);
        Json one = plan_json(plan);
        if (plan.is_simulated && plan.policy->is_candidate()) {
            add_changes(simulation.changes_of(*plan.policy), one, doc);
        }
        if (plan.is_simulated) {
            one["clients"] = simulation.tally().lists()[plan.policy->index].clients.size();
            one["limits"] = Json::array();
            for (std::size_t list = 0; list < config.limit_lists.size(); ++list) {
                const config::LimitList& of = config.limit_lists[list];
                if (of.policy != plan.policy) continue;
                const std::string tier = of.tier != nullptr ? of.tier->name : "";
                if (of.tier != nullptr && simulation.tally().lists()[list].clients.empty()) {
                    continue;
                }
                for (std::size_t i = 0; i < of.limits().size(); ++i) {
                    const LimitView view = view_of(simulation, list, i);
                    add_limit_json(view, tier, options, one["limits"]);
                    add_limit_text(view, tier, options, doc);
                    add_top_text(view, doc);
                }
            }
        }
        json["policies"].push_back(std::move(one));
    }
}

std::string refusals_text(const Simulation& simulation, Json& json) {
    std::string text;
    json["refused_by"] = Json::object();
    for (std::size_t i = 0; i < ask::kFaults; ++i) {
        const auto fault = static_cast<ask::Fault>(i);
        const std::uint64_t count = simulation.count_of(fault);
        if (count == 0) continue;
        const std::string_view name = ask::traits(fault).name;
        json["refused_by"][std::string(name)] = count;
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name, count);
    }
    return text;
}

void add_figures(const Simulation& simulation, const ReportOptions& options, Json& json, Doc& doc) {
    const std::uint64_t admitted = simulation.count_of(Verdict::admitted);
    const std::uint64_t limited = simulation.count_of(Verdict::limited);
    const std::uint64_t refused = simulation.count_of(Verdict::refused);
    const std::uint64_t unavailable = simulation.count_of(Verdict::unavailable);
    const std::uint64_t elsewhere = simulation.count_of(Verdict::elsewhere);
    const std::uint64_t requests = admitted + limited + refused + unavailable + elsewhere;
    json["requests"] = requests;
    json["admitted"] = admitted;
    json["limited"] = limited;
    json["refused"] = refused;
    json["unavailable"] = unavailable;
    json["clients"] = simulation.tally().clients();
    doc.fact("requests", std::to_string(requests));
    doc.fact("admitted", std::to_string(admitted), percent_text(admitted, requests));
    doc.fact("limited", std::to_string(limited), percent_text(limited, requests));
    const std::string why = refusals_text(simulation, json);
    if (refused > 0) doc.fact("refused", std::to_string(refused), why);
    if (elsewhere > 0) {
        json["refused_elsewhere"] = elsewhere;
        doc.fact("refused elsewhere", std::to_string(elsewhere),
                 "by limits of identifiers that the recording does not have: not counted");
    }
    if (unavailable > 0) {
        doc.fact("unavailable", std::to_string(unavailable), "the store was full");
    }
    doc.fact("clients", std::to_string(simulation.tally().clients()),
             "identifiers that the policies count");
    json["evictions"] = simulation.evictions();
    json["untracked"] = simulation.tally().untracked();
    json["unknown_costs"] = simulation.unknown_costs();
    if (simulation.evictions() > 0) {
        doc.fact("evictions", std::to_string(simulation.evictions()),
                 "counts that the store forgot, as it had `max_keys`");
    }
    if (simulation.tally().untracked() > 0) {
        doc.fact("untracked", std::to_string(simulation.tally().untracked()),
                 "requests of clients beyond `max_keys`: decided, and in no list of clients");
    }
    if (simulation.unknown_costs() > 0) {
        doc.fact("unknown costs", std::to_string(simulation.unknown_costs()),
                 "lines without usage: counted as what the policy reserves");
    }
    if (!simulation.unknown_policies().empty()) {
        json["unknown_policies"] = simulation.unknown_policies();
        doc.fact("left out", listed(simulation.unknown_policies()),
                 "policies of the recording that are not simulated here");
    }
    doc.line("");
    add_routes(simulation, json, doc);
    add_policies(simulation, options, json, doc);
}

bool are_too_many(std::uint64_t lines, const Replay& replay) {
    return lines * kLeftOutParts > replay.lines();
}

bool is_of_recordings(const Replay& replay) {
    const auto files = replay.files();
    return !files.empty() && files.front().format == LogFormat::recording;
}

std::string window_text(const Replay& replay) {
    return format_duration(std::chrono::seconds{replay.order_seconds()});
}

void add_lines(const Replay& replay, Doc& doc) {
    Doc::Json& json = doc.json;
    json["logs"] = Json::array();
    for (const LogFileInfo& file : replay.files()) {
        json["logs"].push_back({{"file", file.name},
                                {"format", std::string(to_string(file.format))},
                                {"lines", file.lines}});
        doc.fact("log", escaped_text(file.name),
                 fmt::format("{}, {}", to_string(file.format), counted(file.lines, "line")));
    }
    json["lines"] = replay.lines();
    json["unread"] = replay.unread();
    json["late"] = replay.late();
    json["unread_lines"] = Json::array();
    doc.fact("unread", std::to_string(replay.unread()),
             replay.unread() == 0 ? "" : percent_text(replay.unread(), replay.lines()));
    if (replay.late() > 0) {
        const std::string window = window_text(replay);
        doc.fact("late", std::to_string(replay.late()),
                 is_of_recordings(replay)
                     ? fmt::format("requests that lasted longer than {}: left out", window)
                     : fmt::format("more than {} behind a line before them: left out", window));
        json["first_late"] = {{"at", time_text(replay.first_late().at)},
                              {"behind", time_text(replay.first_late().behind)}};
    }
    if (are_too_many(replay.unread(), replay) || are_too_many(replay.late(), replay)) {
        doc.exit_code = 1;
    }
}

// Counts without so many lines would mislead.
void explain_late(const Replay& replay, Doc& doc) {
    if (!are_too_many(replay.late(), replay)) return;
    doc.line("");
    if (is_of_recordings(replay)) {
        return doc.line(
            fmt::format("more than 1% of the requests lasted longer than {} and are left out, so "
                        "the counts are too low: write a longer --late",
                        window_text(replay)));
    }
    doc.line(fmt::format(
        "more than 1% of the lines are late, so the counts are too low. The first is of {}, behind "
        "one of {}: several logs in one stream must come oldest first, and for requests that last "
        "longer than {} write a longer --late",
        time_text(replay.first_late().at), time_text(replay.first_late().behind),
        window_text(replay)));
}

void add_unread_lines(const Replay& replay, Doc& doc) {
    for (const UnreadLine& line : replay.unread_lines()) {
        doc.json["unread_lines"].push_back({{"file", line.file},
                                            {"line", line.number},
                                            {"why", line.why},
                                            {"text", displayable(line.text)}});
        doc.line(fmt::format("{}:{}: {}: {}", escaped_text(line.file), line.number, line.why,
                             escaped_text(line.text)));
    }
}

void add_comparison(const Comparison& comparison, Doc& doc) {
    Doc::Json& json = doc.json;
    json["both"] = comparison.both();
    json["neither"] = comparison.neither();
    json["only_live"] = comparison.only_live();
    json["only_candidate"] = comparison.only_candidate();
    json["changed_clients"] = comparison.clients();
    json["changed"] = Json::array();
    doc.line("");
    doc.line("compared with the candidate");
    doc.fact("limited by both", std::to_string(comparison.both()));
    doc.fact("by neither", std::to_string(comparison.neither()));
    doc.fact("only now", std::to_string(comparison.only_live()));
    doc.fact("only by the candidate", std::to_string(comparison.only_candidate()));
    doc.fact("clients that change sides", std::to_string(comparison.clients()));
    static constexpr Doc::Column kColumns[] = {
        {"only now", 0, true}, {"only candidate", 0, true}, {"identifier", 0, false}};
    std::vector<Doc::Row> rows;
    for (const SideChange& one : comparison.most_changed(kMostLimited)) {
        json["changed"].push_back({{"identifier", one.identifier},
                                   {"only_live", one.only_live},
                                   {"only_candidate", one.only_candidate}});
        rows.push_back({std::to_string(one.only_live), std::to_string(one.only_candidate),
                        escaped_text(one.identifier)});
    }
    if (!rows.empty()) doc.table(kColumns, rows, "  ");
}

}  // namespace

Result<std::int64_t, std::string> parse_share(std::string_view text) {
    constexpr int kDigits = 4;
    constexpr std::int64_t kWhole = kMillion;
    const bool has_sign = text.ends_with('%');
    const auto number = parse_fixed(has_sign ? text.substr(0, text.size() - 1) : text, kDigits);
    if (!has_sign || !number || *number > kWhole) {
        return ErrorMessage{quote(text) + " is no share such as `0.1%`, from 0% to 100%"};
    }
    return *number;
}

std::optional<Suggestion> suggest(const std::vector<std::int64_t>& peaks, std::int64_t share) {
    if (peaks.empty()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(peaks.size());
    const std::int64_t may_be_limited = std::min(count - 1, count * share / kMillion);
    Suggestion found;
    found.quota = peaks[static_cast<std::size_t>(count - 1 - may_be_limited)];
    const auto above = std::upper_bound(peaks.begin(), peaks.end(), found.quota);
    found.clients = static_cast<std::uint64_t>(peaks.end() - above);
    return found;
}

Doc report(const Replay& replay, const Simulation& simulation, const Simulation* candidate,
           const Comparison* comparison, const ReportOptions& options) {
    Doc doc;
    add_lines(replay, doc);
    if (simulation.first().count() > 0) {
        doc.json["from"] = time_text(simulation.first());
        doc.json["to"] = time_text(simulation.last());
        doc.fact("from", time_text(simulation.first()));
        doc.fact("to", time_text(simulation.last()));
    }
    const std::uint64_t empty = simulation.count_of(Verdict::none);
    doc.json["no_request"] = empty;
    if (empty > 0) {
        doc.fact("no request", std::to_string(empty),
                 "lines about connections without a request that a server could read");
    }
    add_figures(simulation, options, doc.json, doc);
    if (candidate != nullptr && comparison != nullptr) {
        add_comparison(*comparison, doc);
        doc.line("");
        doc.line("the candidate");
        doc.json["candidate"] = Json::object();
        add_figures(*candidate, options, doc.json["candidate"], doc);
    }
    if (!replay.unread_lines().empty()) {
        doc.line("");
        doc.line(are_too_many(replay.unread(), replay) ? "more than 1% of the lines were not read"
                                                       : "lines that were not read");
        add_unread_lines(replay, doc);
    }
    explain_late(replay, doc);
    return doc;
}

void Comparison::add(const Simulation::Decided& live, const Simulation::Decided& candidate) {
    using Verdict = Simulation::Verdict;
    if (live.verdict == Verdict::none || live.verdict == Verdict::elsewhere) return;
    const bool by_live = live.verdict == Verdict::limited;
    const bool by_candidate = candidate.verdict == Verdict::limited;
    if (by_live == by_candidate) {
        ++(by_live ? both_ : neither_);
        return;
    }
    ++(by_live ? only_live_ : only_candidate_);
    const std::string name((by_live ? live : candidate).limited_identifier);
    auto found = changes_.find(name);
    if (found == changes_.end()) {
        if (changes_.size() >= clients_max_) return;
        found = changes_.emplace(name, Counts{}).first;
    }
    ++(by_live ? found->second.only_live : found->second.only_candidate);
}

std::vector<SideChange> Comparison::most_changed(std::size_t count) const {
    std::vector<SideChange> all;
    for (const auto& [name, counts] : changes_) {
        all.push_back({name, counts.only_live, counts.only_candidate});
    }
    const auto before = [](const SideChange& a, const SideChange& b) {
        const std::uint64_t of_a = a.only_live + a.only_candidate;
        const std::uint64_t of_b = b.only_live + b.only_candidate;
        return of_a != of_b ? of_a > of_b : a.identifier < b.identifier;
    };
    const std::size_t kept = std::min(count, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                      before);
    all.resize(kept);
    return all;
}

}  // namespace tidegate::simulate

#include "config/read_limit_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.hpp"
#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "base/units.hpp"
#include "config/file_text.hpp"
#include "config/files_read.hpp"
#include "config/header_field.hpp"
#include "config/section.hpp"
#include "config/suggest.hpp"
#include "http/grpc.hpp"
#include "limit/time_zone.hpp"

namespace tidegate::config {

namespace {

using limit::Algorithm;
using limit::Anchor;
using limit::Count;
using limit::LimitSpec;
using limit::Micros;

constexpr int kMicroDigits = 6;
constexpr Micros kDay = std::chrono::hours{24};
constexpr std::string_view kSpellings =
    "a rate such as `10/s`, a list `[seconds, quota, precision]` or a map "
    "`{quota: 10, per: 1s}`";

std::optional<Micros> read_seconds(const Value& value) {
    constexpr std::string_view kWanted = "a number of seconds such as `60` or `0.5`";
    const auto text = value.text(kWanted);
    if (!text) return std::nullopt;
    const auto micros = parse_fixed(*text, kMicroDigits);
    if (!micros) {
        value.fault(quote(*text) + " is not " + std::string(kWanted));
        return std::nullopt;
    }
    return Micros{*micros};
}

std::optional<std::int64_t> read_quota(const Value& value) {
    return value.integer({0, limit::kQuotaMax});
}

// Unlike Value::duration(), to the microsecond; make_limit() checks the bounds.
std::optional<Micros> read_time(const Value& value) {
    return value.parsed("a duration such as `1s`, `15min` or `1h`", parse_duration);
}

std::optional<Micros> read_per(const Value& value) {
    constexpr std::string_view kWanted = "a duration such as `1s`, `15min` or `1h`";
    const auto text = value.text(kWanted);
    if (!text) return std::nullopt;
    if (!is_month(*text)) return read_time(value);
    value.fault(
        "months differ in length: remove `per`, and write `algorithm: fixed_window` and "
        "`anchor: utc_month`");
    return std::nullopt;
}

std::optional<LimitSpec> read_rate(const Value& value) {
    const auto rate = value.parsed(kSpellings, parse_rate);
    if (!rate) return std::nullopt;
    LimitSpec spec;
    spec.quota = rate->quota;
    spec.duration = rate->per;
    return spec;
}

// Lists like `[60, 10]` are usually meant as windows that begin anew: precision = duration.
std::optional<LimitSpec> read_list(const Value& value) {
    const auto items = value.items({kSpellings});
    if (items.size() != 2 && items.size() != 3) {
        value.fault("a list is `[seconds, quota]` or `[seconds, quota, precision]`");
        return std::nullopt;
    }
    const auto seconds = read_seconds(items[0]);
    const auto quota = read_quota(items[1]);
    const auto precision = items.size() == 3 ? read_seconds(items[2]) : seconds;
    if (!seconds || !quota || !precision) return std::nullopt;
    LimitSpec spec;
    spec.quota = *quota;
    spec.duration = *seconds;
    spec.precision = *precision;
    return spec;
}

// Of an answer: `401`, or of one of gRPC `grpc:16`.
std::optional<std::uint16_t> read_status(const Value& value) {
    constexpr std::string_view kGrpc = "grpc:";
    const auto text = value.text("a status such as `401`, or `grpc:16`");
    if (!text) return std::nullopt;
    if (!text->starts_with("grpc")) {
        const auto status = value.integer({200, 599});
        if (!status) return std::nullopt;
        return static_cast<std::uint16_t>(*status);
    }
    std::optional<std::uint16_t> number;
    if (text->starts_with(kGrpc) && text->size() <= kGrpc.size() + 2) {
        number = parse_number<std::uint16_t>(std::string_view(*text).substr(kGrpc.size()));
    }
    if (!number || *number > http::kGrpcStatusMax) {
        value.fault(quote(*text) + " is no status of gRPC: write `grpc:0` to `grpc:16`");
        return std::nullopt;
    }
    return static_cast<std::uint16_t>(limit::kGrpcStatuses + *number);
}

// `all`, `admitted` or a list of statuses.
void read_count(const Value& value, LimitSpec& spec) {
    if (!value.is_sequence()) {
        const auto count =
            value.text("`admitted`, `all` or a list of statuses such as `[401, 403]`");
        if (!count) return;
        if (*count == "all") {
            spec.count = Count::all;
        } else if (*count != "admitted") {
            value.fault(
                "unknown value " + quote(*count) +
                "; allowed here: `admitted`, `all` or a list of statuses such as `[401, 403]`");
        }
        return;
    }
    constexpr ListRule kStatuses{"a list of statuses", "statuses", 64};
    spec.count = Count::by_status;
    for (const Value& item : value.items(kStatuses)) {
        const auto status = read_status(item);
        if (status) add_once(item, limit::status_text(*status), *status, spec.statuses);
    }
}

// `{header: X-Send-At}` or `{query: at}`.
std::optional<MomentSource> read_moment(const Value& value) {
    constexpr std::string_view kWanted = "`{header: x-send-at}` or `{query: at}`";
    Section section(value, kWanted);
    const auto header = section.find("header");
    const auto query = section.find("query");
    section.refuse_others();
    if (!value.is_map()) return std::nullopt;
    if (header.has_value() == query.has_value()) {
        value.fault("write one of them: " + std::string(kWanted));
        return std::nullopt;
    }
    if (header) {
        auto name = read_field_name(*header);
        if (!name) return std::nullopt;
        return MomentSource{MomentSource::In::header, std::move(*name)};
    }
    auto name = query->identifier();
    if (!name) return std::nullopt;
    return MomentSource{MomentSource::In::query, std::move(*name)};
}

// The settings that only schedules have, and must have.
void read_schedule(Section& section, LimitSpec& spec, std::optional<MomentSource>& moment) {
    section.choice<bool>("window", spec.utc_day, {{"sliding", false}, {"utc_day", true}});
    if (const auto horizon = section.find("horizon")) spec.horizon = read_time(*horizon);
    section.choice<bool>("past", spec.forward_past, {{"now", false}, {"forward", true}});
    const auto at = section.find("at");
    if (at) moment = read_moment(*at);
    const bool schedules = limit::traits_of(spec.algorithm).has(limit::kMoment);
    if (at && !schedules)
        at->fault("only `schedule` has `at`: remove it, or write `algorithm: schedule`");
    if (!at && schedules) {
        section.value().fault(
            "the key `at` is missing: write where a request states its moment, `at: {header: "
            "x-send-at}`");
    }
}

// Files beside the zones that name none of a place. What to write instead; empty: it is no such
// file.
std::string why_no_zone(std::string_view name) {
    for (const std::string_view copies : {"posix/", "right/"}) {
        if (!name.starts_with(copies)) continue;
        const std::string_view rest = name.substr(copies.size());
        std::string why = why_no_zone(rest);
        if (!why.empty()) return why;
        return "leave out " + quote(copies) + ": write " + quote(rest);
    }
    if (name == "localtime") {
        return "`localtime` is the zone of the machine, and each may have another: write the name "
               "of the zone that is meant, such as `Europe/Berlin`";
    }
    if (name == "posixrules" || name == "Factory") {
        return quote(name) +
               " is no zone of a place: write a name of the tz database such as `Europe/Berlin`";
    }
    return {};
}

// The zones below `folder`, for a suggestion. There are some 600; of others that do not fit into
// the bound, none is suggested.
std::vector<std::string> time_zones_in(const std::string& folder) {
    constexpr std::size_t kLookedAtMost = 5'000;
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    std::error_code ec;
    fs::recursive_directory_iterator file(folder, ec);
    for (std::size_t looked_at = 0; !ec && file != fs::end(file) && looked_at < kLookedAtMost;
         file.increment(ec), ++looked_at) {
        const std::string name = file->path().lexically_relative(folder).string();
        if (name == "right" || name == "posix") file.disable_recursion_pending();
        if (limit::is_time_zone_name(name) && why_no_zone(name).empty() &&
            file->is_regular_file(ec)) {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

// `Europe/Berlin` for `Europe/Berln`, `europe/berlin` and `Berlin`; empty: none is near.
std::string meant_time_zone(const std::string& name, const std::string& folder) {
    const std::vector<std::string> names = time_zones_in(folder);
    const std::string lower = to_lower(name);
    const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& one) {
        const std::string known = to_lower(one);
        return known == lower || known.ends_with('/' + lower);
    });
    if (same != names.end()) return *same;
    const std::string_view near = nearest(name, {names.begin(), names.end()});
    // A continent is the beginning of many names, none of which is nearer than the others.
    return name.size() + 3 < near.size() ? std::string() : std::string(near);
}

// Reads the zone's file: of the folder that TZDIR names, as the C library does, or the system's.
void read_time_zone(const Value& value, LimitSpec& spec) {
    const auto name = value.text("the name of a time zone such as `Europe/Berlin`");
    if (!name) return;
    spec.time_zone = *name;
    if (const std::string why = why_no_zone(*name); !why.empty()) {
        value.fault(why);
        return;
    }
    Context& context = value.context();
    std::string folder = context.environment("TZDIR").value_or("");
    if (folder.empty()) folder = "/usr/share/zoneinfo";
    std::error_code ec;
    if (!std::filesystem::is_directory(folder, ec)) {
        value.fault(
            "there are no time zones: install the package `tzdata`, which makes the folder " +
            quote(folder));
        return;
    }
    const std::string path = folder + '/' + *name;
    const bool may_be_one =
        limit::is_time_zone_name(*name) && std::filesystem::is_regular_file(path, ec);
    if (!may_be_one) {
        const std::string meant = meant_time_zone(*name, folder);
        value.fault("the system has no time zone " + quote(*name) +
                    (meant.empty() ? ": write a name of the tz database such as `Europe/Berlin`"
                                   : "; did you mean " + quote(meant) + "?"));
        return;
    }
    const auto file = read_file_text(path, limit::kTimeZoneBytesMax, FileKind::no_device);
    note_file(path, file ? std::optional<std::string_view>(file->text) : std::nullopt,
              context.files_read);
    if (!file) {
        value.fault("the file " + quote(path) + " cannot be read: " + file.error());
        return;
    }
    auto zone = limit::TimeZone::parse(file->text);
    if (!zone) {
        value.fault("the file " + quote(path) + ' ' + zone.error());
        return;
    }
    spec.zone = std::make_shared<const limit::TimeZone>(std::move(*zone));
}

// The duration of all algorithms but concurrency, and but windows whose anchor says how long they
// are. For the day of UTC it need not be written.
void read_duration(Section& section, LimitSpec& spec) {
    const auto per = section.find("per");
    if (limit::has_period(spec.anchor)) {
        if (per)
            per->fault("remove `per`: the anchor " + quote(limit::name_of(spec.anchor)) +
                       " says how long a window is");
        return;
    }
    if (!limit::traits_of(spec.algorithm).has(limit::kPer)) {
        if (per)
            per->fault(
                "remove `per`: a concurrency limit counts requests in flight, not requests in a "
                "time");
        return;
    }
    if (spec.utc_day) spec.duration = kDay;
    if (per) {
        spec.duration = read_per(*per).value_or(Micros{0});
        if (spec.utc_day && spec.duration != kDay) {
            per->fault("with `window: utc_day`, write `1day` or remove `per`");
        }
    } else if (!spec.utc_day) {
        section.need("per", "`per: 1s`");
    }
}

std::vector<std::pair<std::string_view, Algorithm>> algorithm_names() {
    std::vector<std::pair<std::string_view, Algorithm>> names;
    for (std::size_t i = 0; i < limit::kAlgorithms.size(); ++i) {
        const limit::AlgorithmTraits& traits = limit::kAlgorithms[i];
        names.emplace_back(traits.name, Algorithm{static_cast<std::uint8_t>(i)});
        if (!traits.synonym.empty()) names.emplace_back(traits.synonym, names.back().second);
    }
    return names;
}

std::vector<std::pair<std::string_view, Anchor>> anchor_names() {
    std::vector<std::pair<std::string_view, Anchor>> names;
    for (const Anchor anchor :
         {Anchor::clock, Anchor::first_request, Anchor::utc_day, Anchor::utc_week,
          Anchor::utc_month, Anchor::day, Anchor::week, Anchor::month}) {
        names.emplace_back(limit::name_of(anchor), anchor);
    }
    return names;
}

std::optional<LimitSpec> read_map(const Value& value, std::optional<MomentSource>& moment) {
    const std::size_t faults_before = value.context().faults.size();
    LimitSpec spec;
    Section section(value);
    if (const auto name = section.find("name")) spec.name = name->identifier().value_or("");
    if (const auto quota = section.need("quota", "`quota: 10`")) {
        spec.quota = read_quota(*quota).value_or(0);
    }
    section.choice<Algorithm>("algorithm", spec.algorithm, algorithm_names());
    section.choice<Anchor>("anchor", spec.anchor, anchor_names());
    if (const auto zone = section.find("time_zone")) read_time_zone(*zone, spec);
    read_schedule(section, spec, moment);
    read_duration(section, spec);
    if (const auto precision = section.find("precision")) spec.precision = read_time(*precision);
    section.toggle("strict", spec.strict);
    if (const auto burst = section.find("burst"))
        spec.burst = burst->integer({1, limit::kQuotaMax});
    if (const auto delay = section.find("max_delay")) spec.max_delay = read_time(*delay);
    if (const auto count = section.find("count")) read_count(*count, spec);
    section.refuse_others();
    if (value.context().faults.size() != faults_before) return std::nullopt;
    return spec;
}

}  // namespace

std::optional<LimitSpec> read_limit_spec(const Value& value, std::optional<MomentSource>& moment) {
    if (value.is_map()) return read_map(value, moment);
    if (value.is_sequence()) return read_list(value);
    return read_rate(value);
}

}  // namespace tidegate::config

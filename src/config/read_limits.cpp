// `limits`: one limit, and lists of them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/claimed_quotas.hpp"
#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "http/grpc.hpp"
#include "identity/identifier.hpp"
#include "limit/limit.hpp"

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

constexpr std::int64_t kDollarsMax = 1'000'000'000;
constexpr std::int64_t kMillionths = 1'000'000;

std::optional<std::int64_t> read_quota(const Value& value, bool in_money = false) {
    return in_money ? read_dollars(value, kDollarsMax) : value.integer({0, limit::kQuotaMax});
}

constexpr std::string_view kNoMoney =
    "remove `unit: usd`: only limits of policies with `cost: {unit: usd}` have it";

constexpr std::string_view kNoClaims =
    "write the quota as a number: only limits of `policies` take it from a claim";

// What the policy of a limit has to know of it.
struct LimitNotes {
    std::optional<MomentSource> moment;   // of its `at`
    bool in_money = false;                // `unit: usd`
    std::optional<ClaimedQuota> claimed;  // of a `quota` that is a map; without its spec
};

constexpr std::string_view kDuration = "a duration such as `1s`, `15min` or `1h`";

// Unlike Value::duration(), to the microsecond; make_limit() checks the bounds.
std::optional<Micros> read_time(const Value& value) {
    return value.parsed(kDuration, parse_duration);
}

std::optional<Micros> read_per(const Value& value) {
    const auto text = value.text(kDuration);
    if (!text) return std::nullopt;
    if (is_month(*text)) {
        value.fault("months differ in length: write `anchor: utc_month` in place of `per`");
    } else if (text->starts_with("utc_")) {
        value.fault(quote(*text) + " says where windows begin: write " + quote("anchor: " + *text) +
                    " in place of `per`");
    } else {
        return read_time(value);
    }
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

const Rows& moment_keys() {
    static const auto keys =
        Rows("`{header: x-send-at}` or `{query: at}`")
            .key("header", kind::type("field_name"), {"the field that states the moment"})
            .key("query", kind::type("name"), {"the query parameter that states the moment"})
            .one_of_them();
    return keys;
}

std::optional<MomentSource> read_moment(const Value& value) {
    Section section(value, moment_keys());
    const auto header = section.find("header");
    const auto query = section.find("query");
    section.refuse_others();
    if (!value.is_map()) return std::nullopt;
    if (header.has_value() == query.has_value()) {
        value.fault("write one of them: " + std::string(moment_keys().wanted()));
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

// The setting that only schedules have, and must have.
void read_moment_of(Section& section, const LimitSpec& spec, std::optional<MomentSource>& moment) {
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

// The duration of all algorithms but concurrency, and but windows whose anchor says how long they
// are. For the day of UTC it need not be written.
void read_duration(Section& section, LimitSpec& spec) {
    const auto per = section.find("per");
    if (limit::has_period(spec.anchor)) {
        if (per)
            per->fault("remove `per`: the anchor " + quote(to_string(spec.anchor)) +
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

// Each with its synonym, for the reference.
std::string_view algorithms_text() {
    static const std::string text = [] {
        std::string all;
        for (const limit::AlgorithmTraits& traits : limit::kAlgorithms) {
            if (!all.empty()) all += ", ";
            all += quote(traits.name);
            if (!traits.synonym.empty()) all += " (" + quote(traits.synonym) + ")";
        }
        return all;
    }();
    return text;
}

std::vector<std::pair<std::string_view, Anchor>> anchor_names() {
    std::vector<std::pair<std::string_view, Anchor>> names;
    for (const Anchor anchor :
         {Anchor::clock, Anchor::first_request, Anchor::utc_day, Anchor::utc_week,
          Anchor::utc_month, Anchor::day, Anchor::week, Anchor::month}) {
        names.emplace_back(to_string(anchor), anchor);
    }
    return names;
}

// The reader of a time.
auto time_of(std::optional<Micros> LimitSpec::*member) {
    return [member](const Value& time, LimitSpec& spec) { spec.*member = read_time(time); };
}

// Of units, or of dollars.
KeyKind quota_kind(std::int64_t min) {
    KeyKind out = kind::written(
        R"({"anyOf":[{"type":"number","minimum":0,"maximum":4294967295},{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?$|\\$\\{"}]})");
    out.takes = {std::to_string(min), std::to_string(limit::kQuotaMax)};
    out.refuses = {std::to_string(min - 1), std::to_string(limit::kQuotaMax + 1), "many"};
    return out;
}

const Rows& claimed_quota_keys() {
    static const auto keys =
        Rows("a number, or a map: `{claim: rpm, default: 60, max: 10000}`")
            .key("claim", kind::type("text"),
                 {"the claim of the user's token that states the quota, named as in the key "
                  "`claim:NAME`",
                  "required"})
            .required("`claim: rpm`")
            .key("default", quota_kind(0),
                 {"the quota where no token states a whole number there", "required",
                  "as of `quota`"})
            .required("`default: 60`")
            .key("max", quota_kind(0),
                 {"the quota where a token states more", "as much as the algorithm counts",
                  "as of `quota`, at least `default`"});
    return keys;
}

// What `quota` may be.
KeyKind quota_or_claim_kind() {
    KeyKind out = kind::any({quota_kind(0), kind::map(claimed_quota_keys())});
    out.takes = quota_kind(0).takes;
    out.refuses = quota_kind(0).refuses;
    return out;
}

const Keys<LimitSpec>& limit_keys() {
    static const auto keys =
        Keys<LimitSpec>("a map", "limit")
            .own("name", kind::type("name"),
                 [](const Value& name, LimitSpec& spec) {
                     spec.name = name.identifier().value_or("");
                 },
                 {"in fields, metrics and logs, after the policy's name: [one "
                  "name](#names-of-limits)",
                  "its window and kind: `1s`, `1h-fixed`, `1s-gcra`, `concurrency`: [all of "
                  "them](#names-of-limits)"})
            .key("quota", quota_or_claim_kind(),
                 {"units, or `{claim, default, max}`: as many as [the user's token "
                  "states](#quotas-in-tokens)",
                  "required",
                  "0 to 4,294,967,295; of `sliding_log` 1,000, `schedule` 2,000, `concurrency` "
                  "100,000; of `unit: usd` 0 to 1,000,000,000 with six decimals, with `gcra` and "
                  "`leaky_bucket` to 4,294"})
            .required("`quota: 10`")
            .key("unit", kind::word({"usd"}),
                 {"`usd`: the quota and the burst are dollars; in a policy with `cost: {unit: "
                  "usd}`",
                  "units"})
            .word<Algorithm>("algorithm", &LimitSpec::algorithm, algorithm_names(),
                             {algorithms_text()})
            .word<Anchor>("anchor", &LimitSpec::anchor, anchor_names(),
                          {"where windows begin: `clock`, `first_request`, or with the calendar, "
                           "`utc_day`, `utc_week`, `utc_month`, and with `time_zone` `day`, "
                           "`week`, `month` (`fixed_window`, which the calendar implies)"})
            .own("time_zone", kind::type("text"), read_time_zone,
                 {"whose day, week or month it is: a name of the tz database such as "
                  "[`Europe/Berlin`](limits.md#days-of-a-time-zone)",
                  "required for these anchors"})
            .word<bool>("window", &LimitSpec::utc_day, {{"sliding", false}, {"utc_day", true}},
                        {"`sliding` or `utc_day` (`schedule`)"})
            .own("horizon", kind::type("duration"), time_of(&LimitSpec::horizon),
                 {"how far ahead a moment may be (`schedule`)", "`31day`", "0 to ten years"})
            .word<bool>("past", &LimitSpec::forward_past, {{"now", false}, {"forward", true}},
                        {"count what is past as `now`, or `forward` it uncounted (`schedule`)"})
            .key("at", kind::map(moment_keys()),
                 {"`{header: NAME}` or `{query: NAME}`: the moment (`schedule`)", "required"})
            .key("per", kind::type("duration"),
                 {"in which time; not for `concurrency` and calendar anchors", "required",
                  "1 ms to ten years"})
            .own("precision", kind::type("duration"), time_of(&LimitSpec::precision),
                 {"width of a sub-bucket (`sliding_window`)", "about 1/60 of `per`",
                  "at most 1,000 sub-buckets"})
            .toggle("strict", &LimitSpec::strict,
                    {"[one sub-bucket more](limits.md#sliding_window) (`sliding_window`)"})
            .key("burst", quota_kind(1),
                 {"units at once (`gcra`, `leaky_bucket`)", "the quota",
                  "1 to 4,294,967,295; of `unit: usd` to 4,294 with six decimals"})
            .own("max_delay", kind::type("duration"), time_of(&LimitSpec::max_delay),
                 {"how long a request may be held (`leaky_bucket`)", "`5min`", "0 to 5 min"})
            .own("count",
                 kind::any(
                     {kind::fixed({"admitted", "all"}),
                      kind::list(
                          kind::any(
                              {kind::written(R"({"type":"integer","minimum":200,"maximum":599})"),
                               kind::type("number_text"),
                               kind::written(R"({"type":"string","pattern":"^grpc:[0-9]+$"})")}),
                          {0, 64}),
                      kind::type("variable")}),
                 read_count,
                 {"`admitted`, `all`, or statuses such as `[401, 403]` or `[\"grpc:16\"]`: [what "
                  "counts](limits.md#what-counts)",
                  "`admitted`", "statuses 200 to 599 and `grpc:0` to `grpc:16`, at most 64"});
    return keys;
}

// The default is the quota of the limit; the largest is judged once the algorithm is known.
void read_claimed_quota(const Value& value, LimitNotes& notes, LimitSpec& spec) {
    ClaimedQuota& claimed = notes.claimed.emplace();
    claimed.in_money = notes.in_money;
    claimed.max = -1;
    Section section(value, claimed_quota_keys());
    if (const auto claim = section.need("claim")) {
        const auto name = claim->parsed(
            "the name of a claim such as `rpm`",
            [](std::string_view written) { return identity::parse_claim_name(written); });
        claimed.name = name.value_or("");
        if (name) warn_about_claim_name(*claim, *name);
    }
    if (const auto quota = section.need("default")) {
        spec.quota = read_quota(*quota, notes.in_money).value_or(0);
    }
    if (const auto max = section.find("max")) {
        claimed.max = read_quota(*max, notes.in_money).value_or(-1);
        if (claimed.max >= 0 && claimed.max < spec.quota) {
            max->fault("is less than `default`: write at least that");
        }
    }
    section.refuse_others();
}

// The unit comes first, as amounts are written in it.
void read_amounts(Section& section, LimitNotes& notes, LimitSpec& spec) {
    const auto unit = section.find("unit");
    if (unit) notes.in_money = unit->choice<bool>({{"usd", true}}).value_or(false);
    spec.in_money = notes.in_money;
    if (const auto quota = section.need("quota")) {
        if (quota->is_map()) {
            read_claimed_quota(*quota, notes, spec);
        } else {
            spec.quota = read_quota(*quota, notes.in_money).value_or(0);
        }
    }
    const auto burst = section.find("burst");
    if (!burst) return;
    spec.burst = notes.in_money ? read_quota(*burst, true) : burst->integer({1, limit::kQuotaMax});
}

std::optional<LimitSpec> read_map(const Value& value, LimitNotes& notes) {
    const std::size_t faults_before = value.context().faults.size();
    LimitSpec spec;
    Section section(value, limit_keys());
    read_amounts(section, notes, spec);
    limit_keys().read(section, spec);
    // No other algorithm has windows with the calendar.
    if (limit::has_period(spec.anchor) && !section.find("algorithm")) {
        spec.algorithm = Algorithm::fixed_window;
    }
    read_moment_of(section, spec, notes.moment);
    read_duration(section, spec);
    if (value.context().faults.size() != faults_before) return std::nullopt;
    return spec;
}

// A list of a window in seconds.
constexpr const char* kListSchema =
    R"({"type":"array","prefixItems":[{"anyOf":[{"type":"number","exclusiveMinimum":0},{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?$|\\$\\{"}]},{"anyOf":[{"type":"integer","minimum":0,"maximum":4294967295},{"$ref":"#/$defs/number_text"}]},{"anyOf":[{"type":"number","exclusiveMinimum":0},{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?$|\\$\\{"}]}],"items":false,"minItems":2,"maxItems":3})";

KeyKind limit_kind() {
    return kind::any({kind::type("rate"), kind::written(kListSchema), kind::map(limit_keys())});
}

}  // namespace

KeyKind limits_kind() {
    return kind::list(limit_kind(), {1, limit::kLimitsMax});
}

KeyKind single_or_limits_kind() {
    return kind::any({limit_kind(), limits_kind()});
}

namespace {

// A rate, a list `[seconds, quota, precision]` or a map. Nothing: it has a fault, which is
// reported; limit::make_limit() may find more.
std::optional<LimitSpec> read_limit_spec(const Value& value, LimitNotes& notes) {
    if (value.is_map()) return read_map(value, notes);
    if (value.is_sequence()) return read_list(value);
    return read_rate(value);
}

// The lists of limits: of policies, of failed credentials and of preflights.

using limit::kLimitsMax;

constexpr std::uint16_t kUnauthorized = 401;  // the status of a wrong credential

std::optional<limit::Limit> made_of(const Value& value, const LimitSpec& spec) {
    auto made = limit::make_limit(spec);
    if (!made) {
        const limit::LimitFault& fault = made.error();
        const auto key = value.is_map() ? Section(value).find(fault.key) : std::nullopt;
        key.value_or(value).fault(fault.what);
        return std::nullopt;
    }
    return std::move(*made);
}

// `spec`: of the default.
void check_largest(const Value& value, const LimitSpec& spec, ClaimedQuota& claimed) {
    claimed.spec = spec;
    if (claimed.max < 0) {
        const std::int64_t most = limit::traits_of(spec.algorithm).quota_max;
        claimed.max = claimed.in_money ? kDollarsMax * kMillionths : most;
        return;
    }
    LimitSpec largest = spec;
    largest.quota = claimed.max;
    if (const auto made = limit::make_limit(largest); !made) {
        Section(value).find("quota")->fault("its `max`: " + made.error().what);
    }
}

// One item of `limits`: a rate, a list `[seconds, quota, precision]` or a map.
std::optional<limit::Limit> read_limit(const Value& value, LimitNotes& notes) {
    const std::optional<LimitSpec> spec = read_limit_spec(value, notes);
    if (!spec) return std::nullopt;
    std::optional<limit::Limit> made = made_of(value, *spec);
    if (notes.claimed) {
        if (made) check_largest(value, *spec, *notes.claimed);
    } else if (made && made->quota == 0) {
        value.warn("a quota of 0 denies every request");
    }
    return made;
}

bool report_notes(const Value& value, const LimitNotes& notes) {
    if (notes.in_money) value.fault(std::string(kNoMoney));
    if (notes.claimed) value.fault(std::string(kNoClaims));
    return notes.in_money || notes.claimed;
}

// The same where only failures count.
std::optional<limit::Limit> read_failure_limit(const Value& value) {
    LimitNotes notes;
    std::optional<LimitSpec> spec = read_limit_spec(value, notes);
    if (!spec || report_notes(value, notes)) return std::nullopt;
    if (!limit::traits_of(spec->algorithm).has(limit::kCount)) {
        value.fault("choose " + limit::algorithms_with(limit::kCount, "or") +
                    ": other algorithms cannot count failures");
        return std::nullopt;
    }
    if (spec->count != Count::admitted) {
        value.fault("remove `count`: this limit counts failures");
        return std::nullopt;
    }
    if (spec->quota == 0) {
        value.fault("a quota of 0 refuses every credential, valid ones too: write at least 1");
        return std::nullopt;
    }
    spec->count = Count::by_status;
    spec->statuses = {kUnauthorized};
    return made_of(value, *spec);
}

// The limits of a list, and where each is written.
struct DistinctLimits {
    std::vector<limit::Limit> limits;
    std::vector<std::string> places;
};

void add_limit(const Value& value, limit::Limit&& made, DistinctLimits& list) {
    const auto same = std::find_if(
        list.limits.begin(), list.limits.end(),
        [&](const limit::Limit& other) { return other.id == made.id || other.name == made.name; });
    if (same != list.limits.end()) {
        const auto text = value.is_scalar() ? value.text("") : std::nullopt;
        const auto place = list.places[static_cast<std::size_t>(same - list.limits.begin())];
        value.fault((text ? quote(*text) : "this limit") + " and " + place + " are both named " +
                    quote(made.name) + ": remove one, change its duration, or give it a `name`");
        return;
    }
    list.limits.push_back(std::move(made));
    list.places.push_back(value.name());
}

// The same for preflights.
std::optional<limit::Limit> read_preflight_limit(const Value& value) {
    LimitNotes notes;
    const std::optional<LimitSpec> spec = read_limit_spec(value, notes);
    if (!spec || report_notes(value, notes)) return std::nullopt;
    if (!limit::traits_of(spec->algorithm).has(limit::kCount)) {
        value.fault("choose " + limit::algorithms_with(limit::kCount, "or") +
                    ": other algorithms do not limit preflights");
        return std::nullopt;
    }
    if (spec->count == Count::by_status) {
        value.fault("remove `count`: every preflight counts, whatever the upstream answers");
        return std::nullopt;
    }
    if (spec->quota == 0) {
        value.fault("a quota of 0 refuses every preflight: write at least 1");
        return std::nullopt;
    }
    return made_of(value, *spec);
}

// The limits that `read` makes of the items of `value`; faulty ones are reported and left out.
std::vector<limit::Limit> read_each(const Value& value, const ListRule& rule,
                                    std::optional<limit::Limit> (*read)(const Value&)) {
    DistinctLimits list;
    for (const Value& item : value.one_or_more(rule)) {
        if (auto made = read(item)) add_limit(item, std::move(*made), list);
    }
    return std::move(list.limits);
}

}  // namespace

bool agree_on_moment(const Value& value, const std::optional<MomentSource>& other,
                     std::optional<MomentSource>& moment) {
    if (!other) return true;
    if (moment && *moment != *other) {
        const auto written = [](const MomentSource& source) {
            return (source.in == MomentSource::In::header ? "{header: " : "{query: ") +
                   source.name + "}";
        };
        value.fault("`at: " + written(*other) + "` here, but `at: " + written(*moment) +
                    "` before: all schedules that a request can meet must read the same moment");
        return false;
    }
    moment = other;
    return true;
}

Limits read_limits(const Value& value) {
    Limits out;
    if (report_flat_limits(value)) return out;
    constexpr ListRule kLimits{
        "a list of limits: `[10/s, 120/min]`", "limits", kLimitsMax,
        "the list is empty: remove it, or write `policies: []` on a route for no limit"};
    DistinctLimits list;
    for (const Value& item : value.items(kLimits)) {
        LimitNotes notes;
        auto made = read_limit(item, notes);
        if (!made || !agree_on_moment(item, notes.moment, out.moment)) continue;
        const std::size_t position = list.limits.size();
        add_limit(item, std::move(*made), list);
        if (notes.in_money) ++out.in_money;
        if (!notes.claimed) continue;
        notes.claimed->limit = position;
        out.claimed.push_back(std::move(*notes.claimed));
    }
    out.limits = std::move(list.limits);
    return out;
}

void report_notes(const Value& value, const Limits& limits) {
    if (limits.in_money > 0) value.fault(std::string(kNoMoney));
    if (!limits.claimed.empty()) value.fault(std::string(kNoClaims));
}

limit::Limit default_failure_limit() {
    LimitSpec spec;
    spec.quota = 60;
    spec.duration = std::chrono::minutes{1};
    spec.count = Count::by_status;
    spec.statuses = {kUnauthorized};
    return *limit::make_limit(spec);
}

std::vector<limit::Limit> read_failure_limits(const Value& value) {
    constexpr ListRule kLimits{"a rate such as `20/min`, or a list of limits", "limits", kLimitsMax,
                               "the list is empty: write `off`, or a limit such as `20/min`"};
    return read_each(value, kLimits, read_failure_limit);
}

limit::Limit default_preflight_limit() {
    LimitSpec spec;
    spec.quota = 50;
    spec.duration = std::chrono::seconds{1};
    return *limit::make_limit(spec);
}

std::vector<limit::Limit> read_preflight_limits(const Value& value) {
    constexpr ListRule kLimits{"a rate such as `50/s`, or a list of limits", "limits", kLimitsMax,
                               "the list is empty: write a limit such as `50/s`"};
    return read_each(value, kLimits, read_preflight_limit);
}

// A list of numbers where a list of limits must be.

namespace {

constexpr std::size_t kNumbersMin = 2;  // seconds and quota
constexpr std::size_t kNumbersMax = 3;  // and a precision

// `7/min` for a quota of 7 every 60 seconds.
std::string rate_text(std::int64_t quota, std::int64_t seconds) {
    constexpr std::pair<std::int64_t, std::string_view> kUnits[] = {
        {1, "s"}, {60, "min"}, {3'600, "h"}, {86'400, "day"}};
    for (const auto& [unit_seconds, unit] : kUnits) {
        if (seconds == unit_seconds) return std::to_string(quota) + "/" + std::string(unit);
    }
    return std::to_string(quota) + "/" + std::to_string(seconds) + "s";
}

}  // namespace

bool report_flat_limits(const Value& value) {
    if (!value.is_sequence()) return false;
    const auto items = value.items({});
    if (items.size() < kNumbersMin || items.size() > kNumbersMax) return false;
    std::vector<std::int64_t> numbers;
    std::string written;
    for (const Value& item : items) {
        const std::optional<std::int64_t> number = item.whole_number();
        if (!number) return false;
        written += (written.empty() ? "" : ", ") + std::to_string(*number);
        numbers.push_back(*number);
    }
    const std::string as_rate =
        numbers.size() == kNumbersMin ? ", or " + quote(rate_text(numbers[1], numbers[0])) : "";
    value.fault("found a list of numbers; did you mean " + quote("[[" + written + "]]") + as_rate +
                "?");
    return true;
}

}  // namespace tidegate::config

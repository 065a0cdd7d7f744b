#include "admin/api_paths.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "admin/top_denials_upstreams.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"

namespace tidegate::admin {

using namespace std::chrono_literals;

namespace {

// The work that makes an answer, awaited once the request is permitted.
template <class Ask>
AdminAnswer answer_by(Ask ask) {
    AdminAnswer answer;
    answer.work = std::move(ask);
    return answer;
}

// The values of a flag.
constexpr std::array<std::string_view, 2> kSwitch{"off", "on"};
constexpr std::array<std::string_view, 3> kTopKinds{"requests", "denials", "shadow"};

ActivityRequest::Kind top_kind(std::string_view by) {
    using Kind = ActivityRequest::Kind;
    if (by == kTopKinds[1]) return Kind::top_denials;
    return by == kTopKinds[2] ? Kind::top_shadow : Kind::top_requests;
}

// How far back `since` reaches, or a sentence that says what would be right.
Result<std::chrono::microseconds, std::string> read_since(std::string_view text) {
    constexpr std::chrono::microseconds kMin = 1s;
    constexpr std::chrono::microseconds kMax = std::chrono::hours{31 * 24};
    const auto since = parse_duration(text);
    if (!since) return fmt::format("`since`: {}.", since.error());
    if (*since < kMin || *since > kMax) {
        return fmt::format("`since` is {}: write a duration from 1s to 31d, such as `since=10m`.",
                           quote(text));
    }
    return *since;
}

// Either AdminSources::reload or rollback.
using Change = decltype(AdminSources::reload) AdminSources::*;

Task<AdminAnswer> make_change(const AdminSources& sources, Change change) {
    const ReloadReport report = co_await (sources.*change)();
    co_return answer_to_reload(report);
}

template <Change kChange>
AdminAnswer ask_change(const AdminSources& sources, const AdminRequest&, const AdminValues&) {
    return answer_by([&sources] { return make_change(sources, kChange); });
}

AdminAnswer ask_config(const AdminSources& sources, const AdminRequest& request,
                       const AdminValues&) {
    const auto format = asked_in_query(request.target, "format");
    if (!format) return format.error();
    if (*format != "text") return answer_to_config(sources.config());
    return answer_by([&sources, in_force = sources.config()] {
        return sources.apart([in_force] { return answer_to_config_in_yaml(in_force); });
    });
}

template <bool kReset>
AdminAnswer ask_counts(const AdminSources& sources, const AdminRequest&,
                       const AdminValues& values) {
    return answer_by([&sources, asked = CountsRequest{kReset, values.front()}] {
        return sources.counts(asked);
    });
}

AdminAnswer ask_upstreams(const AdminSources& sources, const AdminRequest&, const AdminValues&) {
    return answer_to_upstreams(sources.upstreams());
}

AdminAnswer ask_live(const AdminSources& sources, const AdminRequest& request, const AdminValues&) {
    return sources.live(request.target);
}

AdminAnswer ask_top(const AdminSources& sources, const AdminRequest&, const AdminValues& values) {
    const auto kind = top_kind(values.front());
    return answer_by([&sources, kind] { return sources.activity({.kind = kind}); });
}

enum DenialsParameter : std::uint8_t { kWhose, kByPolicy, kSince, kShadow, kOfCandidates };

AdminAnswer ask_denials(const AdminSources& sources, const AdminRequest&,
                        const AdminValues& values) {
    ActivityRequest asked;
    const bool in_shadow = values[kShadow] == kSwitch.back();
    const bool of_candidates = values[kOfCandidates] == kSwitch.back();
    if (in_shadow && of_candidates) {
        return problem(400, "`shadow` and `candidate` are two lists: ask for one of them.");
    }
    asked.kind = in_shadow       ? ActivityRequest::Kind::shadow_denials
                 : of_candidates ? ActivityRequest::Kind::candidate_denials
                                 : ActivityRequest::Kind::denials;
    asked.filter.identifier = values[kWhose];
    asked.filter.policy = values[kByPolicy];
    if (!values[kSince].empty()) {
        const auto since = read_since(values[kSince]);
        if (!since) return problem(400, since.error());
        asked.filter.since = *since;
    }
    return answer_by([&sources, asked = std::move(asked)] { return sources.activity(asked); });
}

constexpr std::int64_t kAllIdentifiers = 1'000'000;
enum RecordParameter : std::uint8_t { kPerMillion, kRecording, kStop };

AdminAnswer ask_record(const AdminSources& sources, const AdminRequest&,
                       const AdminValues& values) {
    RecordRequest asked;
    asked.id = values[kRecording];
    asked.stop = values[kStop] == kSwitch.back();
    if (asked.id.empty()) {
        const auto share = parse_decimal(values[kPerMillion]);
        if (!share || *share < 1 || *share > kAllIdentifiers) {
            return problem(400, fmt::format("`per_million` is {}: write how many of a million "
                                            "identifiers to record, from 1 to 1000000.",
                                            quote(values[kPerMillion])));
        }
        asked.share = *share;
    }
    return answer_by([&sources, asked = std::move(asked)] { return sources.record(asked); });
}

constexpr std::string_view kReloadFooter =
    R"(Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The exit
code is 0 when the new configuration is in force, 1 when the proxy refused it and
keeps the old one, 2 for wrong use and 3 when there is no answer.)";

constexpr std::string_view kRollbackFooter =
    R"(Puts the configuration in force again that was in force before the last reload
that changed something, once. It holds until the next reload; with `run --watch`,
until a file of the configuration changes. So mend the file before that.

Tidegate keeps the former configuration in memory, with users, keys and secrets as
they were read then. Certificates are read again. A process that has just started,
or has taken over from another, has none.

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The exit
code is 0 when the former configuration is in force, 1 when the proxy refused or
has none, 2 for wrong use and 3 when there is no answer.)";

constexpr std::string_view kConfigFooter =
    R"(Prints the configuration in force as YAML, files of `include` among it, with its
number and its hash. Variables and `file:` are as written, and secrets are `***`;
so replicas with the same files have the same hash. `tidegate check` prints the
hash of a file:

  tidegate config
  tidegate config --json

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The exit
code is 0, 2 for wrong use and 3 when there is no answer.)";

constexpr std::string_view kInspectFooter =
    R"(IDENTIFIER is as the access log has it, or an address alone:

  tidegate inspect user:alice
  tidegate inspect 203.0.113.7
  tidegate inspect '17:header:x-tenant=a+12:route:search'
  tidegate inspect descriptor:shop/path=%2Fcart/user=alice
  tidegate inspect --upstreams

The descriptor is one of Envoy's rate limit service, of the domain shop. In it, %2F
is a `/` that stands for itself.

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when something was counted, 1 when nothing was, 2 for wrong use
and 3 when there is no answer. With --upstreams it is 0 when every server is up,
and 1 when one is not.)";

constexpr std::string_view kResetFooter =
    R"(IDENTIFIER is as the access log has it, or an address alone:

  tidegate reset user:alice
  tidegate reset '17:header:x-tenant=a+12:route:search'
  tidegate reset descriptor:shop/path=%2Fcart/user=alice

Slots of requests in flight stay. Tidegate asks the running proxy on its admin
address. It takes the address and the token from the configuration, or with
--admin from the command line. The exit code is 0 when something was counted, 1
when nothing was, 2 for wrong use and 3 when there is no answer.)";

constexpr std::string_view kTopFooter =
    R"(Lists the identifiers that most requests of the last one to two minutes counted
for, or that were most often over a limit. `shadow` counts requests that no limit
refused, and that a policy in shadow would have refused:

  tidegate top
  tidegate top --by denials
  tidegate top --by shadow

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer.)";

constexpr std::string_view kDenialsFooter =
    R"(Lists the last requests that a limit has refused, oldest first: when, whose, by
which limit, and how much of it was taken. Of one identifier, each thread keeps
four a second. With --shadow it lists requests that no limit refused, and that a
policy in shadow would have refused; with --candidate, that a candidate would have.

  tidegate denials
  tidegate denials --identifier user:alice --since 10m
  tidegate denials --policy per-client --follow
  tidegate denials --shadow
  tidegate denials --candidate --policy per-client

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer. With --follow it is 0 after an interrupt. When the
proxy ends, --follow says so, tries again every second, and says when it is back.)";

constexpr std::string_view kAnswerAsJson = "Print the answer as it is, for programs";
constexpr std::string_view kPrintsJson = "Print JSON, for programs";

constexpr auto kIdentifier = std::to_array<AdminParameter>({{.name = "identifier",
                                                             .kind = AdminParameter::Kind::argument,
                                                             .what = "The identifier",
                                                             .value = "IDENTIFIER",
                                                             .when_empty = "write what is counted",
                                                             .example = "user:alice"}});
constexpr auto kTopParameters = std::to_array<AdminParameter>(
    {{.name = "by",
      .choices = kTopKinds,
      .what = "What is counted: requests (default), denials or shadow",
      .value = "WHAT"}});
// In the order of DenialsParameter.
constexpr auto kDenialsParameters = std::to_array<AdminParameter>({
    {.name = "identifier",
     .what = "Only of this identifier, written as for inspect",
     .value = "IDENTIFIER",
     .when_empty = "write what is counted",
     .example = "user:alice"},
    {.name = "policy",
     .what = "Only by limits of this policy",
     .value = "POLICY",
     .when_empty = "write the name of a policy",
     .example = "per-client"},
    {.name = "since",
     .what = "Only of the last 10m, 90s, 2h: 1s to 31d",
     .value = "DURATION",
     .when_empty = "write how far back",
     .example = "10m"},
    {.name = "shadow",
     .kind = AdminParameter::Kind::flag,
     .choices = kSwitch,
     .what = "What policies in shadow alone would have refused, instead"},
    {.name = "candidate",
     .kind = AdminParameter::Kind::flag,
     .choices = kSwitch,
     .what = "What candidates alone would have refused, instead"},
});

// In the order of RecordParameter.
constexpr auto kRecordParameters = std::to_array<AdminParameter>({
    {.name = "per_million"},
    {.name = "id"},
    {.name = "stop", .kind = AdminParameter::Kind::flag, .choices = kSwitch},
});

// More than the proxy takes for any answer (app/admin_services.hpp).
constexpr auto kInspectPatience = 30s;
// A little more than the proxy gives a reload.
constexpr auto kReloadPatience = 65s;

// In the order of `--help`.
constexpr auto kQuestions = std::to_array<AdminQuestion>({
    {.path = "/reload",
     .answer = ask_change<&AdminSources::reload>,
     .access = AdminQuestion::Access::change,
     .command = "reload",
     .what = "Have a running proxy read its configuration again",
     .footer = kReloadFooter,
     .patience = kReloadPatience,
     .member = "result"},
    {.path = "/api/rollback",
     .answer = ask_change<&AdminSources::rollback>,
     .access = AdminQuestion::Access::change,
     .command = "rollback",
     .what = "Go back to the configuration before the last reload",
     .footer = kRollbackFooter,
     .patience = kReloadPatience,
     .member = "result"},
    {.path = "/api/config",
     .answer = ask_config,
     .command = "config",
     .what = "Show the configuration in force, without its secrets",
     .footer = kConfigFooter,
     .json_option = kPrintsJson,
     .member = "config"},
    {.path = "/api/inspect",
     .answer = ask_counts<false>,
     .parameters = kIdentifier,
     .command = "inspect",
     .what = "Show what is counted now for an identifier",
     .footer = kInspectFooter,
     .json_option = kAnswerAsJson,
     .patience = kInspectPatience,
     .member = "identifiers"},
    {.path = "/api/upstreams",
     .answer = ask_upstreams,
     .command = "inspect",
     .in_place = "--upstreams",
     .what = "Show the servers of all upstreams instead",
     .patience = kInspectPatience,
     .member = "upstreams"},
    {.path = "/api/reset",
     .answer = ask_counts<true>,
     .access = AdminQuestion::Access::change_from_dashboard,
     .parameters = kIdentifier,
     .command = "reset",
     .what = "Clear what is counted for an identifier",
     .footer = kResetFooter,
     .json_option = kAnswerAsJson,
     .patience = kInspectPatience,
     .member = "identifiers"},
    {.path = "/api/top",
     .answer = ask_top,
     .parameters = kTopParameters,
     .command = "top",
     .what = "List who sends most requests, or is denied most",
     .footer = kTopFooter,
     .json_option = kPrintsJson,
     .member = "identifiers"},
    {.path = "/api/denials",
     .answer = ask_denials,
     .parameters = kDenialsParameters,
     .command = "denials",
     .what = "List the last requests that a limit refused",
     .footer = kDenialsFooter,
     .json_option = kPrintsJson,
     .member = "denials",
     .followed = {.member = "denials",
                  .what = "Go on with new ones, until interrupted",
                  .heading = denial_heading,
                  .line = denial_line,
                  .when_off = kNotKept}},
    {.path = "/api/live", .answer = ask_live},
    // Asked by `tidegate simulate --record`.
    {.path = "/api/record",
     .answer = ask_record,
     .access = AdminQuestion::Access::change,
     .parameters = kRecordParameters},
});

}  // namespace

std::span<const AdminQuestion> questions() {
    return kQuestions;
}

}  // namespace tidegate::admin

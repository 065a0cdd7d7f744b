#include "admin/questions.hpp"

#include <array>
#include <utility>

#include "admin/dashboard_answer.hpp"

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

Task<AdminAnswer> reload(const AdminSources& sources) {
    const ReloadReport report = co_await sources.reload();
    co_return answer_to_reload(report);
}

AdminAnswer ask_reload(const AdminSources& sources, const AdminRequest&, const std::string&) {
    return answer_by([&sources] { return reload(sources); });
}

Task<AdminAnswer> roll_back(const AdminSources& sources) {
    const ReloadReport report = co_await sources.rollback();
    co_return answer_to_reload(report);
}

AdminAnswer ask_rollback(const AdminSources& sources, const AdminRequest&, const std::string&) {
    return answer_by([&sources] { return roll_back(sources); });
}

AdminAnswer ask_config(const AdminSources& sources, const AdminRequest&, const std::string&) {
    return answer_to_config(sources.config());
}

template <bool kReset>
AdminAnswer ask_counts(const AdminSources& sources, const AdminRequest&,
                       const std::string& identifier) {
    return answer_by(
        [&sources, asked = CountsRequest{kReset, identifier}] { return sources.counts(asked); });
}

AdminAnswer ask_upstreams(const AdminSources& sources, const AdminRequest&, const std::string&) {
    return answer_to_upstreams(sources.upstreams());
}

AdminAnswer ask_live(const AdminSources& sources, const AdminRequest& request, const std::string&) {
    return sources.live(request.target);
}

AdminAnswer ask_top(const AdminSources& sources, const AdminRequest&, const std::string& by) {
    using Kind = ActivityRequest::Kind;
    const auto kind = by == "denials" ? Kind::top_denials : Kind::top_requests;
    return answer_by([&sources, kind] { return sources.activity({kind}); });
}

AdminAnswer ask_denials(const AdminSources& sources, const AdminRequest&, const std::string&) {
    return answer_by([&sources] { return sources.activity({ActivityRequest::Kind::denials}); });
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
for, or that were most often over a limit:

  tidegate top
  tidegate top --by denials

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer.)";

constexpr std::string_view kDenialsFooter =
    R"(Lists the last requests that a limit has refused, oldest first: when, whose, by
which limit, and how much of it was taken. Of one identifier, each thread keeps
four a second.

  tidegate denials
  tidegate denials --follow

Tidegate asks the running proxy on its admin address. It takes the address and
the token from the configuration, or with --admin from the command line. The
exit code is 0 when it lists something, 1 when there is nothing, 2 for wrong use
and 3 when there is no answer. With --follow it is 0 after an interrupt. When the
proxy ends, --follow says so, tries again every second, and says when it is back.)";

constexpr std::string_view kAnswerAsJson = "Print the answer as it is, for programs";
constexpr std::string_view kPrintsJson = "Print JSON, for programs";

constexpr AdminParameter kIdentifier{.name = "identifier",
                                     .what = "The identifier",
                                     .value = "IDENTIFIER",
                                     .when_empty = "write what is counted",
                                     .example = "user:alice"};
constexpr std::array<std::string_view, 2> kTopKinds{"requests", "denials"};

// More than the proxy takes for any answer (app/admin_services.hpp).
constexpr auto kInspectPatience = 30s;
// A little more than the proxy gives a reload.
constexpr auto kReloadPatience = 65s;

// In the order of `--help`.
constexpr auto kQuestions = std::to_array<AdminQuestion>({
    {.path = "/reload",
     .answer = ask_reload,
     .access = AdminQuestion::Access::change,
     .command = "reload",
     .what = "Have a running proxy read its configuration again",
     .footer = kReloadFooter,
     .patience = kReloadPatience,
     .member = "result"},
    {.path = "/api/rollback",
     .answer = ask_rollback,
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
     .parameter = kIdentifier,
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
     .parameter = kIdentifier,
     .command = "reset",
     .what = "Clear what is counted for an identifier",
     .footer = kResetFooter,
     .json_option = kAnswerAsJson,
     .patience = kInspectPatience,
     .member = "identifiers"},
    {.path = "/api/top",
     .answer = ask_top,
     .parameter = {.name = "by",
                   .choices = kTopKinds,
                   .what = "What is counted: requests (default) or denials",
                   .value = "WHAT"},
     .command = "top",
     .what = "List who sends most requests, or is denied most",
     .footer = kTopFooter,
     .json_option = kPrintsJson,
     .member = "identifiers"},
    {.path = "/api/denials",
     .answer = ask_denials,
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
});

}  // namespace

std::span<const AdminQuestion> questions() {
    return kQuestions;
}

}  // namespace tidegate::admin

// The answers of the admin listener: a request in, and an answer out, or the work that makes one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "telemetry/top_and_denials.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::admin {

// The answer to `/readyz`.
struct ReadinessAnswer {
    bool ready = false;
    // {"status":"ready"|"starting"|"draining"|"refused by the
    // store","store":{"kind":"redis","state":"up"|"down"},
    //  "upstreams":{"api":{"servers":3,"up":2}}}
    std::string body;
};

// The result of a reload, or of a rollback.
struct ReloadReport {
    bool ok = false;
    std::uint64_t generation = 0;            // that is in force now
    std::string hash{};                      // of that one, see config::Shown
    std::vector<config::Diagnostic> errors;  // why it was refused
    std::vector<config::Diagnostic> warnings;
};

struct AdminAnswer;

// The field that tells the command that asked which exit code to end with.
inline constexpr std::string_view kExitCodeField = "X-Tidegate-Exit-Code";

// The configuration in force.
struct ConfigInForce {
    std::uint64_t generation = 0;
    std::shared_ptr<const config::Config> config{};
    std::chrono::system_clock::time_point read_at{};
    bool is_rolled_back = false;  // by `tidegate rollback`: its file may have another
    bool has_former = false;      // that a rollback would put in force
};

// A request to show or to clear the counts of an identifier.
struct CountsRequest {
    bool reset = false;      // clear the counts; else show them
    std::string identifier;  // as it was asked for
};

// Which denials are asked for; what is empty leaves none out.
struct DenialFilter {
    std::string identifier{};  // as the log has it, or as people write it
    std::string policy{};
    std::optional<std::chrono::microseconds> since{};  // before now
};

// A request for one of the lists of clients that requests were counted for.
struct ActivityRequest {
    using Kind = telemetry::ActivityKind;
    Kind kind = Kind::top_requests;
    DenialFilter filter{};  // of lists of denials
};

// A recording that is begun, or goes on.
struct RecordRequest {
    std::int64_t share = 0;  // of the identifiers, in parts of a million; of one that is begun
    std::string id{};        // of one that goes on; empty: it is begun
    bool stop = false;       // the recording ends with this request
};

// The functions that answers are made of. The listener calls them on the admin listener's thread,
// for each request.
struct AdminSources {
    std::function<std::string()> metrics;  // the Prometheus text format
    std::function<ReadinessAnswer()> ready;
    // Returns the token that opens more than the open paths; empty: local peers need none, and no
    // other has access.
    std::function<std::string_view()> token;
    std::function<Task<ReloadReport>()> reload;
    std::function<Task<ReloadReport>()> rollback{};
    std::function<ConfigInForce()> config{};
    // Makes an answer that takes long on another thread, so that the listener goes on with others.
    std::function<Task<AdminAnswer>(std::function<AdminAnswer()>)> apart{};
    std::function<Task<AdminAnswer>(CountsRequest)> counts{};
    std::function<std::vector<upstream::UpstreamStatus>()> upstreams{};
    // The answer to `/api/live` with this target.
    std::function<AdminAnswer(std::string_view)> live{};
    std::function<Task<AdminAnswer>(ActivityRequest)> activity{};
    std::function<Task<AdminAnswer>(RecordRequest)> record{};
};

struct AdminRequest {
    std::string_view method;
    std::string_view target;         // as sent, query and all
    std::string_view authorization;  // the field's value; empty: none, or more than one
    std::string_view host;           // likewise
    bool has_origin = false;         // a browser asks, for some page
    std::string_view origin{};       // of that page; empty: none, or more than one
    bool local = false;              // the peer is loopback or a Unix socket
};

struct AdminAnswer {
    int status = 200;
    std::string_view content_type;
    std::string body;
    // The listener sends this instead where the query has `format=text`; empty: there is no text.
    std::string text{};
    std::optional<int> exit_code{};  // of the command that asked
    std::string_view allow;          // for 405
    std::string_view authenticate;   // for 401: WWW-Authenticate
    std::optional<std::int64_t> retry_after_seconds{};
    bool page = false;     // a file of the dashboard: sent with kPagePolicy
    bool metrics = false;  // the body is that of AdminSources::metrics
    // If this is set, the request is permitted, and awaiting the task gives the answer.
    std::function<Task<AdminAnswer>()> work{};
    // If this is not empty, the listener logs it: why Host or Origin kept it from doing what was
    // asked.
    std::string_view refusal{};
};

// `/metrics`, `/healthz`, `/readyz` and the files of the dashboard answer every peer. Anything else
// asks every peer for the bearer token, local ones too; where none is configured it answers local
// peers only. What changes something is POST, and not for a browser that some page sends here, be
// it under a name of its own (DNS rebinding): no Origin, but for a reset that of the dashboard
// itself, and without a token a Host that is an address or `localhost`. What shows clients or
// servers without a token asks for such a Host, too.
AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources);

// An answer of problem details (RFC 9457). `detail` is a sentence; empty: none.
AdminAnswer problem(int status, std::string_view detail = {},
                    std::optional<std::int64_t> retry_after_seconds = {});

// The value of the parameter `name` in the query of `target`; nothing if it is not there. An answer
// says what is wrong with a query that can be read in more than one way.
Result<std::optional<std::string>, AdminAnswer> asked_in_query(std::string_view target,
                                                               std::string_view name);

}  // namespace tidegate::admin

// A RequestRecord holds what is known of a request when it ends, and a table lists its fields. The
// access log, the spans and the reference read the table. So a new field is a member and a row
// here, and a line in proxy/record.cpp, which fills it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/described_enum.hpp"
#include "base/shared_enums.hpp"
#include "base/units.hpp"

namespace tidegate::telemetry {

// What was decided of a request and how it ended, as metrics and the access log name it.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Outcome, std::uint8_t,
    forwarded,    // the upstream's answer was relayed
    answered,     // a gateway or a program asked, and the request may go on
    redirected,   // a listener with `redirect` sent the client to https
    limited,      // a limit refused it
    rejected,     // the request itself was at fault: 4xx other than the limit
    failed,       // the upstream was: 502, 503, 504, or a broken answer
    unavailable,  // the store was, and the policy says deny
    aborted)      // the client left before its answer, or Tidegate stopped
inline constexpr std::size_t kOutcomes = kEnumerators<Outcome>.size();

// The reference explains with these words, in Markdown, the outcomes that do not speak for
// themselves.
inline constexpr EnumTexts<Outcome> kOutcomeNotes(
    {{Outcome::forwarded, ""},
     {Outcome::answered, "a gateway or a program got its consent"},
     {Outcome::redirected,
      "a listener with [`redirect`](tls.md#redirect-and-hsts) sent the client to https"},
     {Outcome::limited, ""},
     {Outcome::rejected, ""},
     {Outcome::failed, ""},
     {Outcome::unavailable, ""},
     {Outcome::aborted, ""}});

// What the limits said of a request that was decided.
BOOST_DEFINE_FIXED_ENUM_CLASS(RecordedVerdict, std::uint8_t, admitted, limited, unlimited, local,
                              allowed, unavailable)

// For the reference: Markdown, without a full stop.
inline constexpr EnumTexts<RecordedVerdict> kVerdictMeanings(
    {{RecordedVerdict::admitted, "every limit that counts it has units for it"},
     {RecordedVerdict::limited, "a limit has not"},
     {RecordedVerdict::unlimited, "no limit counts it"},
     {RecordedVerdict::local, "without Redis, this process counted and admitted it"},
     {RecordedVerdict::allowed,
      "without Redis, [`on_store_failure: allow`](limits.md#when-the-store-fails) let it pass "
      "uncounted"},
     {RecordedVerdict::unavailable,
      "`on_store_failure: deny` refused it (503), or the store in process was full"}});

// Views need to live only through the call that takes the record. Texts that a client chose are
// escaped by what writes them, not by the caller.
struct RequestRecord {
    std::chrono::system_clock::time_point time;  // when it began
    std::string_view request_id;
    std::string_view client;  // address, or empty
    std::string_view method;
    HttpVersion version = HttpVersion::http_1_1;
    std::string_view path;  // without the query
    std::string_view user_agent;
    std::string_view host;
    std::string_view route;  // empty: none matched
    std::span<const std::string_view> identifiers;
    std::string_view verdict;       // the name of a RecordedVerdict, or empty
    std::string_view limited_by{};  // `POLICY-LIMIT` that refused, or empty
    std::string_view
        shadow_limited_by{};       // the same of policies in shadow, which refuse no request
    std::string_view soft_over{};  // the same of soft policies, which refuse no request either
    std::string_view candidate_limited_by{};  // the same of candidates
    // Of the limit that refused; if none did, of the one in shadow or of a candidate that would
    // have. Empty or negative: there is none, or it is not known.
    std::string_view limited_identifier{};
    std::string_view tier{};        // whose limits they are
    Amount limit_count = -1;        // that was taken
    Amount limit_quota = -1;        // that it allows at once
    Amount cost = -1;               // that the request asked for
    std::int64_t retry_after = -1;  // seconds, of a refusal
    std::string_view refusal{};     // kTooLarge, or empty
    // Where a policy settles what it reserved: of the first such policy, and what the answer says.
    // Empty or negative: there is none, or it is not known.
    std::string_view usage_model{};         // that the request is for
    std::string_view usage_answer_model{};  // that the answer names
    std::int64_t usage_input = -1;          // tokens
    std::int64_t usage_cached = -1;
    std::int64_t usage_cache_write = -1;
    std::int64_t usage_output = -1;
    Amount usage_reserved = -1;
    Amount usage_cost = -1;
    Amount usage_usd = -1;             // of the first policy that counts money
    std::string_view store;            // memory | redis | local | lease | remembered | ""
    std::string_view upstream;         // the server as it is configured, or empty
    std::string_view upstream_server;  // the address of that server, which was chosen last
    std::string_view error;            // whose fault and what, or empty
    Outcome outcome = Outcome::forwarded;
    Face face = Face::proxy;
    int status = 0;                    // 0: no answer was sent
    int grpc_status = -1;              // of an answer of gRPC; negative: none
    std::uint64_t tries = 0;           // connections that were used, or could not be made
    std::uint64_t bytes_received = 0;  // body
    std::uint64_t bytes_sent = 0;      // body
    std::chrono::nanoseconds duration{0};
    std::chrono::nanoseconds decision{0};  // waiting for the store
    std::chrono::nanoseconds upstream_time{
        0};                                  // from sending the request to the head of the answer
    std::chrono::nanoseconds queue_time{0};  // waiting for one of max_connections

    // Nothing went wrong, and no limit refused, in shadow or not, or would have as a candidate: a
    // sample may leave it out.
    bool is_ordinary() const {
        const bool went_on = outcome == Outcome::forwarded || outcome == Outcome::answered ||
                             outcome == Outcome::redirected;
        return went_on && error.empty() && shadow_limited_by.empty() &&
               candidate_limited_by.empty();
    }
};

// RequestRecord::refusal of a request that asks for more than a limit ever allows.
inline constexpr std::string_view kTooLarge = "too_large";

// How much of a text the access log has; a cut text ends in `...`.
inline constexpr std::size_t kPathBytesMax = 1024;
inline constexpr std::size_t kHostBytesMax = 255;
inline constexpr std::size_t kMethodBytesMax = 32;
inline constexpr std::size_t kUserAgentBytesMax = 256;
// The bound of names that the configuration or Tidegate itself gave.
inline constexpr std::size_t kNameBytesMax = 256;
inline constexpr std::size_t kIdBytesMax = 128;
inline constexpr std::size_t kIdentifierBytesMax = 128;
inline constexpr std::size_t kIdentifiersMax = 16;

// Where the text form of the access log has a field.
enum class InText : std::uint8_t {
    prefix,  // the common log format has a place for it
    pair,    // ` name="value"` behind that
    last,    // likewise, behind the other pairs
};

// Which span of a request has a field as an attribute (telemetry/trace_export.hpp).
enum class SpanName : std::uint8_t { none, request, decide };

// How a span shows a text. All but `plain` are conventions of OpenTelemetry for HTTP.
enum class AttributeForm : std::uint8_t {
    plain,      // as it is; no attribute if it is empty
    method,     // `_OTHER` where the convention does not know the method
    authority,  // an attribute for the host, and one for the port
};

struct SpanAttribute {
    SpanName span = SpanName::none;
    std::string_view name;
    AttributeForm form = AttributeForm::plain;
};

// A row of the table. The type of the member decides how each writer shows the value: a text, a
// list, a number, a time in microseconds, or the word of an enum.
struct RequestField {
    template <class Value>
    using In = Value RequestRecord::*;
    using Member = std::variant<In<std::chrono::system_clock::time_point>, In<std::string_view>,
                                In<std::span<const std::string_view>>, In<Outcome>, In<Face>,
                                In<HttpVersion>, In<int>, In<std::int64_t>, In<Amount>,
                                In<std::uint64_t>, In<std::chrono::nanoseconds>>;

    template <class Value>
    constexpr bool is() const {
        return std::holds_alternative<In<Value>>(member);
    }

    std::string_view name;  // in the access log
    Member member;
    std::string_view meaning;               // for the reference: Markdown, without a full stop
    std::size_t bytes_max = kNameBytesMax;  // of a text: the access log cuts the rest
    InText in_text = InText::pair;
    SpanAttribute attribute{};
    // A line has the field only if it is known: a text that is not empty, a number that is not
    // negative. Without `is_optional`, a line has 0 for a negative number, and spans take an `int`
    // of 0 for not known, too.
    bool is_optional = false;
    // For the reference: the words that a text may be, and what each of them means. None: any text.
    std::span<const std::string_view> values{};
    std::span<const std::string_view> value_meanings{};
};

// In the order of JSON and logfmt.
inline constexpr auto kRequestFields = std::to_array<RequestField>({
    {.name = "time",
     .member = &RequestRecord::time,
     .meaning = "when the request began: RFC 3339, UTC, milliseconds",
     .in_text = InText::prefix},
    {.name = "id",
     .member = &RequestRecord::request_id,
     .meaning = "the request id, which the upstream got, too",
     .bytes_max = kIdBytesMax,
     .attribute = {SpanName::request, "tidegate.request_id"}},
    {.name = "client",
     .member = &RequestRecord::client,
     .meaning = "the client's address",
     .in_text = InText::prefix},
    {.name = "method",
     .member = &RequestRecord::method,
     .meaning = "the method of the request",
     .bytes_max = kMethodBytesMax,
     .in_text = InText::prefix,
     .attribute = {SpanName::request, "http.request.method", AttributeForm::method}},
    {.name = "host",
     .member = &RequestRecord::host,
     .meaning = "the host that the request names",
     .bytes_max = kHostBytesMax,
     .attribute = {SpanName::request, "server.address", AttributeForm::authority}},
    {.name = "path",
     .member = &RequestRecord::path,
     .meaning = "the path of the request; the query is not logged",
     .bytes_max = kPathBytesMax,
     .in_text = InText::prefix,
     .attribute = {SpanName::request, "url.path"}},
    {.name = "user_agent",
     .member = &RequestRecord::user_agent,
     .meaning = "the field `User-Agent` (in questions of the [check API](check-api.md), that of "
                "the program); empty if there is none, or more than one",
     .bytes_max = kUserAgentBytesMax},
    {.name = "route",
     .member = &RequestRecord::route,
     .meaning = "the name of the route; empty: no route matches",
     .attribute = {SpanName::request, "tidegate.route"}},
    {.name = "identifiers",
     .member = &RequestRecord::identifiers,
     .meaning = "the identifiers that the limits count the request for, 16 at most",
     .attribute = {SpanName::decide, "tidegate.identifiers"}},
    {.name = "verdict",
     .member = &RequestRecord::verdict,
     .meaning = "what was decided; empty: refused before a decision",
     .attribute = {SpanName::decide, "tidegate.verdict"},
     .values = kEnumNames<RecordedVerdict>,
     .value_meanings = kVerdictMeanings.values()},
    {.name = "limited_by",
     .member = &RequestRecord::limited_by,
     .meaning = "the [name of the limit](configuration.md#names-of-limits) that refused",
     .attribute = {SpanName::decide, "tidegate.limit"}},
    {.name = "limited_identifier",
     .member = &RequestRecord::limited_identifier,
     .meaning = "the identifier that was over that limit. [These fields](#why-was-it-refused) are "
                "only in lines of requests that a limit refused, or would have in shadow or as a "
                "candidate",
     .bytes_max = kIdentifierBytesMax,
     .in_text = InText::last,
     .is_optional = true},
    {.name = "count",
     .member = &RequestRecord::limit_count,
     .meaning = "units of that limit that were taken. With `unit: usd` dollars, as in `quota` and "
                "`cost`: always with six places, while units have none",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.count"},
     .is_optional = true},
    {.name = "quota",
     .member = &RequestRecord::limit_quota,
     .meaning = "units that it allows at once: its quota, or its `burst`",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.quota"},
     .is_optional = true},
    {.name = "cost",
     .member = &RequestRecord::cost,
     .meaning = "units that the request asked for; 1 where its body decides that and was not read",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.cost"},
     .is_optional = true},
    {.name = "tier",
     .member = &RequestRecord::tier,
     .meaning = "the tier whose limit it is; not there where the limit is the policy's own",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.tier"},
     .is_optional = true},
    {.name = "retry_after",
     .member = &RequestRecord::retry_after,
     .meaning = "seconds until the limits may admit the request; not there if Tidegate cannot tell",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.retry_after"},
     .is_optional = true},
    {.name = "refusal",
     .member = &RequestRecord::refusal,
     .meaning = "`too_large`: the request asked for more than the limit ever allows at once, so it "
                "never passes; not there otherwise",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.refusal"},
     .is_optional = true},
    {.name = "usage_model",
     .member = &RequestRecord::usage_model,
     .meaning = "the model that the request is for. Only lines of routes whose policies "
                "[settle costs](llm.md) have the fields `usage_`",
     .bytes_max = kIdBytesMax,
     .in_text = InText::last,
     .attribute = {SpanName::request, "gen_ai.request.model"},
     .is_optional = true},
    {.name = "usage_answer_model",
     .member = &RequestRecord::usage_answer_model,
     .meaning = "the model that the answer names",
     .bytes_max = kIdBytesMax,
     .in_text = InText::last,
     .attribute = {SpanName::request, "gen_ai.response.model"},
     .is_optional = true},
    {.name = "usage_input",
     .member = &RequestRecord::usage_input,
     .meaning = "tokens of input that no cache of the provider had; not there if the answer says "
                "no usage",
     .in_text = InText::last,
     .attribute = {SpanName::request, "gen_ai.usage.input_tokens"},
     .is_optional = true},
    {.name = "usage_cached",
     .member = &RequestRecord::usage_cached,
     .meaning = "tokens of input that the provider's cache had",
     .in_text = InText::last,
     .is_optional = true},
    {.name = "usage_cache_write",
     .member = &RequestRecord::usage_cache_write,
     .meaning = "tokens of input that the provider wrote to its cache",
     .in_text = InText::last,
     .is_optional = true},
    {.name = "usage_output",
     .member = &RequestRecord::usage_output,
     .meaning = "tokens of output, with those of reasoning",
     .in_text = InText::last,
     .attribute = {SpanName::request, "gen_ai.usage.output_tokens"},
     .is_optional = true},
    {.name = "usage_reserved",
     .member = &RequestRecord::usage_reserved,
     .meaning = "units that the first policy with a cost of its own reserved; with `unit: usd` "
                "dollars, with six places",
     .in_text = InText::last,
     .is_optional = true},
    {.name = "usage_cost",
     .member = &RequestRecord::usage_cost,
     .meaning = "units or dollars that it settled; not there if they are not known, and what was "
                "reserved stays",
     .in_text = InText::last,
     .is_optional = true},
    {.name = "usage_usd",
     .member = &RequestRecord::usage_usd,
     .meaning = "dollars that the first policy that counts money settled, with six places",
     .in_text = InText::last,
     .is_optional = true},
    {.name = "shadow_limited_by",
     .member = &RequestRecord::shadow_limited_by,
     .meaning = "the name of the limit that would have refused, were its policy not in shadow",
     .attribute = {SpanName::decide, "tidegate.shadow_limit"}},
    {.name = "soft_over",
     .member = &RequestRecord::soft_over,
     .meaning = "the name of the limit with `mode: soft` that the request is over",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.soft_limit"},
     .is_optional = true},
    {.name = "candidate_limited_by",
     .member = &RequestRecord::candidate_limited_by,
     .meaning = "the name of the limit of a [candidate](limits.md#candidates) that would have "
                "refused",
     .in_text = InText::last,
     .attribute = {SpanName::decide, "tidegate.candidate_limit"},
     .is_optional = true},
    {.name = "store",
     .member = &RequestRecord::store,
     .meaning = "what decided: `memory`, `redis`, `local`, `remembered` or `lease`",
     .attribute = {SpanName::decide, "tidegate.store"}},
    {.name = "status",
     .member = &RequestRecord::status,
     .meaning = "the status that the client got; 0: none",
     .in_text = InText::prefix,
     .attribute = {SpanName::request, "http.response.status_code"}},
    {.name = "grpc_status",
     .member = &RequestRecord::grpc_status,
     .meaning = "of an answer to [gRPC](http2.md#grpc): its status, 0 to 16; other lines do not "
                "have it",
     .in_text = InText::last,
     .attribute = {SpanName::request, "rpc.grpc.status_code"},
     .is_optional = true},
    {.name = "outcome",
     .member = &RequestRecord::outcome,
     .meaning = "how the request ended, as `tidegate_requests_total` has it",
     .attribute = {SpanName::request, "tidegate.outcome"}},
    {.name = "upstream",
     .member = &RequestRecord::upstream,
     .meaning = "the server that Tidegate chose last for the request, as it is configured "
                "(`api.internal:3000`)"},
    {.name = "upstream_server",
     .member = &RequestRecord::upstream_server,
     .meaning = "the address of that server (`10.0.0.5:3000`)"},
    {.name = "error",
     .member = &RequestRecord::error,
     .meaning = "whose fault it was and what went wrong; empty: nothing did",
     .attribute = {SpanName::request, "tidegate.error"}},
    {.name = "bytes_in",
     .member = &RequestRecord::bytes_received,
     .meaning = "bytes of the body of the request, or that the client of a "
                "[WebSocket](tunnels.md#to-look-at) sent"},
    {.name = "bytes_out",
     .member = &RequestRecord::bytes_sent,
     .meaning = "bytes of the body of the answer, or that the client of a WebSocket got",
     .in_text = InText::prefix},
    {.name = "duration_us",
     .member = &RequestRecord::duration,
     .meaning = "microseconds that the whole request took"},
    {.name = "decision_us",
     .member = &RequestRecord::decision,
     .meaning = "microseconds that the request waited for the decision of the store"},
    {.name = "upstream_us",
     .member = &RequestRecord::upstream_time,
     .meaning = "microseconds from sending the request to the upstream to the head of its answer"},
    {.name = "queue_us",
     .member = &RequestRecord::queue_time,
     .meaning = "microseconds that the request waited for one of `max_connections`"},
    {.name = "tries",
     .member = &RequestRecord::tries,
     .meaning = "connections that Tidegate used, or tried to make, for the request: 2 or more "
                "after a [retry](upstreams.md#retries), 0 if the request got none"},
    {.name = "face",
     .member = &RequestRecord::face,
     .meaning = "the face of the listener: `proxy`, `forward_auth`, `check` or `envoy_grpc`",
     .attribute = {SpanName::request, "tidegate.face"}},
    {.name = "protocol",
     .member = &RequestRecord::version,
     .meaning = "what the client spoke: `HTTP/1.0`, `HTTP/1.1` or `HTTP/2`; in the text form "
                "`HTTP/2.0`",
     .in_text = InText::prefix,
     .attribute = {SpanName::request, "network.protocol.version"}},
});

}  // namespace tidegate::telemetry

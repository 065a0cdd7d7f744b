// What a route adds to the exchange beside forwarding: `response` with the answers to denied
// requests and the fields of all answers, CORS, and tunnels.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "http/cors_origin.hpp"
#include "http/field.hpp"
#include "limit/limit.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kBodyBytesMax = 65'536;

// What `headers` may name.
std::vector<std::string_view> limit_field_words() {
    std::vector<std::string_view> words;
    words.reserve(http::kLimitFields.size());
    for (const http::LimitFieldsTraits& group : http::kLimitFields) words.push_back(group.word);
    return words;
}

void read_limit_fields(const Value& value, Response& response) {
    std::vector<std::pair<std::string_view, http::LimitFields>> groups;
    groups.reserve(http::kLimitFields.size());
    for (const http::LimitFieldsTraits& group : http::kLimitFields) {
        groups.emplace_back(group.word, static_cast<http::LimitFields>(groups.size()));
    }
    constexpr ListRule kFields{"a list: `[ratelimit, retry-after]`", "fields", 16};
    auto chosen = http::LimitFieldsChoice::none();
    for (const Value& item : value.one_or_more(kFields)) {
        if (const auto group = item.choice<http::LimitFields>(groups)) chosen.add(*group);
    }
    response.limit_fields = chosen;
}

// Browsers heed the first of two such fields.
void warn_if_hsts_is_added(const Value& fields, const Config& config) {
    const bool has_hsts = std::any_of(config.listen.begin(), config.listen.end(),
                                      [](const Listen& one) { return one.hsts.count() != 0; });
    const std::string lines = "\r\n" + to_lower(config.response.extra_lines);
    if (!has_hsts || lines.find("\r\nstrict-transport-security:") == std::string::npos) return;
    fields.warn(
        "`Strict-Transport-Security` is added here and by `hsts` of a listener: browsers heed one "
        "of them only; remove it here");
}

void read_body(const Value& value, Response& response) {
    response.body = read_answer_body(value).value_or(AnswerBody{});
}

constexpr std::size_t kFieldsMax = 32;
constexpr std::size_t kLinesBytesMax = 8'192;  // clients bound the heads they read
constexpr std::string_view kOneHop = "frames the answer or is for one connection: remove it";
constexpr std::string_view kOurs = "Tidegate writes this field itself: remove it";

struct Reserved {
    std::string_view name;
    std::string_view why;
};

constexpr auto kReserved = std::to_array<Reserved>({
    {"connection", kOneHop},
    {"content-encoding", kOneHop},
    {"content-length", kOneHop},
    {"content-range", kOneHop},
    {"content-type", "write it in `response.body: {content_type: ..., text: ...}`"},
    {"date", kOurs},
    {"keep-alive", kOneHop},
    {"retry-after", "Tidegate writes this field itself: see `response.headers`"},
    {"te", kOneHop},
    {"trailer", kOneHop},
    {"transfer-encoding", kOneHop},
    {"upgrade", kOneHop},
    {"vary", kOurs},
    {"www-authenticate", kOurs},
    {"x-request-id", kOurs},
});

constexpr auto kReservedBeginnings = std::to_array<Reserved>({
    {"anthropic-ratelimit-", "Tidegate writes this field itself: see `response.headers`"},
    {"access-control-", "write `response.cors` for it"},
    {"proxy-", kOneHop},
    {"ratelimit", "Tidegate writes this field itself: see `response.headers`"},
    {"x-ratelimit-", "Tidegate writes this field itself: see `response.headers`"},
});

// Why the field cannot be added; empty: it can. Spellings that servers take for the same name are
// the same here.
std::string_view why_reserved(std::string_view name) {
    for (const Reserved& reserved : kReserved) {
        if (http::equal_as_variable(name, reserved.name)) return reserved.why;
    }
    for (const Reserved& reserved : kReservedBeginnings) {
        if (http::equal_as_variable(name.substr(0, reserved.name.size()), reserved.name)) {
            return reserved.why;
        }
    }
    return {};
}

void read_extra_headers(const Value& value, Response& response) {
    constexpr ListRule kFields{
        "a map of fields and values: `{Strict-Transport-Security: max-age=31536000}`", "fields",
        kFieldsMax};
    for (const auto& [name, item] :
         read_added_fields(value, kFields, "Strict-Transport-Security", why_reserved)) {
        const auto content = item.text("the value of a header field");
        if (!content) continue;
        if (!is_field_value(*content)) {
            item.fault(quote(*content) + " cannot be the value of a header field");
            continue;
        }
        response.extra_lines.append(name).append(": ").append(*content).append("\r\n");
    }
    if (response.extra_lines.size() > kLinesBytesMax) {
        value.fault("more than " + std::to_string(kLinesBytesMax) + " bytes in all");
    }
}

const Rows& answer_body_keys() {
    static const auto keys =
        Rows(
            "`problem`, `openai`, `anthropic` or a map: `{content_type: text/plain, text: Slow "
            "down}`",
            "body")
            .key("content_type", kind::written(R"({"type":"string","pattern":"/|\\$\\{"})"),
                 {"a content type such as `text/plain`", "required"})
            .required("`content_type: text/plain`")
            .key("text", kind::type("text"),
                 {"the text, in which `{retry_after}`, `{limit}` and `{policy}` stand for what "
                  "they name",
                  "required", "64 KiB"})
            .required("`text: Come back in {retry_after} seconds`");
    return keys;
}

}  // namespace

KeyKind answer_body_kind() {
    return kind::any({kind::fixed({"problem", "openai", "anthropic"}),
                      kind::map(answer_body_keys()), kind::type("variable")});
}

const Keys<Response>& response_keys() {
    static const auto keys =
        Keys<Response>()
            .integer("status", &Response::status, {400, 599}, {"of a request that is over a limit"})
            .own("headers", kind::one_or_more(kind::word(limit_field_words()), {0, 16}),
                 read_limit_fields,
                 {"fields of answers about limits", "`[ratelimit, retry-after]`",
                  "`ratelimit`, `retry-after`, `x-ratelimit`, `openai`, `anthropic`"})
            .own("body", answer_body_kind(), read_body,
                 {"`problem` (RFC 9457), `openai` or `anthropic` (as their libraries "
                  "[read it](#answers-for-libraries-of-models)), or `{content_type, text}` with "
                  "`{retry_after}`, `{limit}`, `{policy}`",
                  "`problem`", "64 KiB"})
            .key("cors", kind::off_or(kind::map(cors_keys())), {"[CORS](#cors), or `off`", "`off`"})
            .own(
                "extra_headers",
                kind::written(
                    R"({"type":"object","maxProperties":32,"additionalProperties":{"$ref":"#/$defs/text"}})"),
                read_extra_headers,
                {"fields of answers that Tidegate makes: `{Strict-Transport-Security: "
                 "max-age=31536000}`",
                 "none", "32 fields; none that Tidegate writes itself"})
            .toggle("request_id", &Response::request_id,
                    {"`on`: `X-Request-Id` on every answer, forwarded ones, too"});
    return keys;
}

std::optional<AnswerBody> read_answer_body(const Value& value) {
    AnswerBody out;
    if (value.is("problem")) return out;
    if (value.is("openai")) return AnswerBody{AnswerBody::Form::openai};
    if (value.is("anthropic")) return AnswerBody{AnswerBody::Form::anthropic};
    const auto word = value.is_scalar() ? value.text(answer_body_keys().wanted()) : std::nullopt;
    const auto meant =
        word ? nearest(*word, {"problem", "openai", "anthropic"}) : std::string_view();
    if (!meant.empty()) {
        value.fault("unknown value " + quote(*word) + "; did you mean " + quote(meant) + "?");
        return std::nullopt;
    }
    out.form = AnswerBody::Form::text;
    const std::size_t faults_before = value.context().faults.size();
    Section section(value, answer_body_keys());
    if (const auto type = section.need("content_type")) {
        auto content_type = type->text("a content type such as `text/plain`");
        if (content_type &&
            (!is_field_value(*content_type) || content_type->find('/') == std::string::npos)) {
            type->fault(quote(*content_type) + " is not a content type such as `text/plain`");
        } else if (content_type) {
            out.content_type = std::move(*content_type);
        }
    }
    if (const auto text = section.need("text")) {
        auto body = text->any_text();
        if (body && body->size() > kBodyBytesMax) {
            text->fault("longer than 64 KiB");
        } else if (body) {
            out.text = std::move(*body);
        }
    }
    section.refuse_others();
    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return out;
}

void read_response(const Value& value, Config& config, Declared& declared) {
    Response& response = config.response;
    Section section = response_keys().read(value, response);
    if (const auto cors = section.find("cors")) {
        declared.cors.place = cors->place();
        declared.cors.of_response = read_cors(*cors, kPreflight, config, declared);
    }
    if (const auto fields = section.find("extra_headers")) warn_if_hsts_is_added(*fields, config);
}

namespace {

constexpr std::size_t kOriginsMax = 256;
constexpr DurationRange kMaxAge{std::chrono::seconds{1}, std::chrono::hours{24}};
constexpr std::string_view kOrigin = "an origin such as `https://app.example.com`";

// With credentials, each page of these hosts acts for the user who looks at it.
void warn_about_wide(const Value& value, const http::OriginPattern& pattern) {
    const bool is_top_level = pattern.subdomains && pattern.host.find('.') == std::string::npos;
    if (!is_top_level || pattern.host == "localhost") return;
    value.warn("allows every host under " + quote(pattern.host) +
               ", which many owners may share: write `https://*.example." + pattern.host + "`");
}

void read_origin(const Value& value, http::OriginList& origins) {
    const auto text = value.text(kOrigin);
    if (!text) return;
    if (*text == "*") {
        origins.any = true;
        return;
    }
    if (*text == "null") {
        origins.opaque = true;
        value.warn(
            "`null` is the origin of local files and of sandboxed frames, which a page of any site "
            "can open: each of them may read these answers");
        return;
    }
    auto pattern = http::parse_origin_pattern(*text);
    if (!pattern) {
        value.fault(quote(*text) + " " + pattern.error());
        return;
    }
    warn_about_wide(value, *pattern);
    add_once(value, quote(*text), std::move(*pattern), origins.patterns);
}

void read_origins(const Value& value, Cors& cors) {
    http::OriginList& origins = cors.origins;
    constexpr ListRule kOrigins{"a list of origins: `[\"https://app.example.com\"]`", "origins",
                                kOriginsMax,
                                "the list is empty: list an origin such as "
                                "`https://app.example.com`, or write `cors: off`"};
    for (const Value& item : value.one_or_more(kOrigins)) read_origin(item, origins);
    if (origins.any && (origins.opaque || !origins.patterns.empty())) {
        value.fault("`*` allows every origin: remove `*`, or all other origins");
    }
}

void read_credentials(const Value& value, Cors& cors) {
    cors.credentials = value.toggle().value_or(false);
    if (!cors.credentials || !cors.origins.any) return;
    value.fault(
        "`on` together with the origin `*` would let a page of any site act for the user who looks "
        "at it, and browsers refuse it: list the origins, or write `credentials: off`");
}

void read_preflight(const Value& value, const std::string& name, Cors& cors, Config& config,
                    const Declared& declared) {
    if (value.is_off()) {
        value.fault(
            "cannot be off: no policy counts preflights, so without a limit of their own they "
            "would be a way around every limit; write a rate such as `50/s`");
        return;
    }
    const std::size_t faults_before = value.context().faults.size();
    PolicySettings policy;
    policy.limits = read_preflight_limits(value);
    if (policy.limits.empty() || value.context().faults.size() != faults_before) return;
    policy.name = name;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.on_store_failure = declared.on_store_failure;
    // Clients without an address share one count: a preflight never goes uncounted.
    policy.key.front().on_missing = limit::OnMissing::shared;
    cors.preflight = config.policies[add_policy(std::move(policy), config)].get();
}

// The limit of preflights where the configuration has none.
const PolicySettings* default_preflight(Config& config) {
    PolicySettings policy;
    policy.name = kPreflight;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.key.front().on_missing = limit::OnMissing::shared;
    policy.limits = {default_preflight_limit()};
    policy.on_store_failure = limit::OnStoreFailure::local_or_alone;
    return config.policies[add_policy(std::move(policy), config)].get();
}

// The fields that Tidegate adds to answers. Browsers show them to scripts only if the answer lists
// them.
std::string exposed_fields(const Response& response) {
    std::string out;
    for (std::size_t i = 0; i < http::kLimitFields.size(); ++i) {
        const http::LimitFieldsTraits& group = http::kLimitFields[i];
        if (!group.is_always_exposed &&
            !response.limit_fields.has(static_cast<http::LimitFields>(i))) {
            continue;
        }
        out.append(group.names).append(", ");
    }
    return out += "X-Request-Id";
}

std::string lines_without_request(const Response& response) {
    std::string out = response.extra_lines;
    if (response.cors == nullptr) return out;
    out += "Vary: Origin\r\n";
    if (!response.cors->origins.any) return out;
    return out += "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: " +
                  response.exposed_fields + "\r\n";
}

}  // namespace

const Keys<Cors>& cors_keys() {
    static const auto keys =
        Keys<Cors>("`off` or a map: `{origins: [\"https://app.example.com\"]}`", "cors")
            .own(
                "origins",
                kind::one_or_more(
                    kind::written(
                        R"({"type":"string","pattern":"^\\*$|^null$|^[a-z][a-z0-9+.-]*://.+|\\$\\{"})"),
                    {1, kOriginsMax}),
                read_origins,
                {"`https://app.example.com`, `https://*.example.org` (one or more labels), "
                 "`\"null\"` (`check` warns), or `*` alone",
                 "required", "1 to 256"})
            .required("`origins: [\"https://app.example.com\"]`")
            .own("credentials", kind::toggle(), read_credentials,
                 {"pages may send cookies and `Authorization`; not with `*`", "`off`"})
            .duration("max_age", &Cors::max_age, kMaxAge,
                      {"is added to a preflight's answer that has none", "none"})
            .key("preflight", single_or_limits_kind(),
                 {"the limits on preflights, by address; never `off`", "`50/s`"});
    return keys;
}

Cors* read_cors(const Value& value, const std::string& policy, Config& config, Declared& declared) {
    if (value.is_off()) return nullptr;
    auto cors = std::make_unique<Cors>();
    Section section = cors_keys().read(value, *cors);
    if (const auto preflight = section.find("preflight")) {
        read_preflight(*preflight, policy, *cors, config, declared);
    }
    return declared.cors.all.emplace_back(std::move(cors)).get();
}

void settle_cors(Config& config, Declared& declared) {
    Declared::Cors& read = declared.cors;
    const PolicySettings* shared =
        read.of_response != nullptr ? read.of_response->preflight : nullptr;
    for (const auto& cors : read.all) {
        if (cors->preflight != nullptr) continue;
        if (shared == nullptr) shared = default_preflight(config);
        cors->preflight = shared;
    }
    Response& response = config.response;
    response.cors = read.of_response;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const auto own = read.own.find(i);
        config.routes[i].cors = own != read.own.end() ? own->second : response.cors;
    }
    for (auto& cors : read.all) config.cors.push_back(std::move(cors));
    response.exposed_fields = exposed_fields(response);
    response.lines_without_request = lines_without_request(response);
}

// Tunnels of a route: `upgrade`, and the bounds on their messages in `tunnel`.
namespace {

void read_upgrade(const Value& value, Route& route) {
    constexpr ListRule kUpgrades{"a list of what a client may change to: `[websocket]`", "upgrades",
                                 4, "the list is empty: write `[websocket]`, or remove `upgrade`"};
    for (const Value& item : value.one_or_more(kUpgrades)) {
        if (const auto chosen = item.choice<bool>({{"websocket", true}})) {
            route.takes_websockets = *chosen;
        }
    }
}

// Tidegate opens tunnels to servers with a handshake of HTTP/1.1 only.
void refuse_over_http2(const Value& upgrade, const Config& config, const Route& route) {
    if (route.upstream >= config.upstreams.size()) return;
    const Upstream& upstream = config.upstreams[route.upstream];
    if (!upstream.has_http2()) return;
    upgrade.fault("WebSockets cannot go to the upstream " + quote(upstream.name) +
                  ", which speaks HTTP/2: send this route to an upstream with `http://` or "
                  "`http: http1`, or remove `upgrade`");
}

// Of one tunnel, kept by the thread that has it: a bucket, as a window would take more room.
void read_messages(const Value& value, TunnelBounds& bounds) {
    if (value.is_off()) return;
    const auto rate = value.parsed("a rate such as `100/s`, or `off`", parse_rate);
    if (!rate) return;
    constexpr std::int64_t kSecond_us = 1'000'000;
    const double a_second =
        static_cast<double>(rate->quota) * kSecond_us / static_cast<double>(rate->per.count());
    const auto burst = static_cast<std::int64_t>(
        std::min(a_second, static_cast<double>(std::numeric_limits<std::int32_t>::max())));
    auto limit = limit::make_limit({.algorithm = limit::Algorithm::gcra,
                                    .quota = rate->quota,
                                    .duration = rate->per,
                                    .burst = std::max<std::int64_t>(1, burst)});
    if (!limit) {
        value.fault(limit.error().what);
        return;
    }
    bounds.messages = std::move(*limit);
}

}  // namespace

const Keys<TunnelBounds>& tunnel_keys() {
    static const auto keys =
        Keys<TunnelBounds>("a map: `{messages: 100/s, message_bytes: 1MiB}`")
            .own("messages", kind::off_or(kind::type("rate")), read_messages,
                 {"frames that a client may send through one WebSocket, such as `100/s`; those of "
                  "a second may come at once. Beyond, Tidegate closes it (1008)",
                  "`off`", "as a limit's rate"})
            .size_or_unlimited(
                "message_bytes", &TunnelBounds::message_bytes, 1,
                {"how large a client's message may be. Beyond, Tidegate closes the WebSocket "
                 "(1009)",
                 "`unlimited`", "from 1 B"});
    return keys;
}

void read_route_tunnel(Section& section, const Config& config, Route& route) {
    if (const auto upgrade = section.find("upgrade")) {
        read_upgrade(*upgrade, route);
        if (route.takes_websockets) refuse_over_http2(*upgrade, config, route);
    }
    const auto tunnel = section.find("tunnel");
    if (!tunnel) return;
    tunnel_keys().read(*tunnel, route.tunnel);
    if (!section.find("upgrade")) {
        tunnel->warn("has no effect: the route has no `upgrade: [websocket]`");
    }
}

bool has_tunnels(const Config& config) {
    return std::any_of(config.routes.begin(), config.routes.end(),
                       [](const Route& route) { return route.takes_websockets; });
}

}  // namespace tidegate::config

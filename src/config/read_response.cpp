// What clients are answered and how much of them is borne: `response`, `limits_on_requests`,
// `connections`, `timeouts`, and what is written about it all: `log`.
#include <algorithm>
#include <utility>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "config/field_text.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

using std::chrono::hours;

constexpr std::size_t kBodyBytesMax = 65'536;
constexpr std::int64_t kHeadBytesMax = 1'048'576;
constexpr std::int64_t kBodyRateMax = 1'073'741'824;

enum class AnswerField : std::uint8_t { ratelimit, retry_after, x_ratelimit };

void read_answer_fields(const Value& value, Response& response) {
    std::vector<AnswerField> fields;
    for (const Value& item : value.one_or_more("a list: `[ratelimit, retry-after]`")) {
        const auto field = item.choice<AnswerField>({{"ratelimit", AnswerField::ratelimit},
                                                     {"retry-after", AnswerField::retry_after},
                                                     {"x-ratelimit", AnswerField::x_ratelimit}});
        if (field) fields.push_back(*field);
    }
    const auto has = [&](AnswerField field) {
        return std::find(fields.begin(), fields.end(), field) != fields.end();
    };
    response.ratelimit_fields = has(AnswerField::ratelimit);
    response.retry_after_field = has(AnswerField::retry_after);
    response.x_ratelimit_fields = has(AnswerField::x_ratelimit);
}

void read_body(const Value& value, Response& response) {
    if (value.is("problem")) return;
    Section section(value, "`problem` or a map: `{content_type: text/plain, text: Slow down}`");
    if (const auto type = section.need("content_type", "`content_type: text/plain`")) {
        auto content_type = type->text("a content type such as `text/plain`");
        if (content_type &&
            (!is_field_value(*content_type) || content_type->find('/') == std::string::npos)) {
            type->fault(quote(*content_type) + " is not a content type such as `text/plain`");
        } else if (content_type) {
            response.content_type = std::move(*content_type);
        }
    }
    if (const auto text = section.need("text", "`text: Come back in {retry_after} seconds`")) {
        auto body = text->any_text();
        if (body && body->size() > kBodyBytesMax) {
            text->fault("longer than 64 KiB");
        } else if (body) {
            response.text = std::move(*body);
        }
    }
    section.refuse_others();
}

void read_body_rate(const Value& value, RequestBounds& bounds) {
    if (value.is_off()) {
        bounds.body_rate = 0;
    } else if (const auto text = value.text("a size such as `240`, or `off`")) {
        const auto rate = parse_size(*text);
        if (!rate || *rate < 1 || *rate > static_cast<std::uint64_t>(kBodyRateMax)) {
            value.fault(quote(*text) +
                        " is not a number of bytes a second from `1` to `1GiB`, such as `240` or "
                        "`8KiB`, nor `off`");
            return;
        }
        bounds.body_rate = *rate;
    }
}

void read_access(const Value& value, Log& log) {
    if (value.is_off()) {
        log.access_path.clear();
        return;
    }
    Section section(value, "`off` or a map: `{path: \"-\", format: json}`");
    if (const auto path = section.find("path")) {
        if (path->is_off()) {
            path->fault("no access log is `access: off`; here stands a path, or `-`");
        } else if (const auto text = path->text("a path, or `-` for standard output")) {
            log.access_path = *text == "-" ? *text : value.context().resolve(*text);
        }
    }
    section.choice<bool>("format", log.access_json, {{"json", true}, {"text", false}});
    if (const auto sample = section.find("sample")) {
        if (const auto share = sample->fraction()) log.sample = *share;
    }
    section.refuse_others();
}

}  // namespace

void read_response(const Value& value, Config& config) {
    Section section(value);
    section.integer("status", config.response.status, {400, 599});
    if (const auto headers = section.find("headers")) {
        read_answer_fields(*headers, config.response);
    }
    if (const auto body = section.find("body")) read_body(*body, config.response);
    section.refuse_others();
}

void read_limits_on_requests(const Value& value, Config& config) {
    RequestBounds& bounds = config.limits_on_requests;
    Section section(value);
    section.size("header_bytes", bounds.header_bytes, {1'024, kHeadBytesMax});
    section.integer("headers", bounds.headers, {1, 10'000});
    section.size("uri_bytes", bounds.uri_bytes, {64, kHeadBytesMax});
    if (const auto body = section.find("body_bytes")) {
        const auto bytes = body->size({0, std::numeric_limits<std::int64_t>::max()}, true);
        if (bytes) bounds.body_bytes = *bytes;
    }
    if (const auto rate = section.find("body_rate")) read_body_rate(*rate, bounds);
    section.refuse_others();
}

void read_connections(const Value& value, Config& config) {
    Section section(value);
    section.integer("max", config.connections.max, {1, 10'000'000});
    section.integer("per_ip", config.connections.per_ip, {0, 10'000'000});
    if (config.connections.per_ip > config.connections.max) {
        section.find("per_ip")->warn("more than connections.max: it is never reached");
    }
    section.refuse_others();
}

void read_timeouts(const Value& value, Config& config) {
    Timeouts& timeouts = config.timeouts;
    Section section(value);
    section.duration("request_head", timeouts.request_head);
    section.duration("request_body", timeouts.request_body);
    if (const auto total = section.find("request_body_total"); total && total->is_off()) {
        timeouts.request_body_total = milliseconds{0};
    } else if (total) {
        timeouts.request_body_total =
            total->duration({}, true).value_or(timeouts.request_body_total);
    }
    section.duration("client_write", timeouts.client_write);
    section.duration("client_idle", timeouts.client_idle);
    if (const auto hold = section.find("hold_aborted"); hold && hold->is_off()) {
        hold->fault("`off` is not a duration: write `0s` to give such slots back at once");
    } else {
        section.duration("hold_aborted", timeouts.hold_aborted, {milliseconds{0}, hours{1}});
    }
    section.duration("drain", timeouts.drain);
    section.duration("shutdown_delay", timeouts.shutdown_delay, {milliseconds{0}, hours{1}});
    section.not_available({"tunnel_idle", "tls_handshake"});
    section.refuse_others();
}

void read_log(const Value& value, Config& config) {
    Section section(value);
    if (const auto access = section.find("access")) read_access(*access, config.log);
    section.choice<LogLevel>("level", config.log.level,
                             {{"debug", LogLevel::debug},
                              {"info", LogLevel::info},
                              {"warn", LogLevel::warn},
                              {"error", LogLevel::error}});
    section.refuse_others();
}

}  // namespace tidegate::config

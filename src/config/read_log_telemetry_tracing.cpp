// `log`, `telemetry` and `tracing`: what people see of requests.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/file_work.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "http/field.hpp"

namespace tidegate::config {

namespace {

// No fault: the configuration may be checked on another machine than the proxy's.
void warn_if_folder_is_missing(const Value& value, const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (path == "-" || folder.empty()) return;
    std::error_code ec;
    const FileWait wait(path);
    if (std::filesystem::status(folder, ec).type() != std::filesystem::file_type::not_found) return;
    value.warn("the folder " + quote(folder.string()) +
               " does not exist: create it, or Tidegate does not start");
}

void read_access_path(const Value& value, LogSettings& log) {
    if (value.is_off()) {
        value.fault(
            "write a path, or `-` for standard output; `access: off` turns the access log off");
    } else if (const auto text = value.text("a path, or `-` for standard output")) {
        log.access_path = *text == "-" ? *text : value.context().resolve(*text);
        warn_if_folder_is_missing(value, log.access_path);
    }
}

const Keys<LogSettings>& access_log_keys() {
    static const auto keys =
        Keys<LogSettings>("`off` or a map: `{path: \"-\", format: json}`")
            .own("path", kind::type("text"), read_access_path,
                 {"`-` or `/dev/stdout` is standard output, `/dev/stderr` standard error; or a "
                  "file, in a folder that exists, or a named pipe that a program reads; `access: "
                  "off` for none",
                  "`-`"})
            .word<LogFormat>(
                "format", &LogSettings::access_format,
                {{"json", LogFormat::json},
                 {"text", LogFormat::text},
                 {"logfmt", LogFormat::logfmt}},
                {"`json`, [`text`](logging.md#the-text-form) or [`logfmt`](logging.md#logfmt)"})
            .fraction("sample", &LogSettings::sample,
                      {"share of forwarded requests logged; all others, and denials in shadow, "
                       "always are",
                       "`1.0`", "0 to 1"});
    return keys;
}

void read_access(const Value& value, LogSettings& log) {
    if (value.is_off()) {
        log.access_path.clear();
    } else {
        access_log_keys().read(value, log);
    }
}

}  // namespace

const Keys<LogSettings>& log_keys() {
    static const auto keys = Keys<LogSettings>()
                                 .own("access", kind::off_or(kind::map(access_log_keys())),
                                      read_access, {"the access log, or off"})
                                 .word<LogLevel>("level", &LogSettings::level,
                                                 {{"debug", LogLevel::debug},
                                                  {"info", LogLevel::info},
                                                  {"warn", LogLevel::warn},
                                                  {"error", LogLevel::error}},
                                                 {"of the error log, on standard error", "",
                                                  "`debug`, `info`, `warn`, `error`"});
    return keys;
}

void read_log(const Value& value, Config& config) {
    log_keys().read(value, config.log);
}

// `telemetry`: the data about clients that Tidegate keeps for operators.

namespace {

void read_top(const Value& value, Telemetry& telemetry) {
    constexpr auto kMin = static_cast<std::int64_t>(Telemetry::kTopMin);
    constexpr auto kMax = static_cast<std::int64_t>(Telemetry::kTopMax);
    if (value.is_off()) {
        telemetry.top = 0;
    } else if (const auto text = value.text("a number of names such as `1024`, or `off`")) {
        const auto names = parse_decimal(*text);
        if (names && *names >= kMin && *names <= kMax) {
            telemetry.top = static_cast<std::size_t>(*names);
        } else {
            value.fault(quote(*text) + " is not a number of names: write " + std::to_string(kMin) +
                        " to " + std::to_string(kMax) + ", or `off`");
        }
    }
}

}  // namespace

const Keys<Telemetry>& telemetry_keys() {
    static const auto keys = Keys<Telemetry>().own(
        "top",
        kind::any({kind::type("off"),
                   kind::written(R"({"type":"integer","minimum":64,"maximum":16384})"),
                   kind::type("number_text")}),
        read_top,
        {"names counted for each thread and kind, for "
         "[`top`](troubleshooting.md#top-and-denials); `off` keeps no names, nor the last denials",
         "`1024`", "64 to 16,384; or `off`"});
    return keys;
}

void read_telemetry(const Value& value, Config& config) {
    telemetry_keys().read(value, config.telemetry);
}

// `tracing`: where spans go, and of which requests.

namespace {

constexpr IntegerRange kQueueRange{64, 262'144};
constexpr std::size_t kServiceBytesMax = 256;

// The reader of a rate that `off` makes none.
auto kept_rate(Rate Tracing::*rate) {
    return [rate](const Value& value, Tracing& tracing) {
        if (value.is_off()) {
            (tracing.*rate).quota = 0;
        } else if (const auto read = value.parsed("a rate such as `10/s`, or `off`", parse_rate)) {
            if (read->quota == 0) {
                value.fault("write `off` to keep none");
            } else {
                tracing.*rate = *read;
            }
        }
    };
}

const Keys<Tracing>& keep_keys() {
    static const auto keys =
        Keys<Tracing>("`off` or a map: `{failed: 10/s, limited: 1/s}`")
            .own("failed", kind::off_or(kind::type("rate")), kept_rate(&Tracing::keep_failed),
                 {"requests that failed (5xx, or a broken answer), so many at most; `off` for none",
                  "`10/s`"})
            .own("limited", kind::off_or(kind::type("rate")), kept_rate(&Tracing::keep_limited),
                 {"the same of requests that a limit refused", "`1/s`"});
    return keys;
}

void read_keep(const Value& value, Tracing& tracing) {
    if (value.is_off()) {
        tracing.keep_failed.quota = tracing.keep_limited.quota = 0;
    } else {
        keep_keys().read(value, tracing);
    }
}

void read_otlp(const Value& value, Tracing& tracing) {
    const auto url =
        value.parsed("a URL such as `http://127.0.0.1:4318/v1/traces`", parse_collector_url);
    if (url) tracing.otlp = *url;
}

void read_service(const Value& value, Tracing& tracing) {
    const auto name = value.text("the name of this service, such as `tidegate`");
    if (name && name->size() > kServiceBytesMax) {
        value.fault("longer than " + std::to_string(kServiceBytesMax) + " bytes");
    } else if (name) {
        tracing.service = *name;
    }
}

// Requires that `otlp` has been read.
void read_collector_tls(const Value& value, Tracing& tracing) {
    tracing.tls = read_client_tls(value, collector_tls_keys(), "otel.internal");
    const bool is_url_known = !tracing.otlp.address.host.empty();
    if (is_url_known && !tracing.otlp.is_tls) {
        value.fault("the collector is not encrypted: write `https://` in `otlp`, or remove `tls`");
    }
}

// Fields that the exporter writes itself.
std::string_view why_of_exporter(std::string_view name) {
    constexpr auto kNames = std::to_array<std::string_view>(
        {"connection", "content-encoding", "content-length", "content-type", "expect", "host",
         "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"});
    const bool is_taken = std::any_of(kNames.begin(), kNames.end(),
                                      [&](auto one) { return http::equal_as_variable(name, one); });
    return is_taken ? "Tidegate writes this field itself" : "";
}

void read_collector_headers(const Value& value, Tracing& tracing) {
    constexpr std::size_t kCollectorFieldsMax = 16;
    constexpr ListRule kFields{"a map of fields and values: `{authorization: file:otlp.token}`",
                               "fields", kCollectorFieldsMax};
    for (const auto& [name, item] :
         read_added_fields(value, kFields, "authorization", why_of_exporter)) {
        const auto content = item.secret();
        if (!content) continue;
        if (!is_field_value(*content)) {
            // It may be a secret: the message does not repeat it.
            item.fault(
                "the text cannot be the value of a header field: it has control characters "
                "or white space around it");
            continue;
        }
        tracing.header_lines.append(name).append(": ").append(*content).append("\r\n");
    }
    if (!tracing.header_lines.empty() && !tracing.otlp.is_tls &&
        !tracing.otlp.address.host.empty() && !names_this_machine(tracing.otlp.address.host)) {
        value.warn(
            "`tracing.otlp` is not encrypted: everybody on the way to the collector can read "
            "these fields. Write `https://`, or send them to a collector on this machine");
    }
}

}  // namespace

const Keys<Tracing>& tracing_keys() {
    static const auto keys =
        Keys<Tracing>("a map: `{otlp: \"http://127.0.0.1:4318/v1/traces\"}`, or `off`")
            .own("otlp",
                 kind::url(
                     kind::written(R"({"type":"string","pattern":"^https?://[^/]+/.|\\$\\{"})")),
                 read_otlp,
                 {"where spans go, by OTLP/HTTP in JSON: `\"http://127.0.0.1:4318/v1/traces\"`, or "
                  "`https`, with the path",
                  "required"})
            .required("`otlp: \"http://127.0.0.1:4318/v1/traces\"`")
            .own("tls", kind::map(collector_tls_keys()), read_collector_tls,
                 {"what else TLS to the collector needs"})
            .fraction("sample", &Tracing::sample,
                      {"share of the traces that begin here and are exported", "`0.01`", "0 to 1"})
            .own("keep", kind::off_or(kind::map(keep_keys())), read_keep,
                 {"a map, or `off`: which others are exported for what became of them",
                  "`{failed: 10/s, limited: 1/s}`"})
            .word<bool>("accept", &Tracing::accept_anyone, {{"trusted", false}, {"anyone", true}},
                        {"whose traces are continued: of `trusted` peers "
                         "(`client_ip.trusted_proxies`), or of `anyone`",
                         "", "`trusted`, `anyone`"})
            .own("service", kind::type("text"), read_service,
                 {"`service.name` of the spans", "`tidegate`", "256 bytes"})
            .own(
                "headers",
                kind::written(
                    R"({"type":"object","maxProperties":16,"additionalProperties":{"$ref":"#/$defs/secret"}})"),
                read_collector_headers,
                {"a map: fields for the collector, at most 16; a value is text, or `file:` and a "
                 "path"})
            .secret()
            .integer("queue", &Tracing::queue, kQueueRange,
                     {"spans that may wait to be exported, of all threads together"});
    return keys;
}

void read_tracing(const Value& value, Config& config) {
    if (value.is_off()) return;
    auto tracing = std::make_unique<Tracing>();
    tracing_keys().read(value, *tracing);
    config.tracing = std::move(tracing);
}

}  // namespace tidegate::config

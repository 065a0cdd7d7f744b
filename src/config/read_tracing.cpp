// `tracing`: where spans go, and of which requests.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/header_field.hpp"
#include "config/read_sections.hpp"
#include "http/field.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::config {

namespace {

constexpr IntegerRange kQueueRange{64, 262'144};
constexpr std::size_t kServiceBytesMax = 256;

void read_kept_rate(Section& section, std::string_view key, Rate& rate) {
    const auto value = section.find(key);
    if (!value) return;
    if (value->is_off()) {
        rate.quota = 0;
    } else if (const auto read = value->parsed("a rate such as `10/s`, or `off`", parse_rate)) {
        if (read->quota == 0) {
            value->fault("write `off` to keep none");
        } else {
            rate = *read;
        }
    }
}

void read_keep(const Value& value, Tracing& tracing) {
    if (value.is_off()) {
        tracing.keep_failed.quota = tracing.keep_limited.quota = 0;
        return;
    }
    Section section(value, "`off` or a map: `{failed: 10/s, limited: 1/s}`");
    read_kept_rate(section, "failed", tracing.keep_failed);
    read_kept_rate(section, "limited", tracing.keep_limited);
    section.refuse_others();
}

// Requires that `otlp` has been read.
void read_collector_tls(const Value& value, Tracing& tracing) {
    const std::vector<Fault>& faults = value.context().faults;
    const std::size_t faults_before = faults.size();
    tracing.tls = read_client_tls(value, "otel.internal");
    const bool is_url_known = !tracing.otlp.address.host.empty();
    if (is_url_known && !tracing.otlp.is_tls) {
        value.fault("the collector is not encrypted: write `https://` in `otlp`, or remove `tls`");
    }
    if (faults.size() != faults_before) return;
    // OpenSSL has an opinion of its own, on the length of keys for one.
    if (const auto made = TlsClient::make(tracing.tls); !made) value.fault(made.error());
}

// Fields that the exporter writes itself.
bool is_of_exporter(std::string_view name) {
    constexpr auto kNames = std::to_array<std::string_view>(
        {"connection", "content-encoding", "content-length", "content-type", "expect", "host",
         "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"});
    return std::any_of(kNames.begin(), kNames.end(),
                       [&](auto one) { return http::equal_as_variable(name, one); });
}

void read_collector_headers(const Value& value, Tracing& tracing) {
    constexpr std::size_t kCollectorFieldsMax = 16;
    constexpr ListRule kFields{"a map of fields and values: `{authorization: file:otlp.token}`",
                               "fields", kCollectorFieldsMax};
    std::vector<std::string> names;
    for (const auto& [name, item] : value.named(kFields, false)) {
        const auto is_same = [&, &wanted = name](const std::string& other) {
            return http::equal_ignoring_case(other, wanted);
        };
        if (!is_token(name) || name.size() > kFieldNameBytesMax) {
            item.fault(quote(name) + " is not the name of a header field such as `authorization`");
            continue;
        }
        if (is_of_exporter(name)) {
            item.fault(quote(name) + " cannot be added: Tidegate writes this field itself");
            continue;
        }
        if (std::any_of(names.begin(), names.end(), is_same)) {
            item.fault(quote(name) + " is listed twice, in different case");
            continue;
        }
        names.push_back(name);
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

void read_tracing(const Value& value, Config& config) {
    if (value.is_off()) return;
    Section section(value, "a map: `{otlp: \"http://127.0.0.1:4318/v1/traces\"}`, or `off`");
    auto tracing = std::make_unique<Tracing>();
    if (const auto url = section.need("otlp", "`otlp: \"http://127.0.0.1:4318/v1/traces\"`")) {
        if (const auto read = url->parsed("a URL such as `http://127.0.0.1:4318/v1/traces`",
                                          parse_collector_url)) {
            tracing->otlp = *read;
        }
    }
    if (const auto tls = section.find("tls")) read_collector_tls(*tls, *tracing);
    if (const auto sample = section.find("sample")) {
        if (const auto share = sample->fraction()) tracing->sample = *share;
    }
    if (const auto keep = section.find("keep")) read_keep(*keep, *tracing);
    section.choice<bool>("accept", tracing->accept_anyone, {{"trusted", false}, {"anyone", true}});
    if (const auto service = section.find("service")) {
        const auto name = service->text("the name of this service, such as `tidegate`");
        if (name && name->size() > kServiceBytesMax) {
            service->fault("longer than " + std::to_string(kServiceBytesMax) + " bytes");
        } else if (name) {
            tracing->service = *name;
        }
    }
    if (const auto headers = section.find("headers")) read_collector_headers(*headers, *tracing);
    section.integer("queue", tracing->queue, kQueueRange);
    section.refuse_others();
    config.tracing = std::move(tracing);
}

}  // namespace tidegate::config

// The logfmt form of a line; log_line.cpp has the others.
#include <algorithm>

#include "telemetry/log_line.hpp"
#include "telemetry/log_line_bounds.hpp"

namespace tidegate::telemetry {

std::string_view LogLineFormatter::logfmt(const RequestRecord& record) {
    begin(record.time);
    put("time=");
    put_time();
    put_logfmt("id", record.request_id, kIdBytesMax);
    put_logfmt("client", record.client, kNameBytesMax);
    put_logfmt("method", record.method, kMethodBytesMax);
    put_logfmt("host", record.host, kHostBytesMax);
    put_logfmt("path", record.path, kPathBytesMax);
    put_logfmt("user_agent", record.user_agent, kUserAgentBytesMax);
    put_logfmt("route", record.route, kNameBytesMax);
    put(R"( identifiers=")");
    put_list(record);
    put("\"");
    put_logfmt("verdict", record.verdict, kNameBytesMax);
    put_logfmt("limited_by", record.limited_by, kNameBytesMax);
    put_logfmt("shadow_limited_by", record.shadow_limited_by, kNameBytesMax);
    put_logfmt("store", record.store, kNameBytesMax);
    put_logfmt("status", static_cast<std::uint64_t>(std::max(record.status, 0)));
    if (record.grpc_status >= 0) {
        put_logfmt("grpc_status", static_cast<std::uint64_t>(record.grpc_status));
    }
    put_logfmt("outcome", to_string(record.outcome), kNameBytesMax);
    put_logfmt("upstream", record.upstream, kNameBytesMax);
    put_logfmt("upstream_server", record.upstream_server, kNameBytesMax);
    put_logfmt("error", record.error, kNameBytesMax);
    put_logfmt("bytes_in", record.bytes_received);
    put_logfmt("bytes_out", record.bytes_sent);
    put_logfmt("duration_us", record.duration);
    put_logfmt("decision_us", record.decision);
    put_logfmt("upstream_us", record.upstream_time);
    put_logfmt("queue_us", record.queue_time);
    put_logfmt("tries", std::uint64_t{record.tries});
    put_logfmt("face", to_string(record.face), kNameBytesMax);
    put_logfmt("protocol", name_of(record.version), kNameBytesMax);
    return end();
}

void LogLineFormatter::put_logfmt(std::string_view name, std::string_view value,
                                  std::size_t bytes_max) {
    *out_++ = ' ';
    put(name);
    *out_++ = '=';
    // Readers take a bare `null` for a value that is not there.
    if (value.size() <= bytes_max && value != "null") {
        if (char* const end = write_if_plain_value(value, out_)) {
            out_ = end;
            return;
        }
    }
    *out_++ = '"';
    put_escaped(value, bytes_max);
    *out_++ = '"';
}

void LogLineFormatter::put_logfmt(std::string_view name, std::uint64_t value) {
    *out_++ = ' ';
    put(name);
    *out_++ = '=';
    put(value);
}

void LogLineFormatter::put_logfmt(std::string_view name, std::chrono::nanoseconds value) {
    *out_++ = ' ';
    put(name);
    *out_++ = '=';
    put(value);
}

}  // namespace tidegate::telemetry

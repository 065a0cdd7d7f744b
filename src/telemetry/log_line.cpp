#include "telemetry/log_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/json_escape.hpp"
#include "base/utf8.hpp"
#include "telemetry/log_line_bounds.hpp"

namespace tidegate::telemetry {

namespace {

char* put_decimal(char* out, unsigned value, int digits) {
    for (int i = digits - 1; i >= 0; --i, value /= 10) {
        out[i] = static_cast<char>('0' + value % 10);
    }
    return out + digits;
}

}  // namespace

std::string_view LogLineFormatter::line(LogFormat format, const RequestRecord& record) {
    static_assert(kLineBytesMax <= kBufferBytes);
    switch (format) {
        case LogFormat::json:
            return json(record);
        case LogFormat::text:
            return text(record);
        case LogFormat::logfmt:
            break;
    }
    return logfmt(record);
}

std::string_view LogLineFormatter::json(const RequestRecord& record) {
    begin(record.time);
    put(R"({"time":")");
    put_time();
    put(R"(","id":")");
    put_escaped(record.request_id, kIdBytesMax);
    put(R"(","client":")");
    put_escaped(record.client, kNameBytesMax);
    put(R"(","method":")");
    put_escaped(record.method, kMethodBytesMax);
    put(R"(","host":")");
    put_escaped(record.host, kHostBytesMax);
    put(R"(","path":")");
    put_escaped(record.path, kPathBytesMax);
    put(R"(","user_agent":")");
    put_escaped(record.user_agent, kUserAgentBytesMax);
    put(R"(","route":")");
    put_escaped(record.route, kNameBytesMax);
    put(record.identifiers.empty() ? R"(","identifiers":[)" : R"(","identifiers":[")");
    put_elements(record);
    put(record.identifiers.empty() ? R"(],"verdict":")" : R"("],"verdict":")");
    put_escaped(record.verdict, kNameBytesMax);
    put(R"(","limited_by":")");
    put_escaped(record.limited_by, kNameBytesMax);
    put(R"(","shadow_limited_by":")");
    put_escaped(record.shadow_limited_by, kNameBytesMax);
    put(R"(","store":")");
    put_escaped(record.store, kNameBytesMax);
    put(R"(","status":)");
    put(static_cast<std::uint64_t>(std::max(record.status, 0)));
    if (record.grpc_status >= 0) {
        put(R"(,"grpc_status":)");
        put(static_cast<std::uint64_t>(record.grpc_status));
    }
    put(R"(,"outcome":")");
    put(to_string(record.outcome));
    put(R"(","upstream":")");
    put_escaped(record.upstream, kNameBytesMax);
    put(R"(","upstream_server":")");
    put_escaped(record.upstream_server, kNameBytesMax);
    put(R"(","error":")");
    put_escaped(record.error, kNameBytesMax);
    put(R"(","bytes_in":)");
    put(record.bytes_received);
    put(R"(,"bytes_out":)");
    put(record.bytes_sent);
    put(R"(,"duration_us":)");
    put(record.duration);
    put(R"(,"decision_us":)");
    put(record.decision);
    put(R"(,"upstream_us":)");
    put(record.upstream_time);
    put(R"(,"queue_us":)");
    put(record.queue_time);
    put(R"(,"tries":)");
    put(std::uint64_t{record.tries});
    put(R"(,"face":")");
    put(to_string(record.face));
    put(R"(","protocol":")");
    put(name_of(record.version));
    put(R"("})");
    return end();
}

std::string_view LogLineFormatter::text(const RequestRecord& record) {
    begin(record.time);
    put_word(record.client, kNameBytesMax);
    put(" - - [");
    put({common_.data(), common_.size()});
    put(R"( +0000] ")");
    put_word(record.method, kMethodBytesMax);
    put(" ");
    put_word(record.path, kPathBytesMax);
    put(" ");
    put("HTTP/");
    put(number_of(record.version));
    put(R"(" )");
    put(static_cast<std::uint64_t>(std::max(record.status, 0)));
    put(" ");
    put(record.bytes_sent);
    put(R"( id=")");
    put_escaped(record.request_id, kIdBytesMax);
    put(R"(" host=")");
    put_escaped(record.host, kHostBytesMax);
    put(R"(" user_agent=")");
    put_escaped(record.user_agent, kUserAgentBytesMax);
    put(R"(" route=")");
    put_escaped(record.route, kNameBytesMax);
    put(R"(" identifiers=")");
    put_list(record);
    put(R"(" verdict=")");
    put_escaped(record.verdict, kNameBytesMax);
    put(R"(" limited_by=")");
    put_escaped(record.limited_by, kNameBytesMax);
    put(R"(" shadow_limited_by=")");
    put_escaped(record.shadow_limited_by, kNameBytesMax);
    put(R"(" store=")");
    put_escaped(record.store, kNameBytesMax);
    put(R"(" outcome=")");
    put(to_string(record.outcome));
    put(R"(" upstream=")");
    put_escaped(record.upstream, kNameBytesMax);
    put(R"(" upstream_server=")");
    put_escaped(record.upstream_server, kNameBytesMax);
    put(R"(" error=")");
    put_escaped(record.error, kNameBytesMax);
    put(R"(" bytes_in=")");
    put(record.bytes_received);
    put(R"(" duration_us=")");
    put(record.duration);
    put(R"(" decision_us=")");
    put(record.decision);
    put(R"(" upstream_us=")");
    put(record.upstream_time);
    put(R"(" queue_us=")");
    put(record.queue_time);
    put(R"(" tries=")");
    put(std::uint64_t{record.tries});
    put(R"(" face=")");
    put(to_string(record.face));
    if (record.grpc_status >= 0) {
        put(R"(" grpc_status=")");
        put(static_cast<std::uint64_t>(record.grpc_status));
    }
    put("\"");
    return end();
}

void LogLineFormatter::begin(std::chrono::system_clock::time_point time) {
    out_ = buffer_.data();
    update_time(time);
}

std::string_view LogLineFormatter::end() {
    *out_++ = '\n';
    return {buffer_.data(), static_cast<std::size_t>(out_ - buffer_.data())};
}

void LogLineFormatter::update_time(std::chrono::system_clock::time_point time) {
    using namespace std::chrono;
    const sys_seconds second = floor<seconds>(time);
    millisecond_ = static_cast<unsigned>(floor<milliseconds>(time - second).count());
    if (second == second_) return;
    second_ = second;

    static constexpr std::array<std::string_view, 12> kMonths{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const sys_days day = floor<days>(second);
    const year_month_day date{day};
    const hh_mm_ss clock{second - day};
    const auto year = static_cast<unsigned>(std::clamp(static_cast<int>(date.year()), 0, 9999));
    const auto month = static_cast<unsigned>(date.month());
    const auto day_of_month = static_cast<unsigned>(date.day());

    std::array<char, 8> hms;
    put_decimal(hms.data(), static_cast<unsigned>(clock.hours().count()), 2);
    hms[2] = hms[5] = ':';
    put_decimal(hms.data() + 3, static_cast<unsigned>(clock.minutes().count()), 2);
    put_decimal(hms.data() + 6, static_cast<unsigned>(clock.seconds().count()), 2);

    char* out = put_decimal(rfc3339_.data(), year, 4);
    *out++ = '-';
    out = put_decimal(out, month, 2);
    *out++ = '-';
    out = put_decimal(out, day_of_month, 2);
    *out++ = 'T';
    std::memcpy(out, hms.data(), hms.size());

    out = put_decimal(common_.data(), day_of_month, 2);
    *out++ = '/';
    out = std::copy_n(kMonths[month - 1].data(), 3, out);
    *out++ = '/';
    out = put_decimal(out, year, 4);
    *out++ = ':';
    std::memcpy(out, hms.data(), hms.size());
}

void LogLineFormatter::put_time() {
    put({rfc3339_.data(), rfc3339_.size()});
    *out_++ = '.';
    out_ = put_decimal(out_, millisecond_, 3);
    *out_++ = 'Z';
}

void LogLineFormatter::put(std::string_view text) {
    out_ = std::copy_n(text.data(), text.size(), out_);
}

void LogLineFormatter::put(std::uint64_t number) {
    out_ = std::to_chars(out_, out_ + 20, number).ptr;
}

void LogLineFormatter::put(std::chrono::nanoseconds time) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0)));
}

void LogLineFormatter::put_escaped(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped(text, out_);
    } else {
        out_ = write_json_escaped(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_word(std::string_view text, std::size_t bytes_max) {
    if (text.empty()) return put("-");
    if (text.size() == 1 && text.front() == '-') return put(R"(\u002d)");
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped_word(text, out_);
    } else {
        out_ = write_json_escaped_word(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_elements(const RequestRecord& record) {
    const std::size_t count = std::min(record.identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) put(R"(",")");
        put_escaped(record.identifiers[i], kIdentifierBytesMax);
    }
}

void LogLineFormatter::put_list(const RequestRecord& record) {
    const std::size_t count = std::min(record.identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) *out_++ = ',';
        const std::string_view identifier = record.identifiers[i];
        char* const end = identifier.size() <= kIdentifierBytesMax
                              ? write_if_plain_item(identifier, out_)
                              : nullptr;
        if (end != nullptr) {
            out_ = end;
        } else {
            put_quoted_item(identifier);
        }
    }
}

void LogLineFormatter::put_quoted_item(std::string_view identifier) {
    const std::string_view shown = utf8_prefix(identifier, kIdentifierBytesMax);
    std::array<char, kIdentifierBytesMax * kEscapedBytesMax> escaped;
    const char* const end = write_json_escaped(shown, escaped.data());
    put(R"(\")");
    out_ =
        write_json_escaped({escaped.data(), static_cast<std::size_t>(end - escaped.data())}, out_);
    if (shown.size() < identifier.size()) put("...");
    put(R"(\")");
}

}  // namespace tidegate::telemetry

// Which versions of HTTP a listener takes, and what a connection in HTTP/2 may cost: `http` of a
// listener, and `http2`.
#include <algorithm>
#include <chrono>
#include <string>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::int64_t kWindowMax = 2'147'483'647;  // RFC 9113 section 6.9.1
// That every connection begins with: only streams have less (section 6.9.2).
constexpr std::int64_t kConnectionWindowMin = 65'535;
constexpr std::int64_t kStreamWindowMin = 1'024;
constexpr std::int64_t kBufferedMax = 68'719'476'736;

// The nearest of the valid words would be `http1`.
constexpr std::string_view kNamesOfHttp2[] = {"http2",  "http/2", "http2.0", "http/2.0",
                                              "HTTP/2", "h2c",    "2",       "2.0"};

struct Bound {
    std::string_view key;
    std::size_t bytes;

    std::string shown() const {
        return quote(key) + ", which is " + std::to_string(bytes) + " bytes";
    }
};

// Reports an `inner` that is larger than `outer`, where one of them is written.
void check_fits(Section& section, const Bound& inner, const Bound& outer, const std::string& why) {
    if (inner.bytes <= outer.bytes) return;
    if (const auto value = section.find(inner.key)) {
        value->fault("is larger than " + outer.shown() + ": " + why + ". Lower this, or raise " +
                     quote(outer.key));
    } else if (const auto other = section.find(outer.key)) {
        other->fault("is smaller than " + inner.shown() + ": " + why + ". Raise this, or lower " +
                     quote(inner.key));
    }
}

void read_abuse_rate(const Value& value, Http2& http2) {
    using std::chrono::microseconds;
    constexpr microseconds kIntervalMax = std::chrono::minutes{1};
    const auto rate = value.parsed("a rate such as `100/s`", parse_rate);
    if (!rate) return;
    const bool is_some = rate->quota > 0;
    const microseconds interval = is_some ? rate->per / rate->quota : microseconds{0};
    if (interval < microseconds{1} || interval > kIntervalMax) {
        value.fault(
            "write how many such frames a connection may send in a time, from `1/min` to "
            "`1000000/s`");
        return;
    }
    http2.abuse_per = *rate;
}

const Keys<Http2>& abuse_keys() {
    static const auto keys =
        Keys<Http2>("a map: `{burst: 1000, per: 100/s}`")
            .integer("burst", &Http2::abuse_burst, {1, 1'000'000}, {"how many at once"})
            .own("per", kind::type("rate"), read_abuse_rate,
                 {"how many come back in a time; one more for each answer that ends well",
                  "`100/s`", "1/min to 1,000,000/s"});
    return keys;
}

}  // namespace

std::optional<bool> read_http_version(const Value& item) {
    for (const std::string_view name : kNamesOfHttp2) {
        if (!item.is(name)) continue;
        item.fault("unknown value " + quote(name) +
                   "; did you mean `h2`? Allowed here: `h2` or `http1`");
        return std::nullopt;
    }
    return item.choice<bool>({{"h2", true}, {"http1", false}}, {"h3", "http3"});
}

void read_http_versions(Section& listener, Listen& listen) {
    constexpr ListRule kVersions{"a protocol or a list of them: `[h2, http1]`", "protocols", 4,
                                 "the list is empty: clients need a protocol, `[h2, http1]`"};
    const auto http = listener.find("http");
    if (!http) return;
    std::vector<bool> found;
    for (const Value& item : http->one_or_more(kVersions)) {
        if (const auto is_http2 = read_http_version(item)) {
            add_once(item, *is_http2 ? "`h2`" : "`http1`", *is_http2, found);
        }
    }
    if (found.empty()) return;
    listen.takes_http1 = std::find(found.begin(), found.end(), false) != found.end();
    listen.takes_http2 = std::find(found.begin(), found.end(), true) != found.end();
}

const Keys<Http2>& http2_keys() {
    static const auto keys =
        Keys<Http2>("a map: `{streams: 100}`")
            .integer("streams", &Http2::streams, {1, 10'000},
                     {"requests that an HTTP/2 connection may have in service at a time; more are "
                      "refused (`REFUSED_STREAM`) and not counted"})
            .live(Live::next_connection)
            .size("stream_window", &Http2::stream_window, {kStreamWindowMin, kWindowMax},
                  {"how much of a request's body may be on its way (the stream's window)", "",
                   "1 KiB to 2 GiB - 1; at most `connection_window`"})
            .live(Live::next_connection)
            .size("connection_window", &Http2::connection_window,
                  {kConnectionWindowMin, kWindowMax},
                  {"the same for all bodies of a connection together", "",
                   "65,535 B to 2 GiB - 1; at most `buffered`"})
            .live(Live::next_connection)
            .size("buffered", &Http2::buffered, {kConnectionWindowMin, kBufferedMax},
                  {"bodies that a thread holds for all its HTTP/2 connections; beyond, Tidegate "
                   "lets clients of addresses with more than their share send no more until "
                   "upstreams have taken some"})
            .integer("cookie_crumbs", &Http2::cookie_crumbs, {1, 10'000},
                     {"`cookie` fields of a request that count as one in "
                      "`limits_on_requests.headers`; more: 431"})
            .live(Live::next_connection)
            .own("abuse", kind::map(abuse_keys()),
                 [](const Value& abuse, Http2& http2) { abuse_keys().read(abuse, http2); },
                 {"`{burst, per}`: frames of a connection that serve no request, such as resets, "
                  "`SETTINGS`, `PING`; beyond, Tidegate closes it (`ENHANCE_YOUR_CALM`)",
                  "`{burst: 1000, per: 100/s}`"})
            .live(Live::next_connection);
    return keys;
}

void read_http2(const Value& value, Config& config) {
    if (value.is_off() || value.is_on()) {
        value.fault(
            "which listeners take HTTP/2 is written for each of them, in `listen`: `http: [h2, "
            "http1]` or `http: [http1]`");
        return;
    }
    const std::size_t faults_before = value.context().faults.size();
    Http2& http2 = config.http2;
    Section section = http2_keys().read(value, http2);
    if (value.context().faults.size() != faults_before) return;
    const Bound connection{"connection_window", http2.connection_window};
    check_fits(section, {"stream_window", http2.stream_window}, connection,
               "the streams of a connection share its window");
    check_fits(section, connection, {"buffered", http2.buffered},
               "a thread holds the bodies of all its connections in it");
}

}  // namespace tidegate::config

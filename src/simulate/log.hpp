// Access logs as lists of requests: the formats of other proxies and our own, told by their first
// lines, and members of JSON that the command line names.
//
// Lines are what clients made of them: each is bounded, and a line that is not understood is
// refused with a reason. Pure; one thread for each reader.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "base/ip.hpp"
#include "base/result.hpp"
#include "limit/limit.hpp"
#include "limit/time_zone.hpp"

namespace tidegate::simulate {

using limit::Micros;

// `combined` is `common` with Referer and User-Agent, and what the log has behind them: nginx,
// Apache, Traefik, and our own `text`. `tidegate` is our own JSON. `json` has only what --map
// names. `recording` is what `tidegate simulate --record` writes.
BOOST_DEFINE_FIXED_ENUM_CLASS(LogFormat, std::uint8_t, common, combined, haproxy, alb, caddy,
                              traefik, tidegate, logfmt, json, recording)

constexpr bool is_json(LogFormat format) {
    return format == LogFormat::caddy || format == LogFormat::traefik ||
           format == LogFormat::tidegate || format == LogFormat::recording ||
           format == LogFormat::json;
}

// What a line says of a request, as the engine needs it.
BOOST_DEFINE_FIXED_ENUM_CLASS(LogText, std::uint8_t, client,
                              forwarded_for,  // the field X-Forwarded-For
                              method,
                              target,  // the path, with the query if the log has it
                              host, user, tier, model,
                              answer_model,  // that the answer names
                              charges)       // of a recording, see take_recorded_charge()
BOOST_DEFINE_FIXED_ENUM_CLASS(LogNumber, std::uint8_t, status, duration_us, usage_input,
                              usage_cached, usage_cache_write, usage_output, usage_cost,
                              refused_elsewhere)  // 1: for an identifier that the recording lacks
inline constexpr std::size_t kLogTexts = kEnumerators<LogText>.size();
inline constexpr std::size_t kLogNumbers = kEnumerators<LogNumber>.size();

// A line that is longer is not read. Tidegate's own are below 8 KiB.
inline constexpr std::size_t kLineBytesMax = 65'535;

// How late a line of a log may come, unless the layout says another time: seconds.
inline constexpr std::int64_t kOrderSeconds = 60;

// Texts go into the line or into the reader, until it reads the next line.
struct LoggedRequest {
    static constexpr std::int64_t kUnknown = -1;

    Micros time{0};
    Micros again{0};  // the second moment of that text, see LogTime; 0: there is one only
    bool is_whole_second = false;  // the log has no fraction of a second
    bool is_end = false;           // `time` is when the request ended; else when it began
    std::array<std::int64_t, kLogNumbers> numbers{};
    std::array<std::string_view, kLogTexts> texts{};
    std::vector<std::string_view> values;  // of LogLayout::wanted
    std::optional<IpAddress> address;      // what `client` says, if that is an address

    std::string_view& text(LogText which) { return texts[static_cast<std::size_t>(which)]; }
    std::string_view text(LogText which) const { return texts[static_cast<std::size_t>(which)]; }
    std::int64_t& number(LogNumber which) { return numbers[static_cast<std::size_t>(which)]; }
    std::int64_t number(LogNumber which) const { return numbers[static_cast<std::size_t>(which)]; }
    void reset(std::size_t value_count);
};

// A moment as logs write it.
struct LogTime {
    Micros at{0};
    bool is_whole_second = false;
    std::string_view fault{};  // not empty: it is none
    // Where the clocks of the zone were set back and show the time twice: the second moment. Else
    // 0.
    Micros again{0};
};

// RFC 3339, also with a space for `T` and `+0100` for `+01:00`; `29/Nov/2026:10:00:00.123 +0100`;
// Unix time in seconds, milliseconds, microseconds or nanoseconds. A time without an offset is read
// by `zone`; null: it is refused.
LogTime read_log_time(std::string_view text, const limit::TimeZone* zone);

// `0.012` in seconds, `12ms`, `1.5s`, `1h2m3.5s`, `800us`, `800µs`, `300ns`. Nothing for anything
// else.
std::optional<std::int64_t> read_log_duration(std::string_view text);

// Resolves `\"`, `\\`, `\n`, `\xHH` and `\uHHHH`. The view goes into `text`, or into `room`.
std::string_view unescaped(std::string_view text, std::string& room);

// What a request took from a policy for an identifier, as a recording has it: `per-client
// 0123456789abcdef0123456789abcdef 1 gold`.
struct RecordedCharge {
    std::string_view policy;
    std::string_view identifier;  // a digest
    std::int64_t cost = 0;
    std::string_view tier;  // empty: none
};
// Cuts the first charge off a list with `;` between. Nothing: that is none.
std::optional<RecordedCharge> take_recorded_charge(std::string_view& rest);

// What `--map OURS=THEIRS` says: where the log has a fact.
struct LogMapping {
    std::string ours;    // `time`, `client`, `header:x-tenant`
    std::string theirs;  // `request.uri` or `/request/uri`; of lines of text the number of a word
};

// The error says what is wrong.
Result<LogMapping, std::string> parse_mapping(std::string_view text);
// The names that `ours` may be, for messages.
std::vector<std::string_view> mapped_names();

// What a simulation wants of a log.
struct LogLayout {
    std::vector<std::string> wanted;  // `header:x-tenant`, `cookie:session`, `claim:plan`
    std::vector<LogMapping> map;
    std::shared_ptr<const limit::TimeZone> zone;  // of times without an offset; null: none
    std::string host;  // of requests whose line names none; empty: it is not known
    // Whether a line of a request is unread whose client is no address.
    bool needs_address = true;
    std::int64_t order_seconds = kOrderSeconds;  // see LogOrder
};

// Reads the lines of one log.
class LogReader {
  public:
    LogReader(LogFormat format, const LogLayout& layout);
    ~LogReader();
    LogReader(LogReader&&) noexcept;
    LogReader& operator=(LogReader&&) noexcept;

    LogFormat format() const;
    // Reads a line without its line end. Empty: it is read; else why not. A line about a
    // connection without a request has an empty method.
    std::string_view read(std::string_view line, LoggedRequest& out);
    // Forgets the lines before, and keeps what they told of the format: the next one is the first.
    void begin_again();

    // Whether lines of this format say that at all.
    bool gives(LogText text) const;
    bool gives(LogNumber number) const;
    bool gives_value(std::size_t wanted) const;
    // Whether targets have their queries.
    bool gives_query() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// How many lines tell the format.
inline constexpr std::size_t kTellingLines = 100;

// The format of which most of `lines` are, or why it cannot be told. A layout with `time` mapped
// makes lines of JSON `json`.
Result<LogFormat, std::string> tell_format(std::span<const std::string> lines,
                                           const LogLayout& layout);

// Puts the requests of a log in the order of their times.
//
// Proxies write a line when a request ends, several of them write to one log, and many logs have
// no fractions of a second. A window of a minute, or of another time, holds the requests until none
// can come before them; what comes later than that is counted and left out.
inline constexpr std::int64_t kOrderSecondsMax = 86'400;

// How many requests are handed out at once, at most: what they need of memory is loaded together.
inline constexpr std::size_t kRequestsAtOnce = 16;
using UseRequests = std::function<void(std::span<const LoggedRequest>)>;

// One thread. Requests are copied; those that are handed out are valid during the call.
class LogOrder {
  public:
    // Bytes that wait at most, about. A second with more is handed out in portions.
    static constexpr std::size_t kBytesMax = 512U << 20;

    // `seconds`: how long the window is, from 1 to kOrderSecondsMax.
    explicit LogOrder(UseRequests release, std::int64_t seconds = kOrderSeconds,
                      std::size_t bytes_max = kBytesMax);

    // Adds a request. False: it is more than the window before one that was added, and is left
    // out. Times of whole seconds are spread over their second, in the order in which they came.
    bool add(const LoggedRequest& request);
    // The newest time that was added, as a whole second; 0: nothing was added.
    Micros newest() const { return std::chrono::seconds{std::max<std::int64_t>(0, newest_)}; }
    // Hands out all that wait.
    void finish();

  private:
    struct Place {
        std::int64_t time;
        std::size_t offset;
    };
    struct Second {
        std::vector<char> bytes;
        std::vector<Place> places;
        std::size_t whole = 0;  // how many have no fraction
    };

    Second& second_at(std::int64_t second) {
        return seconds_[static_cast<std::size_t>(second) & (seconds_.size() - 1)];
    }
    void hand_out(std::int64_t second);
    void hand_out_before(std::int64_t second);

    UseRequests release_;
    std::int64_t window_;  // seconds
    std::size_t bytes_max_;
    std::vector<Second> seconds_;  // a power of 2 of them, more than the window has
    std::int64_t oldest_ = 0;      // seconds before it are empty
    std::int64_t newest_ = -1;     // negative: nothing was added
    std::size_t bytes_ = 0;
    std::array<LoggedRequest, kRequestsAtOnce> requests_;
};

// Where lines of a format have the facts of a request, and how a fact is taken from its text.

// What a fact of a line becomes.
struct LogField {
    enum class Kind : std::uint8_t {
        text,     // `index` is a LogText
        number,   // `index` is a LogNumber
        value,    // `index` is a place in LogLayout::wanted
        begin,    // when the request began
        end,      // when it ended
        seconds,  // how long it took; a text may have its own unit
        millis,   // likewise, in milliseconds
        micros,
        nanos,
        request,      // `GET /path HTTP/1.1`
        identifiers,  // one that Tidegate counted, or a list of them between commas
    };

    Kind kind = Kind::text;
    std::size_t index = 0;
    std::string theirs;  // a JSON pointer, the name of a member, or the number of a word
};

// The facts that lines of one format have. One reader, one thread.
class LogFields {
  public:
    LogFields(LogFormat format, const LogLayout& layout);

    const std::vector<LogField>& all() const { return fields_; }
    bool gives(LogField::Kind kind, std::size_t index) const;
    bool gives_duration() const;

    // Takes `text` for `field`; a fact that came before stays. Empty, `-` and `null` say nothing.
    // Returns what is wrong, or nothing. `out` has views of `text`.
    std::string_view take(const LogField& field, std::string_view text, LoggedRequest& out);
    // Takes a pair `name=text` of logfmt, or of our text form.
    std::string_view take_named(std::string_view name, std::string_view text, LoggedRequest& out);
    // Takes a time, with a cache for the text of the last one.
    std::string_view take_time(std::string_view text, LoggedRequest& out);
    // Takes the time of the line before, for a line that has none. False: there was none.
    bool repeat_time(LoggedRequest& out) const;
    void forget_time() { last_time_text_.clear(); }
    // Takes `GET /path HTTP/1.1`, without its quotes and with its escapes.
    void take_request(std::string_view line, LoggedRequest& out);

  private:
    void take_identifiers(std::string_view list, LoggedRequest& out);
    void take_identifier(std::string_view identifier, LoggedRequest& out);
    void add_defaults(LogFormat format);
    void add_wanted(LogFormat format);
    void add(LogField::Kind kind, std::size_t index, std::string theirs);

    std::vector<std::string> wanted_;
    std::shared_ptr<const limit::TimeZone> zone_;
    std::vector<LogField> fields_;
    std::size_t mapped_ = 0;  // the first of them come from --map
    std::string last_time_text_;
    LogTime last_time_;
    std::string target_room_;
    std::string user_room_;
    std::vector<std::string> value_rooms_;
};

}  // namespace tidegate::simulate

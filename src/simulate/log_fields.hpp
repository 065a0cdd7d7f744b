// Where lines of a format have the facts of a request, and how a fact is taken from its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/log.hpp"

namespace tidegate::simulate {

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

// Takes apart streams of events as their bytes pass, without holding an event: server-sent events
// (WHATWG HTML, section 9.2) and the binary event streams of Amazon
// (application/vnd.amazon.eventstream). Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <boost/crc.hpp>

namespace tidegate::usage {

// Whether this is the data of a stream's last event: OpenAI's is no JSON, and Anthropic's is as
// short as its type. None is longer than kLastEventMax.
inline constexpr std::size_t kLastEventMax = 64;
bool is_last_event(std::string_view event);

// The first name of a pointer as it begins in the text of a document; empty if JSON may escape it.
std::string mark_of(std::string_view pointer);

bool contains(std::string_view text, std::string_view part);
// Whether `mark` is in `event` with another value than null behind it. OpenAI's events of a stream
// whose client asked for usage all have `"usage":null` but the last.
bool has_value(std::string_view event, std::string_view mark);

struct EventPart {
    enum class Kind : std::uint8_t {
        none,        // all bytes are used up
        data,        // the next bytes of the event's data
        whole,       // an event whose data is here from its first byte to its last
        end,         // the event of the last `data` has ended
        unreadable,  // the event has ended; its data is too long or damaged, so forget it
    };
    Kind kind = Kind::none;
    std::string_view data;  // points into the bytes that next() took, or to a constant
};

class ServerSentEvents {
  public:
    // A longer line makes its event unreadable. The last event of OpenAI's Responses API repeats
    // the whole answer, its instructions and its tools. No memory is held for it.
    static constexpr std::size_t kLineMax = std::size_t{64} * 1024 * 1024;

    // Takes the next part off the front of `bytes`. To be called until it returns `none`. An event
    // that no empty line ends has no end, as the standard says.
    EventPart next(std::string_view& bytes);

  private:
    enum class At : std::uint8_t { line, name, first_of_value, value, ignored };

    static bool skip_type(std::string_view& bytes);
    EventPart whole_event(std::string_view& bytes);
    EventPart end_line(std::string_view& bytes);
    EventPart begin_data();
    EventPart end_event();
    void read_name(std::string_view& bytes);
    EventPart value(std::string_view& bytes);

    At at_ = At::line;
    bool skip_newline_ = false;  // the last byte was a carriage return
    bool has_data_ = false;      // this event has a line `data`
    bool is_unreadable_ = false;
    std::uint8_t mark_ = 0;  // bytes of the byte order mark at the beginning; above 2: past it
    std::uint8_t name_ = 0;  // bytes of "data" that the line begins with
    std::size_t line_ = 0;   // bytes of this line
};

// Yields the data of the events of one type or two.
class AmazonEvents {
  public:
    // What Amazon's own libraries take at most.
    static constexpr std::uint32_t kMessageMax = std::uint32_t{24} * 1024 * 1024;
    // The headers of an event that is looked for; those of Bedrock have about 100 bytes.
    static constexpr std::uint32_t kHeadersMax = 1024;

    // Events with `:message-type` event and `:event-type` `type` or `further`, which must live as
    // long.
    explicit AmazonEvents(std::string_view type, std::string_view further = {})
        : type_(type), further_(further) {}

    // As ServerSentEvents::next(). After a message whose lengths are wrong or damaged nothing more
    // can be found: one `unreadable`, then `none` for all further bytes.
    EventPart next(std::string_view& bytes);
    bool is_broken() const { return at_ == At::broken; }
    // Whether the last `data`, `end` or `unreadable` is of the further type.
    bool is_further() const { return is_further_; }

  private:
    enum class At : std::uint8_t { prelude, headers, payload, checksum, broken };
    static constexpr std::size_t kPrelude = 12;
    static constexpr std::size_t kChecksum = 4;

    bool collect(std::string_view& bytes, std::size_t size);
    bool read_prelude();
    bool is_wanted();

    std::string_view type_;
    std::string_view further_;
    bool is_further_ = false;
    At at_ = At::prelude;
    bool wanted_ = false;
    std::uint32_t headers_ = 0;  // bytes of headers, still to come or to skip
    std::uint32_t payload_ = 0;  // bytes of data still to come
    std::string buffer_;         // of the prelude, the headers or the checksum
    boost::crc_32_type crc_;
};

// Takes the chunk with the usage out of a stream of OpenAI's chat completions, for a client that
// did not ask for it.
//
// One answer, whose body is server-sent events. Owned by its request, on its thread.
//
// The filter removes an event whose data is a JSON object with the members `choices`, an empty
// array, and `usage`, an object: each once, and its name written without escapes. It keeps comments
// inside of that event, and all other bytes as they are. An event that cannot be such a chunk
// passes as soon as that is known: at its first choice, or at a `usage` that is null.
class UsageChunkFilter {
  public:
    // Bytes of one event that the filter holds; a longer one passes.
    static constexpr std::size_t kHeldMax = std::size_t{64} * 1024;

    // Appends to `out` what the client gets of the next bytes of the body.
    void take(std::string_view piece, std::string& out);
    // The body has ended. Appends what is held: an event that no empty line ends is none.
    void end(std::string& out);

  private:
    // Follows the text of an event's data and says when it cannot be the chunk. What it lets pass
    // may still be no JSON.
    class Scan {
      public:
        // False: this is not the chunk. Then nothing more may be asked.
        bool next(char c);
        // The object has ended, with both members.
        bool is_whole() const { return at_ == At::end; }

      private:
        enum class At : std::uint8_t { begin, member, name, colon, value, choices, inside, end };

        void begin_name();
        bool read_name(char c);
        bool begin_value(char c);
        bool pass_over(char c);
        bool end_object();
        bool is_named(std::string_view name) const;

        At at_ = At::begin;
        bool in_text_ = false;
        bool is_escaped_ = false;
        bool has_choices_ = false;
        bool has_usage_ = false;
        std::uint8_t name_size_ = 0;  // at most one more than name_ holds
        std::array<char, 8> name_{};
        std::uint32_t depth_ = 0;  // of the value that is passed over
    };

    enum class At : std::uint8_t { line, name, first_of_value, value, ignored, comment };

    bool take_rest_of_line(char c, std::string& out);
    bool take_mark(char c, std::string& out);
    void read(char c);
    void begin_data();
    void put(char c, std::string& out);
    void end_line(char c, std::string& out);
    void end_event(char c, std::string& out);
    void release(std::string& out);
    bool is_chunk() const;

    std::string held_;  // of the event, while it may be the chunk
    Scan scan_;
    At at_ = At::line;
    bool passes_ = false;        // the event is not the chunk
    bool has_data_ = false;      // the event has a line `data`
    bool skip_newline_ = false;  // the last byte was a carriage return
    bool drop_newline_ = false;  // and it was the last one of a chunk
    std::uint8_t mark_ = 0;      // bytes of the byte order mark at the beginning; 3: past it
    std::uint8_t name_ = 0;      // bytes of "data" that the line begins with
};

}  // namespace tidegate::usage

// Takes the chunk with the usage out of a stream of OpenAI's chat completions, for a client that
// did not ask for it. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidegate::usage {

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

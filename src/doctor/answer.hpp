// What a Redis or a sentinel answers, as a tree of values; made of bytes as they come. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace tidegate::doctor {

struct Answer {
    enum class Kind : std::uint8_t { text, integer, error, nil, list };
    Kind kind = Kind::nil;
    std::string text{};  // of a text or an error; of an integer in decimal
    std::int64_t integer = 0;
    std::vector<Answer> items{};  // of a list

    bool is_error() const { return kind == Kind::error; }
    // Whether it is an error that begins so.
    bool is_error(std::string_view code) const { return is_error() && text.starts_with(code); }
    // Of a flat list of names and values: the value of `name`; empty if there is none.
    std::string_view value_of(std::string_view name) const;
};

// `text` without `secret`, wherever it stands in it; nothing is hidden when that is empty.
std::string without_secret(std::string_view text, std::string_view secret);

// What of an error may be shown: old servers repeat the words of a command they do not know, and
// others any words they like; one of AUTH's is the password. In quotes.
std::string shown_error(std::string_view error, std::string_view password);

class AnswerReader {
  public:
    AnswerReader();
    ~AnswerReader();
    AnswerReader(const AnswerReader&) = delete;
    AnswerReader& operator=(const AnswerReader&) = delete;

    // False, for good: this is not RESP, or more of it than any answer needs.
    bool feed(std::string_view bytes);
    // The next whole answer, if it is there.
    std::optional<Answer> next();
    bool is_broken() const { return broken_; }

  private:
    struct Hooks;  // hiredis's C callbacks
    struct Free {
        void operator()(redisReader* reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    std::size_t values_ = 0;  // in the answer that is being read
    bool broken_ = false;
};

}  // namespace tidegate::doctor

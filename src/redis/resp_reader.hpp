// Reads RESP, the protocol of Redis: replies as trees of values, from bytes as they arrive. Pure.
//
// For sentinels and the doctor. Decisions read their replies in HiredisConnection, which keeps no
// trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace tidegate::redis {

struct RespValue {
    enum class Kind : std::uint8_t { text, integer, error, nil, list };
    Kind kind = Kind::nil;
    std::string text{};  // of a text or an error; of an integer in decimal
    std::int64_t integer = 0;
    std::vector<RespValue> items{};  // of a list

    bool is_list() const { return kind == Kind::list; }
    bool is_error() const { return kind == Kind::error; }
    // Whether it is an error that begins with `code`.
    bool is_error(std::string_view code) const { return is_error() && text.starts_with(code); }
    // Of a flat list of names and values: the value of `name`; empty if there is none.
    std::string_view value_of(std::string_view name) const;
};

class RespReader {
  public:
    RespReader();
    ~RespReader();
    RespReader(const RespReader&) = delete;
    RespReader& operator=(const RespReader&) = delete;

    // False, for good: the bytes are not RESP, or more than any reply needs.
    bool feed(std::string_view bytes);
    // The next whole reply, if it has arrived.
    std::optional<RespValue> next();
    bool is_broken() const { return broken_; }

  private:
    struct Hooks;  // hiredis's C callbacks
    struct Free {
        void operator()(redisReader* reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    std::size_t values_ = 0;  // in the reply that is being read
    bool broken_ = false;
};

}  // namespace tidegate::redis

// The chunked transfer coding (RFC 9112 section 7.1), both ways. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/head.hpp"

namespace tidegate::http {

struct TrailerBounds {
    std::size_t bytes = 32'768;
    std::size_t fields = 100;
};

// Takes chunked bytes apart. Strict: CR LF everywhere, sizes of at most 15 hexadecimal digits,
// extensions held to their grammar and dropped, trailers held to the grammar of fields.
class ChunkedDecoder {
  public:
    enum class State : std::uint8_t {
        more,  // `input` was too short to go on: come again with what `consumed` leaves and more
        data,  // `data` is content, a view into `input`
        done,  // the body has ended; `trailers` are views into `input`
        bad,   // not chunked coding: break the connection
    };
    struct Step {
        State state;
        std::size_t consumed = 0;  // what the caller drops from the front of `input`
        std::string_view data = {};
    };

    // A size line and the trailer section must fit into what the caller can hold at once; the
    // caller that has no more room for State::more treats it as bad.
    static constexpr std::size_t kSizeLineMax = 4096;

    Step next(std::string_view input, const TrailerBounds& bounds, Fields& trailers);
    // Of the chunk that has begun: how much is still to come.
    std::uint64_t chunk_left() const { return left_; }

  private:
    enum class Phase : std::uint8_t { size_line, content, content_end, trailers, done };

    Step read_size_line(std::string_view input);

    Phase phase_ = Phase::size_line;
    std::uint64_t left_ = 0;  // of the chunk that is being read
    // Where it stopped: trailers that come byte by byte are not looked through from the start
    // again.
    HeadScanner trailer_scanner_;
};

// Appends `1a2b\r\n`.
void append_chunk_size(std::uint64_t bytes, std::string& out);

inline constexpr std::string_view kLastChunk = "0\r\n";

}  // namespace tidegate::http

// A body on its way through: taken apart as its sender framed it, framed anew for its receiver.
// Pure: bytes in, views and framing out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "http/chunked.hpp"
#include "http/framing.hpp"

namespace tidegate::http {

// Content that stands ready, in as many pieces as the coding cut it into.
struct BodyBatch {
    static constexpr std::size_t kPiecesMax = 12;

    std::array<std::string_view, kPiecesMax> pieces;  // views into what was given to take()
    std::size_t count = 0;
    std::size_t content_bytes = 0;
    std::size_t consumed = 0;  // drop so much from the front once the pieces are sent
    bool done = false;         // the body has ended with this
    bool bad = false;          // broken framing: what `pieces` holds may be sent, no end may follow

    std::span<const std::string_view> view() const { return {pieces.data(), count}; }
};

class BodyReader {
  public:
    void start(const Framing& framing);

    // Takes what `input` has. An empty batch that is neither done nor bad wants more input than
    // there is.
    BodyBatch take(std::string_view input, const TrailerBounds& bounds);
    // How many bytes may go past take(): of a body of known length all but the end. The caller
    // reports them to skip().
    std::uint64_t spliceable() const;
    void skip(std::uint64_t bytes) { left_ -= bytes; }
    // The sender has closed. True when that is how this body ends.
    bool end_of_input();

    bool done() const { return done_; }
    // Of a body of known length: how much is still to come; else as much as may be.
    std::uint64_t left() const;
    // How much more is known to come: of the whole body, or of the chunk that has begun.
    std::uint64_t announced() const {
        return kind_ == BodyKind::chunked ? decoder_.chunk_left() : left_;
    }
    // Whole once take() has said done; the caller may strike out what is not to go on.
    Fields& trailers() { return trailers_; }

  private:
    BodyKind kind_ = BodyKind::none;
    bool done_ = true;
    std::uint64_t left_ = 0;
    ChunkedDecoder decoder_;
    Fields trailers_;
};

// What goes before and behind a batch's pieces, for a receiver that gets `kind`.
void append_batch_prefix(BodyKind kind, const BodyBatch& batch, std::string& out);
// `trailers` follow the last chunk; those that frame or name a hop are left out.
void append_batch_suffix(BodyKind kind, const BodyBatch& batch, const Fields& trailers,
                         std::string& out);

}  // namespace tidegate::http

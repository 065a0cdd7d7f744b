// The frames of a session: the heads of those that come, found wherever the bytes are cut, and
// those that go, with the content of bodies put between what nghttp2 makes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "http/field.hpp"

namespace tidegate::h2 {

// The heads of the frames in what the other side sends (RFC 9113 section 4.1), found wherever the
// bytes are cut. nghttp2 says nothing of frames and header blocks that it ignores: the abuse budget
// counts the former, and the time of a header block runs for the latter, too. Pure.
struct FrameHead {
    std::uint32_t length = 0;
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint32_t stream = 0;
    std::uint32_t dependency = 0;  // of PRIORITY

    bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
};

inline constexpr std::size_t kFrameHeadBytes = 9;

class FrameHeads {
  public:
    // `preface`: bytes before the first frame. A server sends none.
    explicit FrameHeads(std::uint32_t preface) : payload_left_(preface) {}

    struct Step {
        std::size_t bytes = 0;  // looked at: up to the end of the head, or all; of PRIORITY, also
                                // what it depends on
        bool found = false;     // head() is new
    };
    Step next(std::string_view bytes);

    const FrameHead& head() const { return head_; }
    // Whether a header block has begun and not come to its end.
    bool is_in_block() const { return is_in_block_; }
    // The CONTINUATION frames of that block so far.
    std::uint32_t continuations() const { return continuations_; }

  private:
    void read_head();
    bool reads_on();
    void end_payload();

    std::uint32_t payload_left_;
    std::array<unsigned char, kFrameHeadBytes + 4> bytes_{};
    std::uint8_t have_ = 0;  // of bytes_
    std::uint8_t need_ = kFrameHeadBytes;
    bool is_in_block_ = false;
    std::uint32_t continuations_ = 0;
    FrameHead head_;
};

// Writes what a session sends: it copies the frames that nghttp2 makes into the buffer of a
// connection, and puts the content of bodies between them without another copy.
//
// Part of a session. One thread.
class OutgoingFields;

// A DATA frame below this that the peer's window has cut is a small one.
inline constexpr std::uint32_t kSmallFrame = 256;

// Holds the part of a message's body that the caller has offered and the session has not taken yet.
// The bytes stay the caller's.
class OutgoingBody {
  public:
    bool is_taken() const { return bytes_ == 0 && trailers_ == nullptr; }
    std::size_t bytes() const { return bytes_; }
    // Whether nothing more will be offered.
    bool is_last() const { return is_last_; }
    void set_last(bool is_last) { is_last_ = is_last; }

    // Requires is_taken(). Returns whether nghttp2 waits for this: then it has to resume the
    // stream.
    bool offer(std::span<const std::string_view> pieces, bool is_last,
               const http::Fields* trailers);
    // Drops what was offered and not taken.
    void drop();
    // The trailers that were offered, if they wait, are in `kept` from now on.
    void move_trailers(const http::Fields& kept) {
        if (trailers_ != nullptr) trailers_ = &kept;
    }
    // Whether the last frame was small because the peer's window had no more room.
    bool is_cut_small() const { return is_cut_small_; }

  private:
    friend class Output;

    std::span<const std::string_view> pieces_;
    std::size_t taken_of_piece_ = 0;  // of the first
    std::size_t bytes_ = 0;
    const http::Fields* trailers_ = nullptr;
    bool is_last_ = false;
    bool is_deferred_ = false;  // nghttp2 waits for resume
    bool is_cut_small_ = false;
};

class Output {
  public:
    // `fields` are scratch room for trailers, and outlive this.
    explicit Output(OutgoingFields& fields) : fields_(fields) {}

    // Fills `into` with what `session` has to send, and returns how much that is. Negative: the
    // session has failed.
    std::ptrdiff_t gather(nghttp2_session* session, std::span<char> into);
    // Whether no part of a frame waits for the next gather().
    bool is_empty() const { return unsent_.empty(); }

    // For nghttp2's callbacks, which gather() runs. `is_drained` becomes true if all that was
    // offered has been taken by this call.

    // How much of `body` makes the next DATA frame of stream `id`, of at most `max` bytes; or
    // NGHTTP2_ERR_DEFERRED or NGHTTP2_ERR_PAUSE.
    std::ptrdiff_t take(nghttp2_session* session, std::uint32_t id, OutgoingBody& body,
                        std::size_t max, std::uint32_t& flags, bool& is_drained);
    // Writes that frame.
    void write(OutgoingBody& body, std::string_view frame_head, std::size_t bytes,
               bool& is_drained);

  private:
    bool submit_trailers(nghttp2_session* session, std::uint32_t id, OutgoingBody& body);
    std::size_t copy(std::string_view bytes);

    OutgoingFields& fields_;
    std::string_view unsent_;  // of the frame that did not fit
    std::span<char> room_;     // of gather()
};

}  // namespace tidegate::h2

// Where a message ends, what that lets the connection do next, and its body on the way through:
// taken apart as its sender framed it, framed anew for its receiver. Pure: bytes in, views and
// framing out.
//
// RFC 9112 section 6, read strictly: a message whose length could be understood in two ways is
// refused, in both directions, never repaired.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "http/head.hpp"

namespace tidegate::http {

enum class BodyKind : std::uint8_t {
    none,
    length,  // Content-Length, of `length` bytes
    chunked,
    until_close,  // a response only
};

BOOST_DEFINE_FIXED_ENUM_CLASS(
    FramingFault, std::uint8_t, none,
    bad_transfer_encoding,  // anything but exactly `chunked`, or in HTTP/1.0
    bad_content_length,     // not digits only, too large, or more than once
    length_and_encoding,    // both
    bad_host,               // none, two, or a malformed one
    bad_expectation,        // not `100-continue`
    too_many_options)       // Connection names more than kConnectionOptionsMax

std::string_view describe(FramingFault fault);

struct Framing {
    BodyKind body = BodyKind::none;
    std::uint64_t length = 0;
    bool keep_alive = true;     // the sender is willing to go on with this connection
    bool names_fields = false;  // Connection names fields that are for this hop alone
    bool expects_continue = false;
};

// No sender means a Content-Length beyond this.
inline constexpr std::uint64_t kLengthMax = 1'000'000'000'000'000'000;
// All Connection fields of a head together may name this many fields.
inline constexpr std::size_t kConnectionOptionsMax = 100;

// These mark the fields that Connection names (FieldName::named_by_connection), but for those that
// no head is copied with: framing, Host, X-Request-Id and forwarding fields keep what they are.
FramingFault request_framing(RequestHead& head, Framing& framing);
// The same for a request that goes no further: Host, expectations and what Connection names may be
// anything.
FramingFault local_request_framing(const RequestHead& head, Framing& framing);
// `to_head`: the request was a HEAD.
FramingFault response_framing(ResponseHead& head, bool to_head, Framing& framing);

// The next element of a comma-separated list, without white space around it; empty elements are
// passed over (RFC 9110 section 5.6.1). False at the end.
bool next_list_item(std::string_view& list, std::string_view& item);
// Whether `list` has `wanted`, in any case.
bool lists(std::string_view list, std::string_view wanted);

// Names in comma-separated lists, sorted: looking up many fields costs no comparison of each with
// each.
class ListedNames {
  public:
    // Keeps views into `list`.
    void add(std::string_view list);
    // Call it once all names are added.
    void sort();
    // Whether one of them is `name`, in any case. Requires sort().
    bool include(std::string_view name) const;

  private:
    std::vector<std::string_view> names_;
};

// The names in the Connection fields of a head.
ListedNames connection_names(const Fields& fields);

// Whether `field` belongs to one hop only (RFC 9110 section 7.6.1) or frames the message: fields
// that are never copied but written anew. Of a head whose framing has been read.
bool is_hop_by_hop(const Field& field);

// Whether a server that turns fields into variables could take `name` for a field that frames a
// message or belongs to one hop (`Content_Length`, `Transfer.Encoding`): goes no further.
bool looks_like_framing(std::string_view name);

struct TrailerBounds {
    std::size_t bytes = 32'768;
    std::size_t fields = 100;
};

// Takes apart bytes in the chunked transfer coding (RFC 9112 section 7.1). Strict: CR LF
// everywhere, sizes of at most 15 hexadecimal digits, extensions held to their grammar and dropped,
// trailers held to the grammar of fields.
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
    // How many bytes of the chunk that has begun are still to come.
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

// Content that is ready to be sent, in as many pieces as the coding cut it into.
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
    // Notes that the sender has closed. True when that is how this body ends.
    bool end_of_input();

    bool done() const { return done_; }
    // How much of a body of known length is still to come; the largest number for other bodies.
    std::uint64_t left() const;
    // How much of the whole body, or of the chunk that has begun, is known to come.
    std::uint64_t announced() const {
        return kind_ == BodyKind::chunked ? decoder_.chunk_left() : left_;
    }
    // Complete once take() has reported done; the caller may remove fields that must not go on.
    Fields& trailers() { return trailers_; }

  private:
    BodyKind kind_ = BodyKind::none;
    bool done_ = true;
    std::uint64_t left_ = 0;
    ChunkedDecoder decoder_;
    Fields trailers_;
};

// Appends what goes before, or after, a batch's pieces, for a receiver that gets `kind`.
void append_batch_prefix(BodyKind kind, const BodyBatch& batch, std::string& out);
// `trailers` follow the last chunk; those that frame or name a hop are left out.
void append_batch_suffix(BodyKind kind, const BodyBatch& batch, const Fields& trailers,
                         std::string& out);

// Gathers one write: a head, the content that is there, and what frames that content. Adds `head`,
// the framed content of `batch` and, where the batch is the last one, `trailers` to `out`, which
// has add(std::string_view). Appends to `head` and writes `tail` for it; both, and what `batch`
// looks at, stay until all is sent.
template <class Out>
void gather(BodyKind kind, const BodyBatch& batch, const Fields& trailers, std::string& head,
            std::string& tail, Out& out) {
    // Up to this size a copy costs less than a second piece costs the kernel.
    constexpr std::size_t kCopiedMax = 2'048;
    tail.clear();
    append_batch_prefix(kind, batch, head);
    const bool is_copied = batch.content_bytes <= kCopiedMax;
    if (is_copied) {
        for (const std::string_view piece : batch.view()) head += piece;
    }
    append_batch_suffix(kind, batch, trailers, is_copied ? head : tail);
    out.add(head);
    if (is_copied) return;
    for (const std::string_view piece : batch.view()) out.add(piece);
    out.add(tail);
}

}  // namespace tidegate::http

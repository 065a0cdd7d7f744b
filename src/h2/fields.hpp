// Header blocks: what HPACK has decoded, field by field, becomes the RequestHead or ResponseHead
// that HTTP/1's parser would have made, or trailers; and what a session sends, made of the lines
// that HTTP/1 would send.
//
// The session holds fields that come in to the same grammar as HTTP/1, and as strictly. RFC 9113
// section 8.1.1 calls most of what can be wrong malformed, and the stream is reset for it; a
// request that only asks for something that the proxy does not serve gets an answer that says so.
// Pure.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

// Why a stream is reset with PROTOCOL_ERROR.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Malformed, std::uint8_t, none,
    pseudo_field,  // unknown, missing, twice, late, in trailers, or `:path` is empty; a bad status
    field_name,    // no token, or with upper case
    line_break,    // CR, LF or NUL
    hop_field,     // Connection and the like
    te,            // another than `trailers`
    length,        // Content-Length says another length than DATA has
    trailers,      // too many, too large, a field that cannot be, or the body goes on behind them
    head,          // of an answer: too many fields, too large, or a field that cannot be
    order)         // of an answer: DATA or the end before its head, or a body where none may be

// In a sentence for the user. Empty of `none`.
std::string_view describe(Malformed malformed);

// Whether it is one of the fields that HTTP/2 does not have (RFC 9113 section 8.2.2), `te` aside.
bool is_for_one_hop(http::FieldName id);

// Holds the rules that the connection and the settings have for a request.
struct RequestRules {
    http::HeadBounds bounds;
    std::size_t cookie_crumbs = 256;
    bool is_https = false;
    bool any_scheme = false;        // the peer is trusted to name the scheme
    bool connect_protocol = false;  // RFC 8441
};

// One header block. Reused: keeps its room.
class FieldBlock {
  public:
    // `rules` outlive the block.
    void begin_request(const RequestRules& rules);
    void begin_trailers(const RequestRules& rules);
    // Begins the head of an answer, which needs no more of the rules than their bounds.
    void begin_response(const RequestRules& rules);

    // The next field as HPACK has decoded it. After a fault nothing more is kept.
    void add(std::string_view name, std::string_view value);

    Malformed malformed() const { return malformed_; }
    // The size of what was added, as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113 section
    // 6.5.2), kept or not.
    std::size_t list_bytes() const { return list_bytes_; }

    // Ends the block of a request. Fills in `head`, whose views stay until the block is begun
    // again, and `protocol` (RFC 8441). A fault: the request gets 400, 414 or 431; the head has its
    // method and its target, if they came before the fault. Nothing of this if malformed() says so.
    http::HeadFault end_request(http::RequestHead& head, std::string_view& protocol);
    void end_trailers(http::Fields& trailers);
    // Ends the block of an answer's head; views stay as those of a request. False if it is not well
    // formed: malformed() says why.
    bool end_response(http::ResponseHead& head);

    void clear();

  private:
    struct Slice {
        std::uint32_t begin = 0;
        std::uint32_t name_bytes = 0;
        std::uint32_t value_bytes = 0;
        http::FieldName id = http::FieldName::other;
    };
    enum Pseudo : std::uint8_t {
        kMethod,
        kScheme,
        kPath,
        kAuthority,
        kProtocol,
        kStatus,
        kPseudoFields
    };
    enum class Kind : std::uint8_t { request, response, trailers };

    void begin(const RequestRules& rules, Kind kind);
    Pseudo pseudo_of(std::string_view name) const;
    void add_pseudo(std::string_view name, std::string_view value);
    void add_cookie(std::string_view name, std::string_view value);
    bool is_refused(http::FieldName id, std::string_view value);
    bool has_room(std::size_t bytes);
    void keep(std::string_view name, std::string_view value, Slice& slice);
    void join_cookies();
    void fill(http::Fields& fields) const;
    Malformed missing() const;
    http::HeadFault set_target(http::RequestHead& head) const;
    http::HeadFault check_authority(http::RequestHead& head) const;
    std::string_view pseudo(Pseudo which) const { return value(pseudo_[which]); }
    bool has(Pseudo which) const { return (seen_ & 1U << which) != 0; }
    std::string_view name(const Slice& slice) const;
    std::string_view value(const Slice& slice) const;

    const RequestRules* rules_ = nullptr;
    Kind kind_ = Kind::request;
    bool seen_field_ = false;  // one that is no pseudo-field
    std::uint8_t seen_ = 0;    // bits of Pseudo
    Malformed malformed_ = Malformed::none;
    http::HeadFault fault_ = http::HeadFault::none;
    std::size_t list_bytes_ = 0;
    std::size_t head_bytes_ = 0;  // as HTTP/1 would write it
    std::string text_;
    Slice pseudo_[kPseudoFields];
    std::vector<Slice> slices_;
    std::vector<Slice> crumbs_;
    std::size_t cookie_at_ = 0;  // the slice that the crumbs become
};

// Adds what request_framing() cannot know: a request without Content-Length has a body if its
// stream goes on behind the head. Requires that request_framing() has found no fault.
void set_body(const http::RequestHead& head, bool has_body, http::Framing& framing);

// The length that Content-Length announces, where it is one that can be held to.
std::optional<std::uint64_t> announced_length(const http::Fields& fields);

// The heads and trailers that a session sends, as nghttp2 takes them, made of the lines that HTTP/1
// would send. Pure.

// Returns a view of the bytes that nghttp2 points to.
inline std::string_view text_of(const std::uint8_t* bytes, std::size_t count) {
    return {reinterpret_cast<const char*>(bytes), count};
}

// Holds the pseudo-fields, which a request sends before its fields (RFC 9113 section 8.3.1).
struct PseudoFields {
    std::string_view method;
    std::string_view scheme;
    std::string_view path;  // with the query
};

// Reused: keeps its room. What was given stays until the fields have been submitted.
class OutgoingFields {
  public:
    // The head of an answer. `lines` are `Name: value` and CR LF each. Fields that HTTP/2 does not
    // have are left out (RFC 9113 section 8.2.2); nghttp2 writes names in lower case.
    void set_head(int status, std::string_view lines);
    // The head of a request. The line of Host becomes `:authority` (section 8.3.1).
    void set_request(const PseudoFields& request, std::string_view lines);
    // Fields that frame a message or name a hop are left out, as in HTTP/1.
    void set_trailers(const http::Fields& trailers);

    const std::vector<nghttp2_nv>& list() const { return list_; }
    // As SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113 section 6.5.2).
    std::size_t list_bytes() const;

  private:
    void add(std::string_view name, std::string_view value);
    void add_lines(std::string_view lines);

    std::array<char, 3> status_{};
    std::vector<nghttp2_nv> list_;
};

}  // namespace tidegate::h2

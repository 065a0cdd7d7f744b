// Where a message ends, and what that lets the connection do next. Pure.
//
// RFC 9112 section 6, read strictly: a message whose length could be understood in two ways is
// refused, in both directions, never repaired.
#pragma once

#include <cstddef>
#include <cstdint>
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

// Content-Length beyond this is no length that anybody means.
inline constexpr std::uint64_t kLengthMax = 1'000'000'000'000'000'000;
// What all Connection fields of a head may name.
inline constexpr std::size_t kConnectionOptionsMax = 100;

// These mark the fields that Connection names (FieldName::named_by_connection), but for those that
// no head is copied with: framing, Host, X-Request-Id and forwarding fields keep what they are.
FramingFault request_framing(RequestHead& head, Framing& framing);
// Of a request that goes no further: Host, expectations and what Connection names may be anything.
FramingFault local_request_framing(const RequestHead& head, Framing& framing);
// `to_head`: the request was a HEAD.
FramingFault response_framing(ResponseHead& head, bool to_head, Framing& framing);

// The next element of a comma-separated list, without white space around it; empty elements are
// passed over (RFC 9110 section 5.6.1). False at the end.
bool next_list_item(std::string_view& list, std::string_view& item);

// Names in comma-separated lists, sorted: looking up many fields costs no comparison of each with
// each.
class ListedNames {
  public:
    // Keeps views into `list`.
    void add(std::string_view list);
    // Once all are there.
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

}  // namespace tidegate::http

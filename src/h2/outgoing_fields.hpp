// The heads and trailers that a session sends, as nghttp2 takes them, made of the lines that HTTP/1
// would send. Pure.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "http/field.hpp"

namespace tidegate::h2 {

// What a request says before its fields.
struct RequestLine {
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
    void set_request(const RequestLine& request, std::string_view lines);
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

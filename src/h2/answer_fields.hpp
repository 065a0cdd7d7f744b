// The heads of answers, as nghttp2 takes them, made of the lines that HTTP/1 would send. Pure.
#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <string_view>
#include <vector>

#include "http/field.hpp"

namespace tidegate::h2 {

// Reused: keeps its room. What was given stays until the fields have been submitted.
class AnswerFields {
  public:
    // `lines` are `Name: value` and CR LF each. Fields that HTTP/2 does not have are left out
    // (RFC 9113 section 8.2.2); nghttp2 writes names in lower case.
    void set_head(int status, std::string_view lines);
    // Fields that frame a message or name a hop are left out, as in HTTP/1.
    void set_trailers(const http::Fields& trailers);

    const std::vector<nghttp2_nv>& list() const { return list_; }

  private:
    void add(std::string_view name, std::string_view value);

    std::array<char, 3> status_{};
    std::vector<nghttp2_nv> list_;
};

}  // namespace tidegate::h2

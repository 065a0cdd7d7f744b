// Max-Forwards: how many proxies a request may still pass (RFC 9110 section 7.6.2). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/head.hpp"

namespace tidegate::http {

inline constexpr std::string_view kMaxForwards = "Max-Forwards";

// What the request says. 0: the first server that gets it answers it. Nothing: there is no such
// field, or two, or it is no number; or the method is another than OPTIONS, the only one that goes
// to upstreams and for which the field has a meaning. A number above 64 bits is the greatest one.
std::optional<std::uint64_t> max_forwards(const RequestHead& head);

}  // namespace tidegate::http

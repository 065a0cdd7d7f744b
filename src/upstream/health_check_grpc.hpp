// What the answer of a server's health service of gRPC (grpc.health.v1) says about it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::upstream {

// Of the body of such an answer, which is a few bytes long. A longer one is none.
inline constexpr std::size_t kGrpcHealthBytesMax = 4'096;

// Why the server is not healthy, a clause; empty: it says SERVING. `head` is the final one of an
// answer that is whole, with `trailers` and the first bytes of its body, one more than
// kGrpcHealthBytesMax at least if it has more.
std::string fault_of_grpc_health(const http::ResponseHead& head, const http::Fields& trailers,
                                 std::string_view body);

}  // namespace tidegate::upstream

// How the admin listener begins its answers, and which requests it refuses by their form.
#pragma once

#include <cstddef>
#include <string>

#include "admin/answer.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::admin {

// The facts of a request that its answer needs.
struct Asked {
    int minor_version = 1;
    bool keep_alive = false;
    bool is_head = false;
};

int status_of(http::HeadFault fault);
// Of a request that has a body, or whose body would be of unclear length; 0: it has none.
int status_of_body(http::FramingFault fault, const http::Framing& framing);

std::string head_of(const AdminAnswer& answer, std::size_t body_bytes, const Asked& asked);

}  // namespace tidegate::admin

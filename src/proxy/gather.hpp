// What leaves in one write: a head, what is there of its body, and what frames that. Pure.
#pragma once

#include <string>

#include "http/body.hpp"
#include "net/outbox.hpp"

namespace tidegate::proxy {

// Puts `head`, framed content and, where the batch is the last one, `trailers` into an empty
// `outbox`. Appends to `head` and writes `tail` for it; both, and what `batch` looks at, stay until
// all is sent.
void gather(http::BodyKind kind, const http::BodyBatch& batch, const http::Fields& trailers,
            std::string& head, std::string& tail, Outbox& outbox);

}  // namespace tidegate::proxy

// What leaves in one write: a head, the content that is there, and what frames that content.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/body.hpp"

namespace tidegate::http {

// Adds `head`, the framed content of `batch` and, where the batch is the last one, `trailers` to
// `out`, which has add(std::string_view). Appends to `head` and writes `tail` for it; both, and
// what `batch` looks at, stay until all is sent.
template <class Out>
void gather(BodyKind kind, const BodyBatch& batch, const Fields& trailers, std::string& head,
            std::string& tail, Out& out) {
    // Up to here a copy costs less than a second piece costs the kernel.
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

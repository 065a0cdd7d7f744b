#include "proxy/gather.hpp"

#include <cstddef>
#include <string_view>

namespace tidegate::proxy {
namespace {

// Up to here a copy costs less than a second piece costs the kernel.
constexpr std::size_t kCopiedMax = 2'048;

}  // namespace

void gather(http::BodyKind kind, const http::BodyBatch& batch, const http::Fields& trailers,
            std::string& head, std::string& tail, Outbox& outbox) {
    tail.clear();
    http::append_batch_prefix(kind, batch, head);
    const bool is_copied = batch.content_bytes <= kCopiedMax;
    if (is_copied) {
        for (const std::string_view piece : batch.view()) head += piece;
    }
    http::append_batch_suffix(kind, batch, trailers, is_copied ? head : tail);
    outbox.add(head);
    if (is_copied) return;
    for (const std::string_view piece : batch.view()) outbox.add(piece);
    outbox.add(tail);
}

}  // namespace tidegate::proxy

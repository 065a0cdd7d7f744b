#include "http/body.hpp"

#include <algorithm>

namespace tidegate::http {

void BodyReader::start(const Framing& framing) {
    kind_ = framing.body;
    left_ = framing.body == BodyKind::length ? framing.length : 0;
    done_ = framing.body == BodyKind::none;
    decoder_ = {};
    trailers_.clear();
}

BodyBatch BodyReader::take(std::string_view input, const TrailerBounds& bounds) {
    BodyBatch batch;
    const auto add = [&batch](std::string_view piece) {
        if (piece.empty()) return;
        batch.pieces[batch.count++] = piece;
        batch.content_bytes += piece.size();
    };
    switch (kind_) {
        case BodyKind::none:
            break;
        case BodyKind::length: {
            const auto size =
                static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
            add(input.substr(0, size));
            batch.consumed = size;
            left_ -= size;
            done_ = left_ == 0;
            break;
        }
        case BodyKind::until_close:
            add(input);
            batch.consumed = input.size();
            break;
        case BodyKind::chunked:
            while (!done_ && batch.count < BodyBatch::kPiecesMax) {
                const auto step = decoder_.next(input.substr(batch.consumed), bounds, trailers_);
                batch.consumed += step.consumed;
                add(step.data);
                done_ = step.state == ChunkedDecoder::State::done;
                batch.bad = step.state == ChunkedDecoder::State::bad;
                if (batch.bad) break;
                if (step.state == ChunkedDecoder::State::more && step.consumed == 0) break;
            }
            break;
    }
    batch.done = done_;
    return batch;
}

bool BodyReader::end_of_input() {
    if (kind_ != BodyKind::until_close) return false;
    done_ = true;
    return true;
}

std::uint64_t BodyReader::spliceable() const {
    // take() gets the end from a read that is larger: so bytes behind the body are noticed, and the
    // connection is not reused.
    constexpr std::uint64_t kEnd = 4'096;
    return kind_ == BodyKind::length && left_ > kEnd ? left_ - kEnd : 0;
}

std::uint64_t BodyReader::left() const {
    return kind_ == BodyKind::length ? left_ : std::numeric_limits<std::uint64_t>::max();
}

void append_batch_prefix(BodyKind kind, const BodyBatch& batch, std::string& out) {
    if (kind == BodyKind::chunked && batch.content_bytes > 0) {
        append_chunk_size(batch.content_bytes, out);
    }
}

void append_batch_suffix(BodyKind kind, const BodyBatch& batch, const Fields& trailers,
                         std::string& out) {
    if (kind != BodyKind::chunked) return;
    if (batch.content_bytes > 0) out += "\r\n";
    if (!batch.done) return;
    out += kLastChunk;
    for (const Field& field : trailers) {
        if (field.id == FieldName::host || field.id == FieldName::trailer || is_hop_by_hop(field) ||
            looks_like_framing(field.name)) {
            continue;
        }
        out.append(field.name).append(": ").append(field.value).append("\r\n");
    }
    out += "\r\n";
}

}  // namespace tidegate::http

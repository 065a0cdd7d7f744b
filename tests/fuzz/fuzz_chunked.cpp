// The chunked coding: however the bytes are cut, the same content, the same end, the same verdict;
// and what was decoded and encoded again decodes to the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "http/framing.hpp"

namespace {

using namespace tidegate::http;

constexpr TrailerBounds kBounds{1024, 8};

struct Decoded {
    std::string content;
    std::string encoded;  // framed anew
    std::size_t consumed = 0;
    bool done = false;
    bool bad = false;
};

Decoded decode(std::string_view input, std::size_t portion) {
    Framing framing;
    framing.body = BodyKind::chunked;
    BodyReader reader;
    reader.start(framing);
    Decoded result;
    std::string held;
    for (;;) {
        const BodyBatch batch = reader.take(held, kBounds);
        append_batch_prefix(BodyKind::chunked, batch, result.encoded);
        for (const std::string_view piece : batch.view()) {
            result.content += piece;
            result.encoded += piece;
        }
        append_batch_suffix(BodyKind::chunked, batch, reader.trailers(), result.encoded);
        result.consumed += batch.consumed;
        result.done = batch.done;
        result.bad = batch.bad;
        if (batch.done || batch.bad) return result;
        held.erase(0, batch.consumed);
        if (batch.consumed > 0) continue;
        if (input.empty()) return result;
        held += input.substr(0, portion);
        input.remove_prefix(std::min(portion, input.size()));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Decoded whole = decode(text, std::max<std::size_t>(1, size));
    for (const std::size_t portion : {1UL, 3UL}) {
        const Decoded cut = decode(text, portion);
        FUZZ_CHECK(cut.done == whole.done && cut.bad == whole.bad);
        if (!whole.bad) FUZZ_CHECK(cut.content == whole.content);
        if (whole.done) FUZZ_CHECK(cut.consumed == whole.consumed);
    }
    if (!whole.done) return 0;
    const Decoded again = decode(whole.encoded, whole.encoded.size());
    FUZZ_CHECK(again.done && again.content == whole.content);
    FUZZ_CHECK(again.consumed == whole.encoded.size());
    return 0;
}

// Answers of an upstream: where each ends is what RFC 9112 section 6.3 says , and no reader could
// find another end; however the bytes are cut and whatever the client is sent, the content is the
// same; and a truncated answer never looks whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "raw_framing.hpp"

namespace {

using namespace tidegate::http;

constexpr HeadBounds kBounds{4096, 32, 1024};
constexpr TrailerBounds kTrailerBounds{1024, 8};

bool has_no_body(int status, bool to_head) {
    return to_head || status < 200 || status == 204 || status == 304;
}

void check_framing(std::string_view bytes, const ResponseHead& head, bool to_head,
                   const Framing& framing) {
    const RawFraming raw = raw_framing(bytes);
    FUZZ_CHECK(raw.lengths + raw.encodings <= 1);
    if (raw.encodings == 1) FUZZ_CHECK(raw.encoding == "chunked" && head.minor_version == 1);
    if (raw.lengths == 1) {
        FUZZ_CHECK(!raw.length.empty());
        FUZZ_CHECK(raw.length.find_first_not_of("0123456789") == raw.length.npos);
    }
    BodyKind expected = BodyKind::until_close;
    if (has_no_body(head.status, to_head)) {
        expected = BodyKind::none;
    } else if (raw.encodings == 1) {
        expected = BodyKind::chunked;
    } else if (raw.lengths == 1) {
        const bool nothing = raw.length.find_first_not_of('0') == raw.length.npos;
        expected = nothing ? BodyKind::none : BodyKind::length;
        FUZZ_CHECK(nothing || framing.length == std::stoull(raw.length));
    }
    FUZZ_CHECK(framing.body == expected);
    FUZZ_CHECK(expected != BodyKind::until_close || !framing.keep_alive);
}

// The answer as it would go on, with what frames it written anew, reads the same again.
void check_rewritten(const ResponseHead& head, const Framing& framing, bool to_head) {
    std::string again = "HTTP/1.1 " + std::to_string(head.status) + " " + std::string(head.reason);
    again += "\r\n";
    std::size_t kept = 0;
    for (const Field& field : head.fields) {
        if (is_hop_by_hop(field)) continue;
        if (looks_like_framing(field.name)) continue;
        again.append(field.name).append(": ").append(field.value).append("\r\n");
        ++kept;
    }
    if (framing.body == BodyKind::length) {
        again += "Content-Length: " + std::to_string(framing.length) + "\r\n";
    } else if (framing.body == BodyKind::chunked || framing.body == BodyKind::until_close) {
        again += "Transfer-Encoding: chunked\r\n";
    } else if (!has_no_body(head.status, to_head)) {
        again += "Content-Length: 0\r\n";
    }
    again += "\r\n";
    const HeadBounds roomy{kBounds.bytes * 2, kBounds.fields + 1, kBounds.uri_bytes};
    HeadScanner scanner;
    FUZZ_CHECK(scanner.scan(again, roomy) == again.size());
    ResponseHead reread;
    FUZZ_CHECK(parse_response_head(again, roomy, reread) == HeadFault::none);
    FUZZ_CHECK(reread.fields.size() >= kept && reread.fields.size() <= kept + 1);
    Framing reframed;
    FUZZ_CHECK(response_framing(reread, to_head, reframed) == FramingFault::none);
    const bool chunked_now = framing.body == BodyKind::until_close;
    FUZZ_CHECK(reframed.body == (chunked_now ? BodyKind::chunked : framing.body));
    FUZZ_CHECK(reframed.length == framing.length || framing.body != BodyKind::length);
}

struct Relayed {
    std::string content;
    std::string encoded;  // as the client would get it
    std::size_t consumed = 0;
    bool whole = false;
    bool bad = false;
};

// What the client gets of an upstream that sends `input` in such portions and then closes.
Relayed relay(const Framing& framing, BodyKind outgoing, std::string_view input,
              std::size_t portion) {
    BodyReader reader;
    reader.start(framing);
    Relayed result;
    std::string held;
    for (;;) {
        const BodyBatch batch = reader.take(held, kTrailerBounds);
        append_batch_prefix(outgoing, batch, result.encoded);
        for (const std::string_view piece : batch.view()) {
            result.content += piece;
            result.encoded += piece;
        }
        append_batch_suffix(outgoing, batch, reader.trailers(), result.encoded);
        result.consumed += batch.consumed;
        result.whole = batch.done;
        result.bad = batch.bad;
        if (batch.done || batch.bad) return result;
        held.erase(0, batch.consumed);
        if (batch.consumed > 0) continue;
        if (input.empty()) break;
        held += input.substr(0, portion);
        input.remove_prefix(std::min(portion, input.size()));
    }
    result.whole = reader.end_of_input();
    FUZZ_CHECK(result.whole == (framing.body == BodyKind::until_close));
    if (!result.whole) return result;
    // The end of the connection was the end of the body; a client of HTTP/1.1 gets an end in
    // chunks.
    BodyBatch last;
    last.done = true;
    append_batch_suffix(outgoing, last, reader.trailers(), result.encoded);
    return result;
}

void check_body(const Framing& framing, std::string_view input) {
    const BodyKind outgoing =
        framing.body == BodyKind::until_close ? BodyKind::chunked : framing.body;
    const Relayed at_once = relay(framing, outgoing, input, std::max<std::size_t>(1, input.size()));
    for (const std::size_t portion : {1UL, 7UL}) {
        const Relayed cut = relay(framing, outgoing, input, portion);
        FUZZ_CHECK(cut.whole == at_once.whole && cut.bad == at_once.bad);
        if (!at_once.bad) FUZZ_CHECK(cut.content == at_once.content);
        if (at_once.whole) FUZZ_CHECK(cut.consumed == at_once.consumed);
    }
    if (framing.body == BodyKind::length) {
        FUZZ_CHECK(at_once.whole == (input.size() >= framing.length));
        FUZZ_CHECK(at_once.content == input.substr(0, at_once.content.size()));
    }
    // The client's reader sees a whole answer exactly when the upstream sent one.
    Framing sent;
    sent.body = outgoing;
    sent.length = framing.length;
    const Relayed received = relay(sent, outgoing, at_once.encoded, 5);
    FUZZ_CHECK(received.whole == at_once.whole && !received.bad);
    FUZZ_CHECK(received.content == at_once.content);
    if (received.whole) FUZZ_CHECK(received.consumed == at_once.encoded.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    HeadScanner scanner;
    const std::size_t length = scanner.scan(text, kBounds);
    if (length == 0) return 0;
    const std::string_view bytes = text.substr(0, length);
    for (const bool to_head : {false, true}) {
        ResponseHead head;
        if (parse_response_head(bytes, kBounds, head) != HeadFault::none) return 0;
        Framing framing;
        if (response_framing(head, to_head, framing) != FramingFault::none) continue;
        check_framing(bytes, head, to_head, framing);
        check_rewritten(head, framing, to_head);
        check_body(framing, text.substr(length));
    }
    return 0;
}

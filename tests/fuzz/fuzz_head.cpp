// Heads: however the bytes are cut, the reader sees the same; what it accepts frames a body as its
// lines say, to the most lenient reader too, and holds nothing that could start a line of its own
// when it is written again.
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

bool is_clean(std::string_view text) {
    for (const char c : text) {
        if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

void check_fields(const Fields& fields) {
    FUZZ_CHECK(fields.size() <= kBounds.fields);
    for (const Field& field : fields) {
        FUZZ_CHECK(is_token(field.name));
        FUZZ_CHECK(is_clean(field.value));
        FUZZ_CHECK(field.id == field_name(field.name));
    }
}

void check_request(std::string_view bytes) {
    RequestHead head;
    if (parse_request_head(bytes, kBounds, head) != HeadFault::none) return;
    FUZZ_CHECK(is_token(head.method));
    FUZZ_CHECK(is_clean(head.path) && head.path.find(' ') == head.path.npos);
    FUZZ_CHECK(head.path.starts_with('/') || head.path == "*" || head.method == "CONNECT");
    FUZZ_CHECK(head.query.empty() || head.query.front() == '?');
    check_fields(head.fields);
    Framing framing;
    if (request_framing(head, framing) != FramingFault::none) return;
    const RawFraming raw = raw_framing(bytes);
    FUZZ_CHECK(raw.hosts == 1 || (raw.hosts == 0 && head.minor_version == 0));
    FUZZ_CHECK(raw.lengths + raw.encodings <= 1);
    FUZZ_CHECK((framing.body == BodyKind::chunked) == (raw.encodings == 1));
    if (raw.encodings == 1) FUZZ_CHECK(raw.encoding == "chunked" && head.minor_version == 1);
    if (raw.lengths == 0) {
        FUZZ_CHECK(framing.length == 0);
        return;
    }
    FUZZ_CHECK(!raw.length.empty() &&
               raw.length.find_first_not_of("0123456789") == raw.length.npos);
    FUZZ_CHECK(framing.length == std::stoull(raw.length));
    FUZZ_CHECK(framing.body == (framing.length > 0 ? BodyKind::length : BodyKind::none));
}

// `length` is what the scanner makes of it.
void check_reading_in_one_go(std::string_view bytes, std::size_t length) {
    RequestHead head;
    RequestHead same;
    const bool is_good = length != 0 && parse_request_head(bytes.substr(0, length), kBounds,
                                                           head) == HeadFault::none;
    FUZZ_CHECK(parse_request_head_in(bytes, kBounds, same) == (is_good ? length : 0));
    FUZZ_CHECK(!is_good || (head.path == same.path && head.fields.size() == same.fields.size()));
}

void check_response(std::string_view bytes) {
    ResponseHead head;
    if (parse_response_head(bytes, kBounds, head) != HeadFault::none) return;
    FUZZ_CHECK(head.status >= 100 && head.status <= 599);
    FUZZ_CHECK(is_clean(head.reason));
    check_fields(head.fields);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    HeadScanner whole;
    const std::size_t length = whole.scan(text, kBounds);
    HeadScanner cut;
    std::size_t cut_length = 0;
    for (std::size_t end = 0; end <= size && cut_length == 0; ++end) {
        cut_length = cut.scan(text.substr(0, end), kBounds);
        if (cut.fault() != HeadFault::none) break;
    }
    FUZZ_CHECK(cut_length == length);
    FUZZ_CHECK(cut.fault() == whole.fault());
    check_reading_in_one_go(text, length);
    if (length == 0) return 0;
    check_request(text.substr(0, length));
    check_response(text.substr(0, length));
    return 0;
}

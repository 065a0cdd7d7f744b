#include "http/framing.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "http/forwarding_fields.hpp"

namespace tidegate::http {

namespace {

constexpr EnumTexts<FramingFault> kFramingFaults(
    {{FramingFault::none, ""},
     {FramingFault::bad_transfer_encoding,
      "Transfer-Encoding must be exactly \"chunked\", once, in HTTP/1.1."},
     {FramingFault::bad_content_length, "Content-Length must be one decimal number, once."},
     {FramingFault::length_and_encoding,
      "Content-Length and Transfer-Encoding exclude each other."},
     {FramingFault::bad_host, "Exactly one valid Host field is required."},
     {FramingFault::bad_expectation, "The only known expectation is 100-continue."},
     {FramingFault::too_many_options, "Connection names more than 100 fields."}});

bool parse_length(std::string_view text, std::uint64_t& length) {
    if (text.empty() || text.size() > 19) return false;
    length = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        length = length * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return length <= kLengthMax;
}

// The facts of the fields, before the rules of requests and responses.
struct SeenFields {
    int lengths = 0;
    int encodings = 0;
    int hosts = 0;
    std::size_t options = 0;
    bool close = false;
    bool keep_alive = false;
};

bool read_connection(std::string_view list, SeenFields& seen, Framing& framing) {
    std::string_view item;
    while (next_list_item(list, item)) {
        if (++seen.options > kConnectionOptionsMax) return false;
        if (equal_ignoring_case(item, "close")) {
            seen.close = true;
        } else if (equal_ignoring_case(item, "keep-alive")) {
            seen.keep_alive = true;
        } else {
            framing.names_fields = true;
        }
    }
    return true;
}

// Some order that ignores case.
bool is_before(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return a.size() < b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](char x, char y) { return to_lower(x) < to_lower(y); });
}

bool is_written_anew(const Field& field) {
    return is_hop_by_hop(field) || is_forwarding_field(field.id) || field.id == FieldName::host ||
           field.id == FieldName::x_request_id;
}

void mark_named(Fields& fields) {
    const ListedNames names = connection_names(fields);
    for (Field& field : fields) {
        if (is_written_anew(field) || !names.include(field.name)) continue;
        field.id = FieldName::named_by_connection;
    }
}

// `of_request`: Host counts. In an answer it means nothing, right or wrong.
FramingFault read_fields(const Fields& fields, int minor_version, bool of_request, SeenFields& seen,
                         Framing& framing) {
    for (const Field& field : fields) {
        switch (field.id) {
            case FieldName::content_length:
                if (++seen.lengths > 1 || !parse_length(field.value, framing.length)) {
                    return FramingFault::bad_content_length;
                }
                break;
            case FieldName::transfer_encoding:
                if (++seen.encodings > 1 || minor_version == 0 ||
                    !equal_ignoring_case(field.value, "chunked")) {
                    return FramingFault::bad_transfer_encoding;
                }
                break;
            case FieldName::connection:
                if (!read_connection(field.value, seen, framing)) {
                    return FramingFault::too_many_options;
                }
                break;
            case FieldName::host:
                if (of_request && (++seen.hosts > 1 || !is_valid_host(field.value))) {
                    return FramingFault::bad_host;
                }
                break;
            default:
                break;
        }
    }
    if (seen.lengths > 0 && seen.encodings > 0) return FramingFault::length_and_encoding;
    framing.keep_alive = !seen.close && (minor_version == 1 || seen.keep_alive);
    return FramingFault::none;
}

void set_request_body(const SeenFields& seen, Framing& framing) {
    if (seen.encodings > 0) {
        framing.body = BodyKind::chunked;
    } else if (framing.length > 0) {
        framing.body = BodyKind::length;
    }
}

using State = ChunkedDecoder::State;
using Step = ChunkedDecoder::Step;

// The rest of a line, taken off from the front.
class Rest {
  public:
    explicit Rest(std::string_view text) : text_(text) {}

    bool empty() const { return text_.empty(); }
    void skip_white_space() {
        text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size()));
    }
    bool take(char c) {
        if (!text_.starts_with(c)) return false;
        text_.remove_prefix(1);
        return true;
    }
    // Takes `=` with the white space before it; without a `=`, the white space stays.
    bool take_equals() {
        const std::size_t at = text_.find_first_not_of(" \t");
        if (at == std::string_view::npos || text_[at] != '=') return false;
        text_.remove_prefix(at + 1);
        return true;
    }
    bool take_token() {
        std::size_t length = 0;
        while (length < text_.size() && is_token(text_.substr(length, 1))) ++length;
        text_.remove_prefix(length);
        return length > 0;
    }
    // RFC 9110 section 5.6.4.
    bool take_quoted() {
        if (!take('"')) return false;
        while (!text_.empty()) {
            if (take('"')) return true;
            take('\\');
            if (text_.empty() || is_control(text_.front())) return false;
            text_.remove_prefix(1);
        }
        return false;
    }

  private:
    static bool is_control(char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    }

    std::string_view text_;
};

// RFC 9112 section 7.1.1: `;name`, `;name=value` or `;name="value"`, any number of them, with white
// space only before what goes on.
bool is_extensions(std::string_view text) {
    Rest rest(text);
    while (!rest.empty()) {
        rest.skip_white_space();
        if (!rest.take(';')) return false;
        rest.skip_white_space();
        if (!rest.take_token()) return false;
        if (!rest.take_equals()) continue;
        rest.skip_white_space();
        if (!rest.take_quoted() && !rest.take_token()) return false;
    }
    return true;
}

}  // namespace

std::string_view describe(FramingFault fault) {
    return kFramingFaults[fault];
}

FramingFault request_framing(RequestHead& head, Framing& framing) {
    framing = {};
    SeenFields seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, true, seen, framing);
    if (fault != FramingFault::none) return fault;
    if (seen.hosts == 0 && head.minor_version == 1) return FramingFault::bad_host;
    set_request_body(seen, framing);
    for (const Field& field : head.fields) {
        if (field.id != FieldName::expect) continue;
        if (!equal_ignoring_case(field.value, "100-continue")) return FramingFault::bad_expectation;
        // RFC 9110 section 10.1.1: ignored in HTTP/1.0, and without a body there is nothing to
        // wait for.
        framing.expects_continue = head.minor_version == 1 && framing.body != BodyKind::none;
    }
    if (framing.names_fields) mark_named(head.fields);
    return FramingFault::none;
}

FramingFault local_request_framing(const RequestHead& head, Framing& framing) {
    framing = {};
    SeenFields seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, false, seen, framing);
    set_request_body(seen, framing);
    return fault;
}

FramingFault response_framing(ResponseHead& head, bool to_head, Framing& framing) {
    framing = {};
    SeenFields seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, false, seen, framing);
    if (fault != FramingFault::none) return fault;
    const bool bodiless = to_head || head.status < 200 || head.status == 204 || head.status == 304;
    if (bodiless) {
        framing.body = BodyKind::none;
        // The status has no body and its fields announce one: bytes that follow answer no request.
        const bool announced = seen.encodings > 0 || framing.length > 0;
        if (head.status == 204 && announced) framing.keep_alive = false;
    } else if (seen.encodings > 0) {
        framing.body = BodyKind::chunked;
    } else if (seen.lengths > 0) {
        framing.body = framing.length > 0 ? BodyKind::length : BodyKind::none;
    } else {
        framing.body = BodyKind::until_close;
        framing.keep_alive = false;
    }
    if (framing.names_fields) mark_named(head.fields);
    return FramingFault::none;
}

bool next_list_item(std::string_view& list, std::string_view& item) {
    while (!list.empty()) {
        item = trimmed(take_until(list, ','));
        if (!item.empty()) return true;
    }
    return false;
}

bool lists(std::string_view list, std::string_view wanted) {
    std::string_view item;
    while (next_list_item(list, item)) {
        if (equal_ignoring_case(item, wanted)) return true;
    }
    return false;
}

void ListedNames::add(std::string_view list) {
    std::string_view item;
    while (next_list_item(list, item)) names_.push_back(item);
}

void ListedNames::sort() {
    std::sort(names_.begin(), names_.end(), is_before);
}

bool ListedNames::include(std::string_view name) const {
    return std::binary_search(names_.begin(), names_.end(), name, is_before);
}

ListedNames connection_names(const Fields& fields) {
    ListedNames names;
    for (const Field& field : fields) {
        if (field.id == FieldName::connection) names.add(field.value);
    }
    names.sort();
    return names;
}

bool is_hop_by_hop(const Field& field) {
    switch (field.id) {
        case FieldName::connection:
        case FieldName::content_length:
        case FieldName::keep_alive:
        case FieldName::named_by_connection:
        case FieldName::proxy_authenticate:
        case FieldName::proxy_authorization:
        case FieldName::proxy_connection:
        case FieldName::te:
        case FieldName::transfer_encoding:
        case FieldName::upgrade:
            return true;
        default:
            return false;
    }
}

// Only names with a `-` have other spellings that fold into them. Nearly all fields end at their
// length or first byte.
bool looks_like_framing(std::string_view name) {
    switch (name.size()) {
        case 10:
            return equal_as_variable(name, "keep-alive");
        case 14:
            return equal_as_variable(name, "content-length");
        case 16:
            return equal_as_variable(name, "proxy-connection");
        case 17:
            return equal_as_variable(name, "transfer-encoding");
        case 18:
            return equal_as_variable(name, "proxy-authenticate");
        case 19:
            return equal_as_variable(name, "proxy-authorization");
        default:
            return false;
    }
}

Step ChunkedDecoder::next(std::string_view input, const TrailerBounds& bounds, Fields& trailers) {
    switch (phase_) {
        case Phase::size_line:
            return read_size_line(input);
        case Phase::content: {
            if (input.empty()) return {State::more};
            const auto size =
                static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
            left_ -= size;
            if (left_ == 0) phase_ = Phase::content_end;
            return {State::data, size, input.substr(0, size)};
        }
        case Phase::content_end: {
            if (!input.empty() && input[0] != '\r') return {State::bad};
            if (input.size() < 2) return {State::more};
            if (input[1] != '\n') return {State::bad};
            phase_ = Phase::size_line;
            Step step = read_size_line(input.substr(2));
            step.consumed += 2;
            return step;
        }
        case Phase::trailers: {
            const std::size_t end =
                trailer_scanner_.scan(input, {bounds.bytes, bounds.fields, bounds.bytes});
            if (trailer_scanner_.fault() != HeadFault::none) return {State::bad};
            if (end == 0) return {State::more};
            if (parse_fields(input.substr(0, end), bounds.fields, trailers) != HeadFault::none) {
                return {State::bad};
            }
            phase_ = Phase::done;
            return {State::done, end};
        }
        case Phase::done:
            return {State::done};
    }
    return {State::bad};
}

Step ChunkedDecoder::read_size_line(std::string_view input) {
    std::size_t digits = 0;
    std::uint64_t size = 0;
    while (digits < input.size() && hex_value(input[digits]) >= 0) {
        if (digits == 15) return {State::bad};
        size = size * 16 + static_cast<std::uint64_t>(hex_value(input[digits]));
        ++digits;
    }
    if (digits == 0 && !input.empty()) return {State::bad};
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) {
        return {input.size() > kSizeLineMax ? State::bad : State::more};
    }
    if (input[end - 1] != '\r' || end > kSizeLineMax) return {State::bad};
    if (!is_extensions(input.substr(digits, end - 1 - digits))) return {State::bad};
    left_ = size;
    phase_ = size == 0 ? Phase::trailers : Phase::content;
    return {State::more, end + 1};
}

void append_chunk_size(std::uint64_t bytes, std::string& out) {
    std::array<char, 18> text;
    char* const end = std::to_chars(text.data(), text.data() + 16, bytes, 16).ptr;
    end[0] = '\r';
    end[1] = '\n';
    out.append(text.data(), static_cast<std::size_t>(end + 2 - text.data()));
}

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

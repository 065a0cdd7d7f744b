#include "http/chunked.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/hex.hpp"

namespace tidegate::http {

namespace {

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
    // With the white space before it; without it, that stays.
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

}  // namespace tidegate::http

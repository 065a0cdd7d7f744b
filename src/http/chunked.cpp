#include "http/chunked.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tidegate::http {

namespace {

using State = ChunkedDecoder::State;
using Step = ChunkedDecoder::Step;

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// chunk-ext: anything a field value may hold, after optional white space and a semicolon. What it
// says is dropped, so only what could hide a line end matters.
bool is_extension(std::string_view text) {
    const std::size_t start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) return text.empty();
    return text[start] == ';' && std::all_of(text.begin(), text.end(), [](char c) {
               return (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) || c == '\t';
           });
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
            // No state is kept between calls: a trailer section is rare and nearly always whole.
            HeadScanner scanner;
            const std::size_t end =
                scanner.scan(input, {bounds.bytes, bounds.fields, bounds.bytes});
            if (scanner.fault() != HeadFault::none) return {State::bad};
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
    while (digits < input.size() && hex_digit(input[digits]) >= 0) {
        if (digits == 15) return {State::bad};
        size = size * 16 + static_cast<std::uint64_t>(hex_digit(input[digits]));
        ++digits;
    }
    if (digits == 0 && !input.empty()) return {State::bad};
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) {
        return {input.size() > kSizeLineMax ? State::bad : State::more};
    }
    if (input[end - 1] != '\r' || end > kSizeLineMax) return {State::bad};
    if (!is_extension(input.substr(digits, end - 1 - digits))) return {State::bad};
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

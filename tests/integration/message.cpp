#include "integration/message.hpp"

#include <strings.h>

#include <algorithm>
#include <charconv>

namespace tidegate::test {
namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

std::size_t number(std::string_view text, int base) {
    std::size_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || ec != std::errc{} || end != text.data() + text.size())
        throw MalformedMessage("not a number: " + std::string(text));
    return value;
}

std::string word(const std::string& line, int index) {
    std::size_t begin = 0;
    for (int i = 0; i < index; ++i) begin = line.find(' ', begin) + 1;
    return line.substr(begin, line.find(' ', begin) - begin);
}

std::pair<std::string, std::string> parse_field(const std::string& line) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || line[colon - 1] == ' ' || line[0] == ' ' ||
        line[0] == '\t')
        throw MalformedMessage("not a field: " + line);
    return {line.substr(0, colon), std::string(trimmed(std::string_view(line).substr(colon + 1)))};
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
    return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

int Message::status() const {
    return static_cast<int>(number(std::string_view(start_line).substr(9, 3), 10));
}

std::string Message::method() const {
    return word(start_line, 0);
}

std::string Message::target() const {
    return word(start_line, 1);
}

std::size_t Message::count(std::string_view name) const {
    return static_cast<std::size_t>(std::count_if(
        fields.begin(), fields.end(), [&](const auto& f) { return same_name(f.first, name); }));
}

std::string Message::field(std::string_view name) const {
    std::string joined;
    for (const auto& [key, value] : fields) {
        if (!same_name(key, name)) continue;
        if (!joined.empty()) joined += ", ";
        joined += value;
    }
    return joined;
}

Message MessageReader::response(bool to_head_request) {
    Message message;
    if (buffer_.empty() && !fill()) throw MalformedMessage("closed without an answer");
    head(message);
    const auto& start = message.start_line;
    if (start.size() < 12 || start.compare(0, 7, "HTTP/1.") != 0 || start[8] != ' ')
        throw MalformedMessage("not a status line: " + start);
    const int status = message.status();
    if (status < 100 || status > 599) throw MalformedMessage("not a status: " + start);
    if (to_head_request || status < 200 || status == 204 || status == 304) return message;
    if (!message.has("content-length") && !message.has("transfer-encoding")) {
        message.until_close = true;
        message.body = rest();
        message.broken = socket_->was_truncated();
        return message;
    }
    body(message);
    return message;
}

bool MessageReader::request(Message& message) {
    if (!request_head(message)) return false;
    body(message);
    return true;
}

bool MessageReader::request_head(Message& message) {
    message = {};
    if (buffer_.empty() && !fill()) return false;
    head(message);
    if (std::count(message.start_line.begin(), message.start_line.end(), ' ') != 2)
        throw MalformedMessage("not a request line: " + message.start_line);
    return true;
}

void MessageReader::body(Message& message) {
    const bool length = message.has("content-length");
    const bool coding = message.has("transfer-encoding");
    if (length && coding) throw MalformedMessage("two lengths: " + message.start_line);
    if (message.count("content-length") > 1) throw MalformedMessage("Content-Length twice");
    if (coding) {
        if (message.field("transfer-encoding") != "chunked")
            throw MalformedMessage("coding " + message.field("transfer-encoding"));
        chunked_body(message);
    } else if (length) {
        message.broken = !take(number(message.field("content-length"), 10), message.body);
    }
}

void MessageReader::chunked_body(Message& message) {
    for (;;) {
        if (buffer_.empty() && !fill()) {
            message.broken = true;
            return;
        }
        const std::size_t size = number(line(), 16);
        if (size == 0) break;
        ++message.chunks;
        if (!take(size, message.body)) {
            message.broken = true;
            return;
        }
        if (!line().empty()) throw MalformedMessage("no CRLF after a chunk");
    }
    for (auto text = line(); !text.empty(); text = line())
        message.trailers.push_back(parse_field(text));
}

std::string MessageReader::rest() {
    while (fill()) {
    }
    return std::exchange(buffer_, {});
}

std::string MessageReader::some() {
    if (buffer_.empty()) fill();
    return std::exchange(buffer_, {});
}

bool MessageReader::fill() {
    const auto bytes = socket_->receive();
    buffer_ += bytes;
    return !bytes.empty();
}

std::string MessageReader::line() {
    std::size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
        if (!fill()) throw MalformedMessage("ended within a line: " + buffer_);
    }
    if (end == 0 || buffer_[end - 1] != '\r') throw MalformedMessage("bare LF: " + buffer_);
    auto text = buffer_.substr(0, end - 1);
    buffer_.erase(0, end + 1);
    if (text.find('\r') != std::string::npos) throw MalformedMessage("bare CR: " + text);
    return text;
}

void MessageReader::head(Message& message) {
    message.start_line = line();
    for (auto text = line(); !text.empty(); text = line())
        message.fields.push_back(parse_field(text));
}

bool MessageReader::take(std::size_t size, std::string& out) {
    while (size > 0) {
        if (buffer_.empty() && !fill()) return false;
        const auto part = std::min(size, buffer_.size());
        out.append(buffer_, 0, part);
        buffer_.erase(0, part);
        size -= part;
    }
    return true;
}

}  // namespace tidegate::test

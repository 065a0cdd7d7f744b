#include "integration/h2_translator.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace tidegate::test {
namespace {

// So long the server may take nothing of a body before the client goes on without it.
constexpr milliseconds kMoment{300};
// More than that is not left to be sent later.
constexpr std::size_t kKeptMax = 4'194'304;

[[noreturn]] void refuse(const std::string& what) {
    throw std::logic_error("HTTP/2 cannot say: " + what);
}

std::size_t parsed_size(std::string_view text, int base) {
    std::size_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (ec != std::errc{} || end != text.data() + text.size()) refuse(std::string(text));
    return value;
}

std::pair<std::string, std::string> field_of(const std::string& line) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || colon == 0) refuse(line);
    const auto begin = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
    const auto end = line.find_last_not_of(" \t") + 1;
    return {line.substr(0, colon), line.substr(begin, std::max(begin, end) - begin)};
}

std::vector<std::string> lines_of(std::string_view head) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < head.size();) {
        const auto end = head.find("\r\n", begin);
        lines.emplace_back(head.substr(begin, end - begin));
        begin = end + 2;
    }
    return lines;
}

bool belongs_to_connection(std::string_view name) {
    constexpr std::array names{"connection",        "keep-alive", "proxy-connection",
                               "transfer-encoding", "upgrade",    "host"};
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view one) { return same_name(name, one); });
}

Message message_of(const H2Answer& answer) {
    Message message = answer;
    if (message.has("content-length")) message.chunks = 0;
    return message;
}

std::string text_of(const Message& head) {
    std::string text = head.start_line + "\r\n";
    for (const auto& [name, value] : head.fields) text += name + ": " + value + "\r\n";
    return text + "\r\n";
}

}  // namespace

H2Translator::H2Translator(std::uint16_t port, const std::string& from) : port_(port), from_(from) {
    clients_.push_back(std::make_unique<H2Client>(port, H2Options{}, from));
}

H2Client& H2Translator::client() const {
    const std::lock_guard lock(mutex_);
    return *clients_.back();
}

bool H2Translator::send(std::string_view bytes) {
    text_ += bytes;
    bool is_taken = client().is_connected() || client().goaway();
    while (is_taken && take()) is_taken = hand_over();
    return is_taken;
}

// One step further in text_; false when there is too little of it.
bool H2Translator::take() {
    switch (part_) {
        case Part::head: {
            const auto end = text_.find("\r\n\r\n");
            if (end == std::string::npos) return false;
            const std::string head = text_.substr(0, end + 2);
            text_.erase(0, end + 4);
            take_head(head);
            return true;
        }
        case Part::length:
        case Part::chunk:
            return take_body();
        case Part::chunk_head:
            return take_chunk_head();
        case Part::chunk_end:
            if (text_.size() < 2) return false;
            if (!text_.starts_with("\r\n")) refuse("no CRLF after a chunk");
            text_.erase(0, 2);
            part_ = Part::chunk_head;
            return true;
        case Part::trailers:
            return take_trailers();
    }
    return false;
}

void H2Translator::take_head(std::string_view head) {
    const auto lines = lines_of(head);
    const std::string& first = lines.front();
    const auto space = first.find(' ');
    if (space == std::string::npos || !first.ends_with(" HTTP/1.1")) refuse(first);
    H2Request request;
    request.method = first.substr(0, space);
    request.path = first.substr(space + 1, first.size() - space - 1 - 9);
    request.authority.clear();
    part_ = Part::head;
    for (std::size_t i = 1; i < lines.size(); ++i) {
        auto [name, value] = field_of(lines[i]);
        if (same_name(name, "host")) request.authority = value;
        if (same_name(name, "transfer-encoding")) part_ = Part::chunk_head;
        if (same_name(name, "content-length")) {
            left_ = parsed_size(value, 10);
            if (left_ > 0) part_ = Part::length;
        }
        // The only value of TE that HTTP/2 allows.
        const bool is_te = same_name(name, "te");
        if (is_te && value.find("trailers") == std::string::npos) continue;
        if (is_te) value = "trailers";
        if (!belongs_to_connection(name)) request.fields.emplace_back(name, value);
    }
    request.stays_open = part_ != Part::head;
    look_for_goaway();
    stream_ = client().begin(request);
    const std::lock_guard lock(mutex_);
    awaited_.push_back({stream_});
}

void H2Translator::look_for_goaway() {
    if (front()) return;
    client().run_once(milliseconds{0});
    if (!client().goaway()) return;
    auto fresh = std::make_unique<H2Client>(port_, H2Options{}, from_);
    const std::lock_guard lock(mutex_);
    clients_.push_back(std::move(fresh));
}

bool H2Translator::take_body() {
    if (text_.empty()) return false;
    const std::size_t part = std::min(left_, text_.size());
    client().queue(stream_, std::string_view(text_).substr(0, part));
    text_.erase(0, part);
    left_ -= part;
    if (left_ > 0) return true;
    if (part_ == Part::length) client().finish(stream_);
    part_ = part_ == Part::length ? Part::head : Part::chunk_end;
    return true;
}

bool H2Translator::take_chunk_head() {
    const auto head = line();
    if (!head) return false;
    left_ = parsed_size(std::string_view(*head).substr(0, head->find(';')), 16);
    part_ = left_ > 0 ? Part::chunk : Part::trailers;
    return true;
}

bool H2Translator::take_trailers() {
    const auto trailer = line();
    if (!trailer) return false;
    if (trailer->empty()) {
        client().finish(stream_, trailers_);
        trailers_.clear();
        part_ = Part::head;
    } else {
        trailers_.push_back(field_of(*trailer));
    }
    return true;
}

std::optional<std::string> H2Translator::line() {
    const auto end = text_.find("\r\n");
    if (end == std::string::npos) return std::nullopt;
    std::string found = text_.substr(0, end);
    text_.erase(0, end + 2);
    return found;
}

// Sends what was queued, as far as the server takes it.
bool H2Translator::hand_over() {
    const auto deadline = Clock::now() + kPatience;
    // A client that only sends acknowledges SETTINGS all the same.
    client().run_once(milliseconds{0});
    for (;;) {
        const std::size_t unsent = client().unsent(stream_);
        if (unsent == 0) return client().is_connected();
        const H2Progress progress = client().progress(stream_);
        if (progress.is_closed) return false;
        if (progress.is_whole) return true;
        if (client().run_once(kMoment) || unsent != client().unsent(stream_)) continue;
        if (!client().is_connected()) return false;
        if (unsent <= kKeptMax) return true;
        if (Clock::now() > deadline) throw TooLate();
    }
}

Message H2Translator::response() {
    client().run_until([&] { return front().has_value(); });
    auto awaited = front();
    if (!awaited) throw MalformedMessage("closed without an answer");
    client().run_until([&] {
        const H2Progress now = client().progress(awaited->stream);
        return now.interim > awaited->interim || now.is_whole || now.is_closed;
    });
    const H2Answer answer = client().so_far(awaited->stream);
    if (answer.interim.size() > awaited->interim) {
        const Message head = answer.interim[awaited->interim++];
        update(*awaited);
        return head;
    }
    pop(answer);
    if (!answer.has_head()) throw MalformedMessage("closed without an answer");
    return message_of(answer);
}

std::string H2Translator::rest() {
    if (!front()) {
        if (!client().closed()) throw TooLate();
        return "";
    }
    std::string text;
    while (front()) text += some();
    return text;
}

std::string H2Translator::some() {
    client().run_until([&] { return front().has_value(); });
    auto awaited = front();
    if (!awaited) return "";
    const int stream = awaited->stream;
    if (awaited->head) {
        const std::string more = client().some(stream);
        if (more.empty()) pop(client().so_far(stream));
        return more;
    }
    client().run_until([&] {
        const H2Progress now = client().progress(stream);
        return now.interim > awaited->interim || now.has_head || now.is_closed;
    });
    std::string text;
    const H2Answer answer = client().so_far(stream);
    while (awaited->interim < answer.interim.size()) {
        text += text_of(answer.interim[awaited->interim++]);
    }
    if (answer.has_head()) {
        awaited->head = true;
        text += text_of(answer);
    }
    update(*awaited);
    if (text.empty()) pop(answer);
    return text;
}

void H2Translator::finish_sending() {
    if (part_ != Part::head) client().reset(stream_);
    part_ = Part::head;
    text_.clear();
}

std::optional<H2Translator::Awaited> H2Translator::front() const {
    const std::lock_guard lock(mutex_);
    if (awaited_.empty()) return std::nullopt;
    return awaited_.front();
}

void H2Translator::update(const Awaited& awaited) {
    const std::lock_guard lock(mutex_);
    awaited_.front() = awaited;
}

void H2Translator::pop(const H2Answer& answer) {
    const std::lock_guard lock(mutex_);
    awaited_.pop_front();
    stream_was_reset_ = answer.reset.value_or(NGHTTP2_NO_ERROR) != NGHTTP2_NO_ERROR;
}

}  // namespace tidegate::test

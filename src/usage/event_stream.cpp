#include "usage/event_stream.hpp"

#include <algorithm>
#include <optional>

namespace tidegate::usage {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kName = "data";

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < size; ++i) {
        number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    return number;
}

bool is_line_end(char c) {
    return c == '\n' || c == '\r';
}

}  // namespace

EventPart ServerSentEvents::next(std::string_view& bytes) {
    while (!bytes.empty()) {
        if (skip_newline_) {
            skip_newline_ = false;
            if (bytes.front() == '\n') {
                bytes.remove_prefix(1);
                continue;
            }
        }
        if (mark_ < kByteOrderMark.size()) {
            if (bytes.front() == kByteOrderMark[mark_]) {
                ++mark_;
                bytes.remove_prefix(1);
                continue;
            }
            // A part of a mark is a name that no field has.
            if (mark_ > 0) at_ = At::ignored;
            mark_ = kByteOrderMark.size();
        }
        EventPart part;
        if (at_ == At::line && (part = whole_event(bytes)).kind != EventPart::Kind::none)
            return part;
        if (is_line_end(bytes.front())) {
            part = end_line(bytes);
        } else if (at_ == At::line || at_ == At::name) {
            read_name(bytes);
        } else {
            part = value(bytes);
        }
        if (part.kind != EventPart::Kind::none) return part;
    }
    return {};
}

// The usual event: one line, its end and the empty line in one piece, without other fields.
EventPart ServerSentEvents::whole_event(std::string_view& bytes) {
    if (has_data_ || is_unreadable_ || !bytes.starts_with("data:")) return {};
    const std::size_t newline = bytes.find('\n');
    if (newline == bytes.npos) return {};
    std::string_view line = bytes.substr(0, newline);
    std::size_t end = newline + 1;
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
        if (bytes.substr(end).starts_with('\r')) ++end;
    }
    if (!bytes.substr(end).starts_with('\n')) return {};
    if (line.size() > kLineMax || line.find('\r') != line.npos) return {};
    line.remove_prefix(kName.size() + 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    bytes.remove_prefix(end + 1);
    return {EventPart::Kind::whole, line};
}

EventPart ServerSentEvents::end_line(std::string_view& bytes) {
    skip_newline_ = bytes.front() == '\r';
    bytes.remove_prefix(1);
    const At ended = at_;
    at_ = At::line;
    line_ = 0;
    const std::uint8_t name = name_;
    name_ = 0;
    if (ended == At::line) return end_event();
    // `data` is an empty line of data with a colon and without.
    const bool is_empty_data =
        ended == At::first_of_value || (ended == At::name && name == kName.size());
    return is_empty_data ? begin_data() : EventPart{};
}

// A newline joins the lines of an event's data.
EventPart ServerSentEvents::begin_data() {
    const bool is_further = has_data_;
    has_data_ = true;
    if (!is_further || is_unreadable_) return {};
    return {EventPart::Kind::data, "\n"};
}

EventPart ServerSentEvents::end_event() {
    const bool was_unreadable = is_unreadable_;
    const bool had_data = has_data_;
    is_unreadable_ = has_data_ = false;
    if (was_unreadable) return {EventPart::Kind::unreadable, {}};
    if (had_data) return {EventPart::Kind::end, {}};
    return {};
}

void ServerSentEvents::read_name(std::string_view& bytes) {
    const char c = bytes.front();
    bytes.remove_prefix(1);
    at_ = At::name;
    ++line_;
    if (name_ < kName.size() && c == kName[name_]) {
        ++name_;
    } else if (name_ == kName.size() && c == ':') {
        at_ = At::first_of_value;
    } else {
        at_ = At::ignored;
    }
}

EventPart ServerSentEvents::value(std::string_view& bytes) {
    if (at_ == At::first_of_value) {
        at_ = At::value;
        if (bytes.front() == ' ') {
            bytes.remove_prefix(1);
            ++line_;
        }
        return begin_data();
    }
    const std::size_t size = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::string_view piece = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (at_ == At::ignored) return {};
    line_ += size;
    if (line_ > kLineMax) is_unreadable_ = true;
    if (is_unreadable_ || piece.empty()) return {};
    return {EventPart::Kind::data, piece};
}

EventPart AmazonEvents::next(std::string_view& bytes) {
    while (!bytes.empty() || (at_ == At::payload && payload_ == 0)) {
        switch (at_) {
            case At::prelude:
                if (!collect(bytes, kPrelude)) return {};
                if (!read_prelude()) {
                    at_ = At::broken;
                    return {EventPart::Kind::unreadable, {}};
                }
                break;
            case At::headers:
                if (headers_ > kHeadersMax) {
                    const auto skipped = static_cast<std::uint32_t>(
                        std::min<std::size_t>(bytes.size(), headers_ - kHeadersMax));
                    bytes.remove_prefix(skipped);
                    headers_ -= skipped;
                    break;
                }
                if (!collect(bytes, headers_)) return {};
                crc_.process_bytes(buffer_.data(), buffer_.size());
                wanted_ = wanted_ && is_wanted();
                buffer_.clear();
                at_ = At::payload;
                break;
            case At::payload: {
                if (payload_ == 0) {
                    at_ = At::checksum;
                    if (bytes.empty()) return {};
                    break;
                }
                const std::string_view piece = bytes.substr(0, payload_);
                bytes.remove_prefix(piece.size());
                payload_ -= static_cast<std::uint32_t>(piece.size());
                if (!wanted_) break;
                crc_.process_bytes(piece.data(), piece.size());
                return {EventPart::Kind::data, piece};
            }
            case At::checksum: {
                if (!collect(bytes, kChecksum)) return {};
                const bool is_sound = number_at(buffer_, 0, kChecksum) == crc_.checksum();
                buffer_.clear();
                at_ = At::prelude;
                if (!wanted_) break;
                return {is_sound ? EventPart::Kind::end : EventPart::Kind::unreadable, {}};
            }
            case At::broken:
                bytes = {};
                return {};
        }
    }
    return {};
}

// Whether the buffer has come to `size` bytes.
bool AmazonEvents::collect(std::string_view& bytes, std::size_t size) {
    const std::size_t taken = std::min(bytes.size(), size - buffer_.size());
    buffer_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    return buffer_.size() == size;
}

bool AmazonEvents::read_prelude() {
    const std::uint32_t total = number_at(buffer_, 0, 4);
    headers_ = number_at(buffer_, 4, 4);
    crc_.reset();
    crc_.process_bytes(buffer_.data(), 8);
    if (number_at(buffer_, 8, 4) != crc_.checksum()) return false;
    if (total > kMessageMax || headers_ > total || total - headers_ < kPrelude + kChecksum)
        return false;
    payload_ = total - headers_ - static_cast<std::uint32_t>(kPrelude + kChecksum);
    crc_.process_bytes(buffer_.data() + 8, 4);
    wanted_ = headers_ <= kHeadersMax;
    buffer_.clear();
    at_ = headers_ == 0 ? At::payload : At::headers;
    if (headers_ == 0) wanted_ = false;
    return true;
}

bool AmazonEvents::is_wanted() const {
    // The length of a value by its type; 6 and 7 (bytes and text) say theirs in two bytes.
    static constexpr std::array<std::uint8_t, 10> kSizes = {0, 0, 1, 2, 4, 8, 2, 2, 8, 16};
    bool is_event = false;
    bool is_type = false;
    for (std::size_t at = 0; at < buffer_.size();) {
        const std::size_t name_size = static_cast<unsigned char>(buffer_[at++]);
        if (buffer_.size() - at < name_size + 1) return false;
        const auto name = std::string_view(buffer_).substr(at, name_size);
        at += name_size;
        const auto type = static_cast<unsigned char>(buffer_[at++]);
        if (type >= kSizes.size() || buffer_.size() - at < kSizes[type]) return false;
        const bool has_length = type == 6 || type == 7;
        std::size_t size = kSizes[type];
        if (has_length) {
            size = number_at(buffer_, at, 2);
            at += 2;
            if (buffer_.size() - at < size) return false;
        }
        const auto value = std::string_view(buffer_).substr(at, size);
        at += size;
        if (type != 7) continue;
        if (name == ":message-type") is_event = value == "event";
        if (name == ":event-type") is_type = value == type_;
    }
    return is_event && is_type;
}

}  // namespace tidegate::usage

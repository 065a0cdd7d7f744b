#include "usage/event_stream.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::usage {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kName = "data";

bool is_line_end(char c) {
    return c == '\n' || c == '\r';
}

}  // namespace

bool is_last_event(std::string_view event) {
    return event.size() <= kLastEventMax &&
           (trimmed(event) == "[DONE]" || event.find("\"message_stop\"") != event.npos);
}

std::string mark_of(std::string_view pointer) {
    const std::string_view name = pointer.substr(1, pointer.find('/', 1) - 1);
    const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) {
        return is_alphanumeric(c) || c == '_' || c == '-' || c == '.';
    });
    return is_plain ? '"' + std::string(name) : "";
}

bool contains(std::string_view text, std::string_view part) {
    return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

bool has_value(std::string_view event, std::string_view mark) {
    const char* const end = event.data() + event.size();
    const char* at = event.data();
    while (at != end) {
        const void* const found =
            ::memmem(at, static_cast<std::size_t>(end - at), mark.data(), mark.size());
        if (found == nullptr) return false;
        at = static_cast<const char*>(found) + mark.size();
        std::string_view rest(at, static_cast<std::size_t>(end - at));
        if (!rest.starts_with("\":")) return true;
        rest.remove_prefix(2);
        if (!trimmed(rest.substr(0, 16)).starts_with("null")) return true;
    }
    return false;
}

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
        if (at_ == At::line) {
            if (skip_type(bytes)) continue;
            part = whole_event(bytes);
            if (part.kind != EventPart::Kind::none) return part;
        }
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

// The line `event` of Anthropic's events, where all of it is here: their data says the type again.
bool ServerSentEvents::skip_type(std::string_view& bytes) {
    if (!bytes.starts_with("event:")) return false;
    const std::size_t newline = bytes.find('\n');
    if (newline == bytes.npos || bytes.substr(0, newline).find('\r') != bytes.npos) return false;
    bytes.remove_prefix(newline + 1);
    return true;
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
                const bool is_sound = big_endian<std::uint32_t>(buffer_) == crc_.checksum();
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
    const std::uint32_t total = big_endian<std::uint32_t>(buffer_);
    headers_ = big_endian<std::uint32_t>(buffer_, 4);
    crc_.reset();
    crc_.process_bytes(buffer_.data(), 8);
    if (big_endian<std::uint32_t>(buffer_, 8) != crc_.checksum()) return false;
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

bool AmazonEvents::is_wanted() {
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
            size = big_endian<std::uint16_t>(buffer_, at);
            at += 2;
            if (buffer_.size() - at < size) return false;
        }
        const auto value = std::string_view(buffer_).substr(at, size);
        at += size;
        if (type != 7) continue;
        if (name == ":message-type") is_event = value == "event";
        if (name != ":event-type") continue;
        is_further_ = !further_.empty() && value == further_;
        is_type = is_further_ || value == type_;
    }
    return is_event && is_type;
}

namespace {

// What a request keeps between its events.
constexpr std::size_t kKeptMax = 4096;

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The usual event at the front of `bytes`: one line of data and an empty line. Empty: another one,
// or its end is not there.
std::string_view usual_event(std::string_view bytes) {
    if (!bytes.starts_with("data:")) return {};
    const std::size_t newline = bytes.find('\n');
    if (newline == bytes.npos) return {};
    std::size_t end = newline + 1;
    std::string_view line = bytes.substr(0, newline);
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
        if (bytes.substr(end).starts_with('\r')) ++end;
    }
    if (!bytes.substr(end).starts_with('\n') || line.find('\r') != line.npos) return {};
    return bytes.substr(0, end + 1);
}

// Whether `"usage"` has an object behind it somewhere: no event without it is the chunk. Where the
// upstream was asked for usage, each event has `"usage":null`.
bool may_be_chunk(std::string_view event) {
    constexpr std::string_view kUsage = "\"usage\"";
    const char* at = event.data();
    const char* const end = at + event.size();
    const auto skip_space = [&] {
        while (at != end && is_space(*at)) ++at;
    };
    for (;;) {
        const void* const found =
            ::memmem(at, static_cast<std::size_t>(end - at), kUsage.data(), kUsage.size());
        if (found == nullptr) return false;
        at = static_cast<const char*>(found) + kUsage.size();
        skip_space();
        if (at == end || *at != ':') continue;
        ++at;
        skip_space();
        if (at != end && *at == '{') return true;
    }
}

// Takes a line with its end off the front of `bytes`.
std::string_view next_line(std::string_view& bytes) {
    std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (end < bytes.size()) end += bytes.substr(end).starts_with("\r\n") ? 2 : 1;
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end);
    return line;
}

}  // namespace

bool UsageChunkFilter::Scan::next(char c) {
    if (at_ == At::name) return read_name(c);
    if (at_ == At::inside) return pass_over(c);
    if (is_space(c)) return true;
    switch (at_) {
        case At::begin:
            at_ = At::member;
            return c == '{';
        case At::member:
            if (c == '"') begin_name();
            return c == '}' ? end_object() : c == '"' || c == ',';
        case At::colon:
            at_ = At::value;
            return c == ':';
        case At::value:
            return begin_value(c);
        case At::choices:
            at_ = At::member;
            return c == ']';
        default:  // nothing is behind the object
            return false;
    }
}

void UsageChunkFilter::Scan::begin_name() {
    at_ = At::name;
    name_size_ = 0;
}

bool UsageChunkFilter::Scan::read_name(char c) {
    if (is_escaped_) {
        is_escaped_ = false;
    } else if (c == '\\') {
        is_escaped_ = true;
        name_size_ = name_.size() + 1;  // another name
    } else if (c == '"') {
        at_ = At::colon;
        return !(has_choices_ && is_named("choices")) && !(has_usage_ && is_named("usage"));
    }
    if (name_size_ < name_.size()) {
        name_[name_size_++] = c;
    } else {
        name_size_ = name_.size() + 1;
    }
    return true;
}

bool UsageChunkFilter::Scan::is_named(std::string_view name) const {
    return name_size_ <= name_.size() && name == std::string_view(name_.data(), name_size_);
}

bool UsageChunkFilter::Scan::begin_value(char c) {
    if (is_named("choices")) {
        at_ = At::choices;
        has_choices_ = true;
        return c == '[';
    }
    at_ = At::inside;
    if (is_named("usage")) {
        has_usage_ = true;
        if (c != '{') return false;
    }
    depth_ = 0;
    return pass_over(c);
}

// A text or a container has ended when `depth_` is 0 again; a comma or the object's end ends a
// number and a word.
bool UsageChunkFilter::Scan::pass_over(char c) {
    if (in_text_) {
        if (is_escaped_) {
            is_escaped_ = false;
        } else if (c == '\\') {
            is_escaped_ = true;
        } else if (c == '"') {
            in_text_ = false;
            if (depth_ == 0) at_ = At::member;
        }
        return true;
    }
    switch (c) {
        case '"':
            in_text_ = true;
            return true;
        case '{':
        case '[':
            ++depth_;
            return true;
        case '}':
        case ']':
            if (depth_ == 0) return c == '}' && end_object();
            if (--depth_ == 0) at_ = At::member;
            return true;
        case ',':
            if (depth_ == 0) at_ = At::member;
            return true;
        default:
            return true;
    }
}

bool UsageChunkFilter::Scan::end_object() {
    at_ = At::end;
    return has_choices_ && has_usage_;
}

void UsageChunkFilter::take(std::string_view piece, std::string& out) {
    while (!piece.empty()) {
        const bool is_clean = held_.empty() && !passes_ && mark_ == kByteOrderMark.size();
        if (at_ == At::line && is_clean && !skip_newline_) {
            const std::string_view event = usual_event(piece);
            if (!event.empty() && !may_be_chunk(event)) {
                out.append(event);
                piece.remove_prefix(event.size());
                continue;
            }
        }
        if (passes_ && at_ != At::line) {
            const std::size_t size = std::min(piece.find_first_of("\r\n"), piece.size());
            out.append(piece.substr(0, size));
            piece.remove_prefix(size);
            if (piece.empty()) return;
        }
        const char c = piece.front();
        piece.remove_prefix(1);
        if (take_rest_of_line(c, out) || take_mark(c, out)) continue;
        if (c == '\r' || c == '\n') {
            end_line(c, out);
        } else {
            read(c);
            put(c, out);
        }
    }
}

void UsageChunkFilter::end(std::string& out) {
    release(out);
}

// Of two bytes that end a line, the second goes the way of the first.
bool UsageChunkFilter::take_rest_of_line(char c, std::string& out) {
    if (!skip_newline_) return false;
    skip_newline_ = false;
    if (c != '\n') return false;
    if (!drop_newline_) put(c, out);
    return true;
}

bool UsageChunkFilter::take_mark(char c, std::string& out) {
    if (mark_ == kByteOrderMark.size()) return false;
    if (c != kByteOrderMark[mark_]) {
        // A part of a mark is a name that no field has.
        if (mark_ > 0) at_ = At::ignored;
        mark_ = kByteOrderMark.size();
        return false;
    }
    held_ += c;
    if (++mark_ == kByteOrderMark.size()) release(out);
    return true;
}

void UsageChunkFilter::read(char c) {
    switch (at_) {
        case At::line:
        case At::name:
            if (at_ == At::line && c == ':') {
                at_ = At::comment;
            } else if (name_ == kName.size() && c == ':') {
                at_ = At::first_of_value;
            } else if (name_ < kName.size() && c == kName[name_]) {
                at_ = At::name;
                ++name_;
            } else {
                at_ = At::ignored;
            }
            break;
        case At::first_of_value:
            at_ = At::value;
            begin_data();
            if (c == ' ') break;
            [[fallthrough]];
        case At::value:
            if (!passes_) passes_ = !scan_.next(c);
            break;
        case At::ignored:
        case At::comment:
            break;
    }
}

// A newline joins the lines of an event's data.
void UsageChunkFilter::begin_data() {
    if (has_data_ && !passes_) passes_ = !scan_.next('\n');
    has_data_ = true;
}

// Comments keep connections alive, so those in front of an event wait for nothing.
void UsageChunkFilter::put(char c, std::string& out) {
    if (held_.size() == kHeldMax) passes_ = true;
    if (passes_) release(out);
    if (passes_ || (held_.empty() && (at_ == At::comment || at_ == At::line))) {
        out += c;
    } else {
        held_ += c;
    }
}

void UsageChunkFilter::end_line(char c, std::string& out) {
    skip_newline_ = c == '\r';
    drop_newline_ = false;
    const At ended = at_;
    if (ended == At::line) return end_event(c, out);
    // `data` is an empty line of data with a colon and without.
    if (ended == At::first_of_value || (ended == At::name && name_ == kName.size())) begin_data();
    put(c, out);
    at_ = At::line;
    name_ = 0;
}

void UsageChunkFilter::end_event(char c, std::string& out) {
    if (has_data_ && !passes_ && is_chunk()) {
        std::string_view rest = held_;
        while (!rest.empty()) {
            const std::string_view line = next_line(rest);
            if (line.starts_with(':')) out.append(line);
        }
        held_.clear();
        drop_newline_ = skip_newline_;
    } else {
        passes_ = true;
        put(c, out);
    }
    passes_ = has_data_ = false;
    scan_ = Scan();
}

void UsageChunkFilter::release(std::string& out) {
    out.append(held_);
    held_.clear();
    if (held_.capacity() > kKeptMax) std::string().swap(held_);
}

// Whether what is held is JSON, too.
bool UsageChunkFilter::is_chunk() const {
    if (!scan_.is_whole()) return false;
    static const JsonPointers kNone({});
    JsonReader json(kNone, {}, [](const JsonReader::Members&) {});
    bool is_first = true;
    std::string_view rest = held_;
    while (!rest.empty()) {
        std::string_view line = next_line(rest);
        line = line.substr(0, line.find_first_of("\r\n"));
        if (!line.starts_with("data:") && line != kName) continue;
        line.remove_prefix(std::min(line.size(), kName.size() + 1));
        if (line.starts_with(' ')) line.remove_prefix(1);
        if (!is_first) json.read("\n");
        is_first = false;
        json.read(line);
    }
    return json.end() == JsonReader::Fault::none;
}

}  // namespace tidegate::usage

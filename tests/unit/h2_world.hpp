// A client for tests of the HTTP/2 server: frames made by hand, and the server's frames taken
// apart.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "h2/server.hpp"

namespace h2_world {

using namespace tidegate;
using namespace std::chrono_literals;
using Event = h2::ServerEvent;
using Settings = h2::ServerSettings;
using Stream = h2::ServerStream;
using Kind = Event::Kind;

inline std::string number(std::uint64_t value, int bytes) {
    std::string text;
    for (int at = bytes - 1; at >= 0; --at) text += static_cast<char>(value >> (8 * at) & 0xff);
    return text;
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload = {}) {
    return number(payload.size(), 3) + number(type, 1) + number(flags, 1) + number(stream, 4) +
           std::string(payload);
}

inline std::string data(std::uint32_t stream, std::string_view bytes, bool is_end = false) {
    return frame(NGHTTP2_DATA, is_end ? NGHTTP2_FLAG_END_STREAM : 0, stream, bytes);
}

inline std::string window_update(std::uint32_t stream, std::uint32_t bytes) {
    return frame(NGHTTP2_WINDOW_UPDATE, 0, stream, number(bytes, 4));
}

inline std::string rst_stream(std::uint32_t stream, std::uint32_t error = NGHTTP2_CANCEL) {
    return frame(NGHTTP2_RST_STREAM, 0, stream, number(error, 4));
}

inline std::string ping(std::uint8_t flags = 0) {
    return frame(NGHTTP2_PING, flags, 0, "12345678");
}

inline std::string settings(
    std::initializer_list<std::pair<std::uint16_t, std::uint32_t>> entries = {}) {
    std::string payload;
    for (const auto& [id, value] : entries) payload += number(id, 2) + number(value, 4);
    return frame(NGHTTP2_SETTINGS, 0, 0, payload);
}

inline std::string preface(
    std::initializer_list<std::pair<std::uint16_t, std::uint32_t>> entries = {}) {
    return NGHTTP2_CLIENT_MAGIC + settings(entries);
}

using FieldList = std::vector<std::pair<std::string, std::string>>;

// Header blocks without compression or a table: literals, never indexed.
inline std::string length_of(std::size_t size) {
    if (size < 127) return std::string(1, static_cast<char>(size));
    std::string text(1, '\x7f');
    for (size -= 127; size >= 128; size /= 128) text += static_cast<char>(size % 128 + 128);
    return text + static_cast<char>(size);
}

inline std::string block(const FieldList& fields) {
    std::string text;
    for (const auto& [name, value] : fields) {
        text += '\x10' + length_of(name.size()) + name + length_of(value.size()) + value;
    }
    return text;
}

inline std::string headers(std::uint32_t stream, const FieldList& fields, bool is_end = true) {
    const int end = is_end ? NGHTTP2_FLAG_END_STREAM : 0;
    return frame(NGHTTP2_HEADERS, static_cast<std::uint8_t>(NGHTTP2_FLAG_END_HEADERS | end), stream,
                 block(fields));
}

inline FieldList request(std::string method = "GET", std::string path = "/") {
    return {{":method", std::move(method)},
            {":scheme", "http"},
            {":path", std::move(path)},
            {":authority", "a.example"}};
}

inline FieldList request_with(FieldList more) {
    FieldList fields = request();
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
}

struct Frame {
    h2::FrameHead head;
    std::string payload;
    FieldList fields;  // of HEADERS

    std::uint32_t word(std::size_t at) const {
        std::uint32_t value = 0;
        for (std::size_t i = at; i < at + 4; ++i) {
            value = value << 8 | static_cast<unsigned char>(payload.at(i));
        }
        return value;
    }
    bool is(std::uint8_t type) const { return head.type == type; }
    bool ends_stream() const { return head.has(NGHTTP2_FLAG_END_STREAM); }
};

// Takes what a server sends apart. Header blocks of several frames are joined.
class Reader {
  public:
    Reader() { nghttp2_hd_inflate_new(&inflater_); }
    ~Reader() { nghttp2_hd_inflate_del(inflater_); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    std::vector<Frame> read(std::string_view bytes) {
        std::vector<Frame> frames;
        left_ += bytes;
        for (;;) {
            h2::FrameHeads heads(0);
            const auto step = heads.next(left_);
            const std::size_t whole = h2::kFrameHeadBytes + heads.head().length;
            if (!step.found || left_.size() < whole) return frames;
            frames.push_back(
                {heads.head(), left_.substr(h2::kFrameHeadBytes, heads.head().length), {}});
            if (frames.back().is(NGHTTP2_HEADERS)) frames.back().fields = decode(frames.back());
            left_.erase(0, whole);
        }
    }
    bool has_rest() const { return !left_.empty(); }

  private:
    FieldList decode(const Frame& headers) {
        FieldList fields;
        std::string_view rest = headers.payload;
        for (;;) {
            nghttp2_nv nv{};
            int flags = 0;
            const auto used = nghttp2_hd_inflate_hd2(
                inflater_, &nv, &flags, reinterpret_cast<const std::uint8_t*>(rest.data()),
                rest.size(), 1);
            if (used < 0) return {{"error", nghttp2_strerror(static_cast<int>(used))}};
            rest.remove_prefix(static_cast<std::size_t>(used));
            if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
                fields.emplace_back(
                    std::string(reinterpret_cast<const char*>(nv.name), nv.namelen),
                    std::string(reinterpret_cast<const char*>(nv.value), nv.valuelen));
            }
            if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
        }
        nghttp2_hd_inflate_end_headers(inflater_);
        return fields;
    }

    nghttp2_hd_inflater* inflater_ = nullptr;
    std::string left_;
};

inline Settings with(std::uint32_t burst) {
    Settings settings;
    settings.abuse.burst = burst;
    return settings;
}

struct World {
    explicit World(const Settings& settings = {}, const h2::Transport& transport = {})
        : server(settings, transport, pool, now) {}

    // Gives the server `bytes`, and keeps its events.
    World& receive(std::string_view bytes) {
        last = std::string(bytes);  // the views of events go into it
        events.clear();
        server.receive(last, now, events);
        return *this;
    }
    World& begin() {
        receive(preface());
        sent();
        return receive(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0));
    }
    // All that the server sends now.
    std::vector<Frame> sent(std::size_t room = 16'384) {
        std::string buffer(room, '\0');
        std::string all;
        while (const auto bytes = server.gather(buffer, now, events)) {
            all += buffer.substr(0, bytes);
        }
        return reader.read(all);
    }
    // Of the stream's event of that kind in the last round; null: there is none.
    Event* event(Kind kind, std::uint32_t id = 0) {
        for (Event& event : events) {
            const bool is_its = id == 0 || (event.stream != nullptr && event.stream->id() == id);
            if (event.kind == kind && is_its) return &event;
        }
        return nullptr;
    }
    Stream* stream(std::uint32_t id) {
        Event* const request = event(Kind::head, id);
        return request != nullptr ? request->stream : nullptr;
    }
    // Sends a request and gives its stream.
    Stream* ask(std::uint32_t id, const FieldList& fields = request(), bool is_end = true) {
        receive(headers(id, fields, is_end));
        return stream(id);
    }
    void answer(Stream& stream) {
        server.send_head(stream, 200, "", false);
        server.release(stream);
    }
    void wait(std::chrono::milliseconds time) {
        now += time;
        server.tick(now, events);
    }
    std::string body(std::uint32_t id) const {
        std::string text;
        for (const Event& event : events) {
            if (event.kind == Kind::body && event.stream->id() == id) text += event.bytes;
        }
        return text;
    }

    h2::StreamPool<h2::ServerStream> pool;
    h2::Time now{1'000s};
    h2::ServerEventList events;
    std::string last;
    Reader reader;
    h2::ServerSession server;
};

inline const Frame* find(const std::vector<Frame>& frames, std::uint8_t type) {
    for (const Frame& frame : frames)
        if (frame.is(type)) return &frame;
    return nullptr;
}

// The error of the RST_STREAM or GOAWAY among them; -1: there is none.
inline std::int64_t reset_error(const std::vector<Frame>& frames) {
    const Frame* const reset = find(frames, NGHTTP2_RST_STREAM);
    return reset != nullptr ? std::int64_t{reset->word(0)} : -1;
}
inline std::int64_t goaway_error(const std::vector<Frame>& frames) {
    const Frame* const goaway = find(frames, NGHTTP2_GOAWAY);
    return goaway != nullptr ? std::int64_t{goaway->word(4)} : -1;
}

}  // namespace h2_world

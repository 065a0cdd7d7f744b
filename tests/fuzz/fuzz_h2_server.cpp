// What clients of HTTP/2 send: however the bytes are cut, the server gives the same events; their
// heads are such as HTTP/1's parser would make; what it sends is whole frames, and no stream ends
// twice.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "h2/server.hpp"

namespace {

using namespace tidegate;
using namespace std::chrono_literals;
using Event = h2::ServerEvent;

h2::ServerSettings settings() {
    h2::ServerSettings settings;
    settings.streams = 4;
    settings.stream_window = settings.connection_window = 65'535;
    settings.cookie_crumbs = 3;
    settings.abuse = {20, {100, std::chrono::seconds{1}}};
    settings.head = {512, 8, 64};
    settings.connect_protocol = true;
    return settings;
}

constexpr h2::Time kNow{1'000s};

// The client's first bytes, so that the fuzzer need not find them.
std::string begun(std::string_view rest) {
    return NGHTTP2_CLIENT_MAGIC + std::string("\0\0\0\4\0\0\0\0\0", 9) + std::string(rest);
}

void check_field(const http::Field& field) {
    FUZZ_CHECK(http::is_token(field.name) && http::is_field_value(field.value));
    FUZZ_CHECK(std::none_of(field.name.begin(), field.name.end(),
                            [](char c) { return c >= 'A' && c <= 'Z'; }));
    FUZZ_CHECK(field.id == http::field_name(field.name));
}

void check_head(h2::ServerStream& stream) {
    const http::RequestHead& head = stream.head();
    if (stream.head_fault() != http::HeadFault::none) return;
    FUZZ_CHECK(http::is_token(head.method));
    FUZZ_CHECK(head.path.starts_with('/') || head.path == "*" || head.method == "CONNECT");
    FUZZ_CHECK(head.fields.size() <= settings().head.fields + 1);
    for (const http::Field& field : head.fields) check_field(field);
}

// All events of the server, with the content of each stream in one.
struct Told {
    std::string events;
    std::map<std::uint32_t, std::string> bodies;

    bool operator==(const Told&) const = default;
};

void add(const Event& event, Told& told) {
    const std::uint32_t id = event.stream != nullptr ? event.stream->id() : 0;
    if (event.kind == Event::Kind::body) {
        told.bodies[id] += event.bytes;
        return;
    }
    told.events += std::to_string(static_cast<int>(event.kind)) + ' ' + std::to_string(id) + ' ' +
                   std::to_string(event.error) + ' ' +
                   std::to_string(static_cast<int>(event.malformed)) + ';';
    if (event.kind == Event::Kind::head) {
        check_head(*event.stream);
        const http::RequestHead& head = event.stream->head();
        told.events.append(head.method).append(head.target);
        for (const http::Field& field : head.fields) {
            told.events.append(field.name).append(field.value);
        }
    }
    if (event.kind == Event::Kind::end) {
        for (const http::Field& field : event.stream->trailers()) check_field(field);
    }
}

Told read(std::string_view bytes, std::size_t portion) {
    h2::StreamPool<h2::ServerStream> pool;
    h2::ServerSession server(settings(), {}, pool, kNow);
    Told told;
    h2::ServerEventList events;
    for (std::size_t at = 0; at < bytes.size(); at += portion) {
        events.clear();
        server.receive(bytes.substr(at, portion), kNow, events);
        for (const Event& event : events) add(event, told);
    }
    std::array<char, 4'096> buffer;
    events.clear();
    while (server.gather(buffer, kNow, events) > 0) {
    }
    for (const Event& event : events) add(event, told);
    told.events += std::to_string(server.error());
    if (server.is_done()) told.events += '.';
    return told;
}

// What the server sends, followed frame by frame.
class Output {
  public:
    void read(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto step = heads_.next(bytes);
            bytes.remove_prefix(step.bytes);
            if (step.found) check(heads_.head());
        }
    }

  private:
    void check(const h2::FrameHead& head) {
        FUZZ_CHECK(head.length <= 16'384);
        if (head.type != NGHTTP2_DATA && head.type != NGHTTP2_HEADERS) return;
        FUZZ_CHECK(!ended_[head.stream]);
        if (head.has(NGHTTP2_FLAG_END_STREAM)) ended_[head.stream] = true;
    }

    h2::FrameHeads heads_{0};
    std::map<std::uint32_t, bool> ended_;
};

// Answers everything, in one of several ways that the stream's number chooses.
class Answering {
  public:
    explicit Answering(std::string_view bytes) {
        for (std::size_t at = 0; at < bytes.size(); at += kPortion) {
            events_.clear();
            server_.receive(bytes.substr(at, kPortion), kNow, events_);
            turn();
            events_.clear();
            std::array<char, 2'048> buffer;
            while (const auto size = server_.gather(buffer, kNow, events_)) {
                output_.read({buffer.data(), size});
            }
            turn();
            if (server_.is_done()) return;
            if (server_.is_idle()) server_.drop_memory();
        }
    }

  private:
    static constexpr std::size_t kPortion = 100;

    void turn() {
        for (const Event& event : events_) {
            if (event.kind == Event::Kind::head) {
                event.stream->owner = this;
                begin(*event.stream);
            } else if (event.stream != nullptr && event.stream->owner != nullptr) {
                follow(event);
            }
        }
    }
    void begin(h2::ServerStream& stream) {
        if (stream.id() % 16 == 1) server_.send_interim(stream, 103, "Link: </a>\r\n");
        const bool has_body = stream.id() % 8 != 3;
        server_.send_head(stream, 200, "Server: x\r\n", has_body);
        if (!has_body) return server_.release(stream);
        if (stream.id() % 8 == 5) server_.offer(stream, pieces_, false);
        if (stream.id() % 8 == 7) server_.offer(stream, pieces_, true, &trailers_);
    }
    void follow(const Event& event) {
        h2::ServerStream& stream = *event.stream;
        switch (event.kind) {
            case Event::Kind::body:
                server_.consume(stream, event.bytes.size());
                break;
            case Event::Kind::end:
                if (stream.is_taking() && stream.id() % 8 != 7) {
                    server_.offer(stream, pieces_, true);
                }
                break;
            case Event::Kind::drained:
                server_.release(stream);
                break;
            case Event::Kind::reset:
                server_.release(stream);
                break;
            default:
                break;
        }
    }

    std::string content_ = std::string(3'000, 'x');
    std::array<std::string_view, 2> pieces_{content_, "abc"};
    http::Fields trailers_{{http::FieldName::other, "X-Sum", "1"}};
    h2::StreamPool<h2::ServerStream> pool_;
    h2::ServerSession server_{settings(), {}, pool_, kNow};
    h2::ServerEventList events_;
    Output output_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes = begun({reinterpret_cast<const char*>(data), size});
    const Told whole = read(bytes, bytes.size());
    for (const std::size_t portion : {1UL, 3UL, 10UL}) FUZZ_CHECK(read(bytes, portion) == whole);
    Answering{bytes};
    return 0;
}

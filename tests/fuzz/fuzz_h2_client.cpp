// What servers of HTTP/2 send: however the bytes are cut, the client gives the same events; their
// heads are such as HTTP/1's parser would make, and bodies are as long as they say.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "h2/client.hpp"

namespace {

using namespace tidegate;
using namespace std::chrono_literals;
using Kind = h2::ClientEvent::Kind;

constexpr h2::Time kNow{1'000s};
constexpr h2::ClientSettings kSettings{.streams = 4, .streams_max = 8, .head = {512, 8, 512}};

// The server's first bytes, so that the fuzzer need not find them.
std::string begun(std::string_view rest) {
    return std::string("\0\0\0\4\0\0\0\0\0", 9) + std::string(rest);
}

void check_field(const http::Field& field) {
    FUZZ_CHECK(http::is_token(field.name) && http::is_field_value(field.value));
    FUZZ_CHECK(std::none_of(field.name.begin(), field.name.end(),
                            [](char c) { return c >= 'A' && c <= 'Z'; }));
    FUZZ_CHECK(field.id == http::field_name(field.name));
}

// The events of one stream so far.
struct Told {
    std::string events;
    std::string body;

    bool operator==(const Told&) const = default;
};

// Asks four times, and follows what comes.
class Asking {
  public:
    explicit Asking(bool consumes) : consumes_(consumes) {
        for (std::size_t i = 0; i < 4; ++i) {
            const bool has_body = i == 3;
            h2::ClientStream& stream =
                client_.begin({i == 2 ? "HEAD" : "GET", "http", "/"}, "Host: a\r\n", has_body);
            stream.owner = this;
            streams_.push_back(&stream);
            if (has_body) client_.offer(stream, pieces_, true, &trailers_);
        }
        send();
    }
    ~Asking() {
        for (h2::ClientStream* const stream : streams_) client_.release(*stream);
    }

    void receive(std::string_view bytes) {
        events_.clear();
        client_.receive(bytes, kNow, events_);
        for (const h2::ClientEvent& event : events_) follow(event);
    }
    void send() {
        std::array<char, 2'048> buffer;
        events_.clear();
        while (client_.gather(buffer, kNow, events_) > 0) {
        }
    }
    std::map<std::uint32_t, Told> told() {
        for (h2::ClientStream* const stream : streams_) {
            Told& told = told_[stream->id()];
            while (http::ResponseHead* const head = stream->next_head()) {
                check_head(*head, *stream);
                told.events += std::to_string(head->status) + ' ';
                for (const http::Field& field : head->fields) {
                    told.events.append(field.name).append(field.value);
                }
                if (head->status >= 200) break;
                stream->drop_interim();
            }
            if (stream->has_ended()) {
                told.events += '.';
                for (const http::Field& field : stream->trailers()) check_field(field);
                const http::Framing& framing = stream->framing();
                if (framing.body == http::BodyKind::length) {
                    FUZZ_CHECK(told.body.size() == framing.length);
                }
                if (framing.body == http::BodyKind::none) FUZZ_CHECK(told.body.empty());
            }
            told.events += std::to_string(static_cast<int>(stream->malformed()));
            told.events += stream->is_unprocessed() ? 'u' : 'p';
        }
        return told_;
    }

  private:
    void follow(const h2::ClientEvent& event) {
        if (event.kind != Kind::body) return;
        told_[event.stream->id()].body += event.bytes;
        if (consumes_) client_.consume(*event.stream, event.bytes.size());
    }
    void check_head(const http::ResponseHead& head, const h2::ClientStream& stream) const {
        FUZZ_CHECK(head.status >= 100 && head.status <= 599 && head.status != 101);
        FUZZ_CHECK(stream.has_answered());
        FUZZ_CHECK(head.fields.size() <= kSettings.head.fields);
        for (const http::Field& field : head.fields) check_field(field);
    }

    const bool consumes_;
    std::string content_ = std::string(3'000, 'x');
    std::array<std::string_view, 2> pieces_{content_, "abc"};
    http::Fields trailers_{{http::FieldName::other, "X-Sum", "1"}};
    h2::StreamPool<h2::ClientStream> pool_;
    h2::ClientSession client_{kSettings, pool_, kNow};
    h2::ClientEventList events_;
    std::vector<h2::ClientStream*> streams_;
    std::map<std::uint32_t, Told> told_;
};

std::map<std::uint32_t, Told> read(std::string_view bytes, std::size_t portion) {
    Asking asking(true);
    for (std::size_t at = 0; at < bytes.size(); at += portion) {
        asking.receive(bytes.substr(at, portion));
    }
    return asking.told();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes = begun({reinterpret_cast<const char*>(data), size});
    const auto whole = read(bytes, bytes.size());
    for (const std::size_t portion : {1UL, 3UL, 10UL}) FUZZ_CHECK(read(bytes, portion) == whole);
    // Sending between the portions, and windows that stay closed.
    Asking slow(false);
    for (std::size_t at = 0; at < bytes.size(); at += 100) {
        slow.receive(std::string_view(bytes).substr(at, 100));
        slow.send();
    }
    return 0;
}

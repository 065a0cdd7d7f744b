// A server for tests of the HTTP/2 client: frames made by hand, and the client's frames taken
// apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "h2/client.hpp"
#include "h2_world.hpp"

namespace h2_client_world {

using namespace h2_world;
using h2::ClientEvent;
using h2::ClientStream;
using ClientKind = ClientEvent::Kind;

inline FieldList answer(std::string status = "200", FieldList more = {}) {
    FieldList fields{{":status", std::move(status)}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
}

inline std::string goaway(std::uint32_t last, std::uint32_t error = NGHTTP2_NO_ERROR) {
    return frame(NGHTTP2_GOAWAY, 0, 0, number(last, 4) + number(error, 4));
}

struct ClientWorld {
    explicit ClientWorld(const h2::ClientSettings& settings = {}) : client(settings, pool, now) {}

    // The server's first SETTINGS, and what the client sends first.
    ClientWorld& begin(
        std::initializer_list<std::pair<std::uint16_t, std::uint32_t>> entries = {}) {
        sent();
        receive(settings(entries));
        sent();
        return *this;
    }
    ClientWorld& receive(std::string_view bytes) {
        last = std::string(bytes);  // the views of events go into it
        events.clear();
        client.receive(last, now, events);
        return *this;
    }
    // All that the client sends now.
    std::vector<Frame> sent(std::size_t room = 16'384) {
        std::string buffer(room, '\0');
        std::string all;
        while (const auto bytes = client.gather(buffer, now, events)) {
            all += buffer.substr(0, bytes);
        }
        if (!has_begun) {
            REQUIRE(all.starts_with(NGHTTP2_CLIENT_MAGIC));
            all.erase(0, NGHTTP2_CLIENT_MAGIC_LEN);
            has_begun = true;
        }
        return reader.read(all);
    }
    ClientStream& ask(bool has_body = false, std::string_view method = "GET") {
        ClientStream& stream =
            client.begin({method, "http", "/a?b"}, "Host: a.example\r\nX-One: 1\r\n", has_body);
        stream.owner = this;
        return stream;
    }
    bool has(ClientKind kind, const ClientStream& stream) const {
        for (const ClientEvent& event : events) {
            if (event.kind == kind && event.stream == &stream) return true;
        }
        return false;
    }
    std::string body(const ClientStream& stream) const {
        std::string text;
        for (const ClientEvent& event : events) {
            if (event.kind == ClientKind::body && event.stream == &stream) text += event.bytes;
        }
        return text;
    }

    h2::StreamPool<h2::ClientStream> pool;
    h2::Time now{1'000s};
    h2::ClientEventList events;
    std::string last;
    Reader reader;
    bool has_begun = false;
    h2::ClientSession client;
};

inline const Frame* find_for(const std::vector<Frame>& frames, std::uint8_t type,
                             std::uint32_t stream) {
    for (const Frame& one : frames) {
        if (one.is(type) && one.head.stream == stream) return &one;
    }
    return nullptr;
}

}  // namespace h2_client_world

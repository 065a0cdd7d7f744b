#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "amazon_message.hpp"
#include "usage/event_stream.hpp"

namespace tidegate::usage::event_stream_test {
namespace {

using Kind = EventPart::Kind;

// The data of each event; `!` is one that cannot be read.
template <class Events>
std::vector<std::string> events_of(Events events, std::string_view text, std::size_t piece) {
    std::vector<std::string> found;
    std::string data;
    for (std::size_t at = 0; at < text.size(); at += piece) {
        std::string_view bytes = text.substr(at, piece);
        for (EventPart part; (part = events.next(bytes)).kind != Kind::none;) {
            if (part.kind == Kind::unreadable) data = "!";
            if (part.kind == Kind::data || part.kind == Kind::whole) data += part.data;
            if (part.kind == Kind::data) continue;
            found.push_back(data);
            data.clear();
        }
        CHECK(bytes.empty());
    }
    return found;
}

using Texts = std::vector<std::string>;

void check_events(std::string_view text, const Texts& expected) {
    CAPTURE(text.substr(0, 100));
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}, text.size()}) {
        CAPTURE(piece);
        CHECK(events_of(ServerSentEvents{}, text, piece) == expected);
    }
}

}  // namespace

TEST_CASE("events: an event is the data up to an empty line, whatever ends the lines") {
    check_events("data: a\n\ndata:b\n\n", {"a", "b"});
    check_events("data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"});
    check_events("data: a\r\rdata: b\r\r", {"a", "b"});
    check_events("data: a\r\n\ndata: b\n\r\n", {"a", "b"});
    check_events("data:  a \n\n", {" a "});
}

TEST_CASE("events: other fields, comments and events without data are passed over") {
    check_events(": comment\nevent: x\nid: 7\ndata: a\nretry: 3\n\n\n\nevent: y\n\ndata: b\n\n",
                 {"a", "b"});
    check_events("dat: a\n\ndatab: a\n\n data: a\n\nDATA: a\n\n", {});
}

TEST_CASE("events: lines of data are joined by a newline") {
    check_events("data: {\ndata: }\n\n", {"{\n}"});
    check_events("data\ndata: a\ndata:\n\n", {"\na\n"});
    check_events("data: {\"usage\":\ndata: 1}\n\ndata: b\n\n", {"{\"usage\":\n1}", "b"});
}

TEST_CASE("events: one that no empty line ends is none") {
    check_events("data: a\n\ndata: b\n", {"a"});
    check_events("data: a\n\ndata: b", {"a"});
}

TEST_CASE("events: a byte order mark in front is passed over, and a part of one is not a field") {
    check_events(
        "\xef\xbb\xbf"
        "data: a\n\n",
        {"a"});
    check_events(
        "\xef\xbb"
        "data: a\n\ndata: b\n\n",
        {"b"});
    check_events(
        "data: a\n\n\xef\xbb\xbf"
        "data: b\n\n",
        {"a"});
}

TEST_CASE("events: a line above the bound makes its event unreadable, and no other") {
    const std::size_t room = ServerSentEvents::kLineMax - std::string_view("data: ").size();
    for (const char* const end : {"\n\n", "\r\n\r\n"}) {
        const std::string fits(room, 'x');
        const std::string text =
            "data: " + fits + end + "data: " + fits + "x" + end + "data: b" + end;
        for (const std::size_t piece : {std::size_t{16384}, std::size_t{65537}, text.size()}) {
            CAPTURE(piece);
            CHECK(events_of(ServerSentEvents{}, text, piece) == Texts{fits, "!", "b"});
        }
    }
}

TEST_CASE("amazon events: data of the wanted type, in pieces as in one") {
    const std::string text =
        amazon_message("messageStart", "{}") + amazon_message("metadata", "{\"a\":1}") +
        amazon_message("metadata", "") + amazon_message("metadata", "x", "exception") +
        amazon_message("metadata", "{\"b\":2}");
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, text.size()}) {
        CHECK(events_of(AmazonEvents("metadata"), text, piece) ==
              Texts{"{\"a\":1}", "", "{\"b\":2}"});
    }
}

TEST_CASE("amazon events: a damaged message is unreadable, and damaged lengths end the stream") {
    const std::string sound = amazon_message("metadata", "{\"a\":1}");
    for (std::size_t at = 0; at < sound.size(); ++at) {
        CAPTURE(at);
        std::string damaged = sound;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}}) {
            const auto found = events_of(AmazonEvents("metadata"), damaged + sound, piece);
            // The type itself may be what is damaged; then the message is not one to read.
            CHECK(std::count(found.begin(), found.end(), "{\"a\":1}") <= 1);
            if (at < 12) CHECK(found == Texts{"!"});
        }
    }
}

TEST_CASE("amazon events: lengths that do not fit each other, and headers above the bound") {
    const std::string sound = amazon_message("metadata", "{\"a\":1}");
    CHECK(events_of(AmazonEvents("metadata"), amazon_prelude(15, 0) + sound, 1) == Texts{"!"});
    CHECK(events_of(AmazonEvents("metadata"), amazon_prelude(100, 90) + sound, 1) == Texts{"!"});
    CHECK(events_of(AmazonEvents("metadata"), amazon_prelude(0xffffffff, 0) + sound, 1) ==
          Texts{"!"});
    CHECK(events_of(AmazonEvents("metadata"), amazon_message(std::string(2000, 'x'), "y") + sound,
                    1) == Texts{"{\"a\":1}"});
}

}  // namespace tidegate::usage::event_stream_test

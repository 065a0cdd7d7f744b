#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "usage/event_stream.hpp"

namespace tidegate::usage::chunk_filter_test {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kChunk =
    R"(data: {"id":"a","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})";

std::string filtered(std::string_view stream, std::size_t piece = std::string_view::npos) {
    UsageChunkFilter filter;
    std::string out;
    for (std::size_t at = 0; at < stream.size(); at += std::min(piece, stream.size() - at)) {
        filter.take(stream.substr(at, piece), out);
    }
    filter.end(out);
    return out;
}

// In one piece, by two bytes and byte by byte.
void check_filtered(std::string_view stream, std::string_view expected) {
    CAPTURE(stream);
    for (const std::size_t piece : {std::string_view::npos, std::size_t{2}, std::size_t{1}}) {
        CHECK(filtered(stream, piece) == expected);
    }
}

void check_unchanged(std::string_view stream) {
    check_filtered(stream, stream);
}

std::string event(std::string_view line) {
    return std::string(line) + "\n\n";
}

// What passes of `stream` before anything more comes.
std::string passed_at_once(std::string_view stream) {
    UsageChunkFilter filter;
    std::string out;
    for (const char c : stream) filter.take(std::string_view(&c, 1), out);
    return out;
}

}  // namespace

TEST_CASE("usage chunk: the chunk without choices and with usage goes, all others stay") {
    const std::string before =
        event(R"(data: {"id":"a","choices":[{"delta":{"content":"x"}}],"usage":null})") +
        event(R"(data: {"id":"a","choices":[{"delta":{},"finish_reason":"stop"}],"usage":null})");
    const std::string after = event("data: [DONE]");
    check_filtered(before + event(kChunk) + after, before + after);
    check_filtered(event(kChunk) + event(kChunk), "");
}

TEST_CASE("usage chunk: line ends of every kind stay as they are") {
    const std::string chunk(kChunk);
    check_filtered("data: a\r\n\r\n" + chunk + "\r\n\r\ndata: [DONE]\r\n\r\n",
                   "data: a\r\n\r\ndata: [DONE]\r\n\r\n");
    check_filtered("data: a\r\r" + chunk + "\r\rdata: [DONE]\r\r", "data: a\r\rdata: [DONE]\r\r");
    check_filtered("data: a\n\r\n" + chunk + "\r\n\ndata: b\r\n\n", "data: a\n\r\ndata: b\r\n\n");
    check_filtered(chunk + "\n\r\n\n\ndata: b\n\n", "\n\ndata: b\n\n");
}

TEST_CASE("usage chunk: its other fields and further lines of data go, too; comments stay") {
    check_filtered("event: chunk\nid: 7\n" + event(kChunk) + event("data: [DONE]"),
                   "data: [DONE]\n\n");
    check_filtered("data: {\"choices\":\ndata: [ ],\ndata:\ndata\ndata:\"usage\" :\t{}}\n\n", "");
    check_filtered(": alive\n\n: alive\n" + event(kChunk) + ": alive\n\n",
                   ": alive\n\n: alive\n: alive\n\n");
    check_filtered("id: 7\n: one\r\n" + std::string(kChunk) + "\n: two\n\ndata: b\n\n",
                   ": one\r\n: two\ndata: b\n\n");
}

TEST_CASE("usage chunk: members before, between and behind, in any order, do not matter") {
    check_filtered(
        event(
            R"(data: {"usage":{"a":[{"choices":[1]}],"b":"}\"{"},"x":"\\","y":[[]],"z":-1.5e3,"choices":[],"w":true})"),
        "");
}

TEST_CASE("usage chunk: other events without choices, or without usage, pass") {
    for (const char* const data : {R"({"choices":[],"prompt_filter_results":[{"usage":{}}]})",
                                   R"({"choices":[]})",
                                   R"({"choices":[],"usage":null})",
                                   R"({"choices":[],"usage":[]})",
                                   R"({"choices":[],"usage":"{}"})",
                                   R"({"choices":null,"usage":{}})",
                                   R"({"choices":[null],"usage":{}})",
                                   R"({"choices":[{}],"usage":{}})",
                                   R"({"usage":{}})",
                                   R"({"x":{"choices":[],"usage":{}}})",
                                   R"([{"choices":[],"usage":{}}])",
                                   R"({"choices":[],"choices":[],"usage":{}})",
                                   R"({"choices":[],"usage":{},"usage":{}})",
                                   R"({"choices":[],"choices":[{}],"usage":{}})",
                                   R"({"choices":[],"usage":{}}x)",
                                   R"({"choices":[]"usage":{}})",
                                   R"({"choices":[],"usage":{})",
                                   R"({"choices":[],"usage":{}}{})",
                                   R"({"choices ":[],"usage":{}})",
                                   R"({"choices":[],"\usage":{}})",
                                   R"({"choices":[],"usage":{"a":tru}})",
                                   "{}",
                                   "[DONE]",
                                   "",
                                   "x",
                                   R"("choices")"}) {
        CAPTURE(data);
        check_unchanged(event("data: " + std::string(data)) + event("data: b"));
    }
}

TEST_CASE("usage chunk: what is no event of its own passes") {
    check_unchanged(kChunk);
    check_unchanged(std::string(kChunk) + "\n");
    check_unchanged(event("Data: {\"choices\":[],\"usage\":{}}"));
    check_unchanged(event("datax: {\"choices\":[],\"usage\":{}}"));
    check_unchanged("\n\r\n\r\revent: x\n\nid: 1\n\nretry: 5\n\n:\n\n");
    check_unchanged("");
    check_unchanged("data: a\n" + event(kChunk));
}

TEST_CASE("usage chunk: a byte order mark stays, and a part of one makes another field") {
    check_filtered("\xef\xbb\xbf" + event(kChunk) + "data: b\n\n",
                   "\xef\xbb\xbf"
                   "data: b\n\n");
    check_unchanged("\xef\xbb" + event(kChunk));
    check_unchanged("\xef\xbb");
}

TEST_CASE("usage chunk: an event passes as soon as it cannot be the chunk") {
    for (const char* const begin :
         {R"(data: {"id":"a","choices":[{)", R"(data: {"choices":[],"usage":n)", "data: [",
          R"(data: {"choices":[],"x":1})", "event: x\nid: 1\ndata: x", ": alive",
          ": alive\n: ", "\xef\xbb\xbf", "\n", "data: a\n\n\r\n: x\r\n"}) {
        CAPTURE(begin);
        CHECK(passed_at_once(begin) == begin);
    }
    CHECK(passed_at_once(R"(data: {"id":"a","choices":[)").empty());
    CHECK(passed_at_once("event: chunk\n").empty());
    CHECK(passed_at_once("data: a\n\ndata: {") == "data: a\n\n");
}

TEST_CASE("usage chunk: an event above the bound passes, and is not held") {
    const std::string begin = R"(data: {"choices":[],"usage":{},"x":")";
    const std::string end = "\"}\n";
    const std::size_t room = UsageChunkFilter::kHeldMax - begin.size() - end.size();
    for (const std::size_t piece : {std::size_t{1}, std::size_t{4096}, std::string::npos}) {
        CAPTURE(piece);
        const std::string fits = begin + std::string(room, 'x') + end + "\n";
        CHECK(filtered(fits + "data: b\n\n", piece) == "data: b\n\n");
        const std::string longer = begin + std::string(room + 1, 'x') + end + "\n";
        CHECK(filtered(longer + fits + "data: b\n\n", piece) == longer + "data: b\n\n");
    }
    CHECK(passed_at_once(begin + std::string(100'000, 'x')).size() == begin.size() + 100'000);
    CHECK(passed_at_once("id: " + std::string(100'000, 'x')).size() == 100'004);
}

namespace {

struct Line {
    std::string text;
    std::string end;  // empty: the stream ends within the line
};

std::vector<Line> lines_of(const std::string& stream) {
    std::vector<Line> lines;
    for (std::size_t i = 0; i < stream.size(); ++i) {
        Line& line = lines.emplace_back();
        while (i < stream.size() && stream[i] != '\r' && stream[i] != '\n')
            line.text += stream[i++];
        if (i == stream.size()) break;
        line.end = stream[i];
        if (stream[i] == '\r' && i + 1 < stream.size() && stream[i + 1] == '\n') {
            line.end += stream[++i];
        }
    }
    return lines;
}

bool is_chunk(const std::string& data) {
    int choices = 0;
    int usage = 0;
    const auto count = [&](int depth, Json::parse_event_t what, Json& parsed) {
        if (what == Json::parse_event_t::key && depth == 1) {
            choices += parsed == "choices";
            usage += parsed == "usage";
        }
        return true;
    };
    const Json json = Json::parse(data, count, false);
    return json.is_object() && choices == 1 && usage == 1 && json["choices"].is_array() &&
           json["choices"].empty() && json["usage"].is_object();
}

// An independent filter: whole events, a parser of whole documents.
std::string filtered_slowly(const std::string& stream) {
    std::string out;
    std::string event;
    std::string comments;
    std::vector<std::string> data;
    for (const Line& line : lines_of(stream)) {
        event += line.text + line.end;
        if (line.text.starts_with(':')) comments += line.text + line.end;
        if (line.text == "data") data.emplace_back();
        if (line.text.starts_with("data:")) {
            const std::size_t value = line.text.starts_with("data: ") ? 6 : 5;
            data.push_back(line.text.substr(value));
        }
        if (!line.text.empty()) continue;
        std::string joined;
        for (const std::string& one : data) joined += (joined.empty() ? "" : "\n") + one;
        out += is_chunk(joined) ? comments : event;
        event.clear();
        comments.clear();
        data.clear();
    }
    return out + event;
}

class RandomStream {
  public:
    explicit RandomStream(unsigned seed) : random_(seed) {}

    std::size_t below(std::size_t bound) { return random_() % bound; }

    std::string next() {
        std::string stream;
        for (std::size_t events = below(6); events > 0; --events) {
            for (std::size_t lines = below(3); lines > 0; --lines) add_other_line(stream);
            std::string data = below(4) == 0 ? damaged(object()) : object();
            const std::string further = line_end() + (below(2) == 0 ? "data:" : "data: ");
            for (std::size_t at = 0; (at = data.find('\n', at)) != data.npos;
                 at += further.size()) {
                data.replace(at, 1, further);
            }
            stream += (below(2) == 0 ? "data: " : "data:") + data + line_end();
            if (below(4) == 0) add_other_line(stream);
            if (below(8) != 0) stream += line_end();
        }
        return stream;
    }

  private:
    std::string line_end() { return std::array{"\n", "\r\n", "\r", "\n"}[below(4)]; }

    void add_other_line(std::string& stream) {
        stream +=
            std::array{"event: chunk", ": alive", "id: 1", "data", "", "dat: {", ":"}[below(7)] +
            line_end();
    }

    std::string space() { return std::array{"", "", "", " ", "\t", "\n"}[below(6)]; }

    std::string value(int depth) {
        switch (below(depth > 0 ? 9 : 7)) {
            case 0:
                return "null";
            case 1:
                return "[]";
            case 2:
                return "{" + space() + "}";
            case 3:
                return R"("\"usage\":{} \\")";
            case 4:
                return "-1.5e3";
            case 5:
                return "true";
            case 6:
                return R"("]}[{,:")";
            case 7:
                return object(depth - 1);
            default:
                return "[" + value(depth - 1) + space() + "," + value(depth - 1) + "]";
        }
    }

    std::string object(int depth = 3) {
        std::vector<std::string> members;
        if (below(3) != 0)
            members.push_back("\"choices\"" + space() + ":" + space() + "[" +
                              (below(4) == 0 ? value(depth) : space()) + "]");
        if (below(3) != 0)
            members.push_back("\"usage\"" + space() + ":" + space() +
                              (below(4) == 0 ? value(depth) : "{\"a\":1}"));
        for (std::size_t more = below(3); more > 0; --more) {
            members.push_back(std::array{"\"x\":", "\"\":", "\"usage\\n\":", "\"choicesx\":",
                                         "\"usage\":"}[below(5)] +
                              value(depth));
        }
        std::shuffle(members.begin(), members.end(), random_);
        std::string text = "{";
        for (const std::string& member : members) {
            if (text.size() > 1) text += ",";
            text += space() + member + space();
        }
        return text + "}";
    }

    std::string damaged(std::string text) {
        const std::size_t at = below(text.size());
        if (below(2) == 0) {
            text.erase(at, 1);
        } else {
            text.insert(at, 1, "{}[],:\"\\ x"[below(10)]);
        }
        return text;
    }

    std::mt19937 random_;
};

}  // namespace

TEST_CASE("usage chunk: random streams, cut at random, pass as through a slow filter") {
    RandomStream random(20261129);
    std::size_t changed = 0;
    for (int round = 0; round < 20'000; ++round) {
        const std::string stream = random.next();
        const std::string expected = filtered_slowly(stream);
        CAPTURE(round);
        CAPTURE(stream);
        changed += expected != stream;
        UsageChunkFilter filter;
        std::string out;
        const std::size_t longest = random.below(2) == 0 ? 5 : 200;
        for (std::size_t at = 0; at < stream.size();) {
            const std::size_t size = 1 + random.below(longest);
            filter.take(std::string_view(stream).substr(at, size), out);
            at += size;
        }
        filter.end(out);
        REQUIRE(out == expected);
        REQUIRE(filtered(stream) == expected);
    }
    CHECK(changed > 1000);
}

}  // namespace tidegate::usage::chunk_filter_test

// W3C Trace Context: what is a context, and what is written of it.
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/trace_context.hpp"

namespace tidegate::telemetry::trace_context_test {
namespace {

const std::string kTrace = "0af7651916cd43dd8448eb211c80319c";
const std::string kSpan = "b7ad6b7169203331";
const std::string kSampled = "00-" + kTrace + "-" + kSpan + "-01";

// What a parsed value says, written anew; `-` for what is no context.
std::string read_back(const std::string& value) {
    const auto parent = parse_traceparent(value);
    if (!parent) return "-";
    std::string out(kTraceParentBytes, ' ');
    write_traceparent(*parent, out.data());
    return out;
}

std::string state_of(const std::vector<std::string>& values) {
    std::string out = "left over";
    TraceStateReader reader(out);
    for (const std::string& value : values) reader.add(value);
    reader.finish();
    return out;
}

std::string member(char key, std::size_t bytes) {
    return std::string(1, key) + "=" + std::string(bytes - 2, 'v');
}

// The second opinion: the grammar of the standard as regular expressions.
bool is_context(const std::string& value) {
    static const std::regex now("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}");
    static const std::regex later(
        "(?!00|ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?");
    if (!std::regex_match(value, now) && !std::regex_match(value, later)) return false;
    return value.substr(3, 32) != std::string(32, '0') &&
           value.substr(36, 16) != std::string(16, '0');
}

bool is_member(const std::string& text) {
    static const std::regex one(
        "([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})="
        "[ !-+\\--<>-~]{0,255}[!-+\\--<>-~]");
    return std::regex_match(text, one);
}

TEST_CASE("trace_context: a context is read, and written as version 00") {
    CHECK(read_back(kSampled) == kSampled);
    CHECK(read_back("00-" + kTrace + "-" + kSpan + "-00") == "00-" + kTrace + "-" + kSpan + "-00");
    const auto parent = parse_traceparent(kSampled);
    REQUIRE(parent);
    CHECK(parent->is_sampled);
    CHECK(parent->trace[0] == 0x0a);
    CHECK(parent->trace[15] == 0x9c);
    CHECK(parent->span[0] == 0xb7);
}

TEST_CASE("trace_context: of the flags, only `sampled` goes on") {
    const std::string begin = "00-" + kTrace + "-" + kSpan + "-";
    CHECK(read_back(begin + "03") == begin + "01");
    CHECK(read_back(begin + "fe") == begin + "00");
    CHECK(read_back(begin + "ff") == begin + "01");
}

TEST_CASE("trace_context: a later version is read as far as 00 goes, ff is none") {
    const std::string rest = "-" + kTrace + "-" + kSpan + "-01";
    CHECK(read_back("01" + rest) == kSampled);
    CHECK(read_back("cc" + rest + "-what-the-future-will-be-like") == kSampled);
    CHECK(read_back("01" + rest + "-") == kSampled);
    CHECK(read_back("01" + rest + "x") == "-");
    CHECK(read_back("00" + rest + "-x") == "-");
    CHECK(read_back("00" + rest + "-") == "-");
    CHECK(read_back("ff" + rest) == "-");
}

TEST_CASE("trace_context: a malformed field is no context") {
    for (std::size_t size = 0; size < kSampled.size(); ++size) {
        CHECK(read_back(kSampled.substr(0, size)) == "-");
    }
    const std::string zeros(32, '0');
    CHECK(read_back("00-" + zeros + "-" + kSpan + "-01") == "-");
    CHECK(read_back("00-" + kTrace + "-" + zeros.substr(0, 16) + "-01") == "-");
    CHECK(read_back("00-0AF7651916CD43DD8448EB211C80319C-" + kSpan + "-01") == "-");
    CHECK(read_back("0A" + kSampled.substr(2)) == "-");
    CHECK(read_back(" " + kSampled) == "-");
    CHECK(read_back(kSampled + " ") == "-");
    CHECK(read_back(kSampled + "," + kSampled) == "-");
}

TEST_CASE("trace_context: each changed byte is judged as the grammar judges it") {
    const std::string bytes = "0af-FAg ~";
    for (const std::string& base :
         {kSampled, "01" + kSampled.substr(2) + "-ab", kSampled + "-", kSampled.substr(0, 54)}) {
        for (std::size_t i = 0; i < base.size(); ++i) {
            for (const char byte : bytes) {
                std::string changed = base;
                changed[i] = byte;
                CAPTURE(changed);
                CHECK((read_back(changed) != "-") == is_context(changed));
            }
        }
    }
}

TEST_CASE("trace_context: members of several fields become one list, without white space") {
    CHECK(state_of({"a=1"}) == "a=1");
    CHECK(state_of({"a=1, b=2\t,c=3"}) == "a=1,b=2,c=3");
    CHECK(state_of({"a=1,b=2", "c=3"}) == "a=1,b=2,c=3");
    CHECK(state_of({",a=1,, ,b=2,"}) == "a=1,b=2");
    CHECK(state_of({""}).empty());
    CHECK(state_of({}).empty());
    CHECK(state_of({"t@v=x y!z"}) == "t@v=x y!z");
}

TEST_CASE("trace_context: one malformed member, or a key that comes twice, drops the state") {
    for (const std::string bad : {"a", "=1", "A=1", "a=", "a=1=2", "1a=1", "@v=1", "t@=1", "t@1=1",
                                  "a b=1", "a=\x7f", "a=\xc3\xa4"}) {
        CAPTURE(bad);
        CHECK(state_of({"x=1," + bad}).empty());
    }
    CHECK(state_of({"a=1,b=2,a=3"}).empty());
    CHECK(state_of({"a=1", "a=2"}).empty());
}

TEST_CASE("trace_context: members are what the grammar says, whatever they are made of") {
    std::mt19937 random(7);
    const std::string alphabet = "aZ09_-*/@= ~,\x1f";
    std::size_t good = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        for (std::size_t size = random() % 8; text.size() < size;) {
            text += alphabet[random() % alphabet.size()];
        }
        if (text.find(',') != std::string::npos || text.starts_with(' ') || text.ends_with(' ')) {
            continue;
        }
        CAPTURE(text);
        CHECK(state_of({text}) == (is_member(text) ? text : ""));
        good += is_member(text) ? 1 : 0;
    }
    CHECK(good > 20);
    for (const std::size_t size : {256U, 257U}) {
        const std::string key(size, 'k');
        CHECK(is_member(key + "=1") == (size == 256));
        // It is longer than what is kept of one member, in a state that is short enough.
        CHECK(state_of({key + "=1"}) == (size == 256 ? key + "=1" : ""));
        CHECK(state_of({"a=" + key}) == (size == 256 ? "a=" + key : ""));
    }
}

TEST_CASE("trace_context: 32 members are kept, 33 drop the state") {
    std::string all;
    for (int i = 0; i < 32; ++i) all += (i == 0 ? "k" : ",k") + std::to_string(i) + "=1";
    CHECK(state_of({all}) == all);
    CHECK(state_of({all + ",k32=1"}).empty());
    CHECK(state_of({all + ",,"}) == all);
}

TEST_CASE("trace_context: of more than 512 bytes long members go first, then those at the end") {
    const std::string exact =
        member('a', 128) + "," + member('b', 128) + "," + member('c', 128) + "," + member('d', 125);
    REQUIRE(exact.size() == kTraceStateBytesMax);
    CHECK(state_of({exact}) == exact);
    CHECK(state_of({exact + ",e=1"}) == exact);
    CHECK(state_of({member('l', 200) + "," + exact}) == exact);
    CHECK(state_of({"e=1," + exact}) ==
          "e=1," + exact.substr(0, exact.size() - 126));  // without the last
    const std::string two_long = member('a', 200) + "," + member('b', 200) + ",c=1";
    CHECK(state_of({two_long}) == two_long);
    CHECK(state_of({two_long + "," + member('d', 128)}) ==
          member('a', 200) + ",c=1," + member('d', 128));
}

}  // namespace
}  // namespace tidegate::telemetry::trace_context_test

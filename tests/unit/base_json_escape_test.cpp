#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/json_escape.hpp"

namespace tidegate::base_json_escape_test {
namespace {

std::string escaped(std::string_view text) {
    std::string out = "<";
    append_json_escaped(text, out);
    return out.substr(1);
}

std::string json(std::string_view text) {
    std::string out;
    append_json_string(text, out);
    return out;
}

TEST_CASE("json_escape: plain text and well-formed UTF-8 go as they are") {
    CHECK(escaped("") == "");
    CHECK(escaped(std::string_view()) == "");
    CHECK(escaped("a b~!/'") == "a b~!/'");
    CHECK(escaped("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a \xf4\x8f\xbf\xbf") ==
          "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8a \xf4\x8f\xbf\xbf");
}

TEST_CASE("json_escape: bytes with a meaning in JSON or to a terminal are escaped") {
    CHECK(escaped("\"\\\n\r\t") == R"(\"\\\n\r\t)");
    CHECK(escaped(std::string_view("\0\x1f\x7f", 3)) == R"(\u0000\u001f\u007f)");
    CHECK(escaped("\xc2\x9b") == R"(\u009b)");  // C1: begins a terminal's control sequence
    CHECK(escaped("\u200b\u2028\u2029\u202e\u2066\ufeff") ==
          R"(\u200b\u2028\u2029\u202e\u2066\ufeff)");
    CHECK(escaped("\u00ad\U000e0041") == R"(\u00ad\udb40\udc41)");
    CHECK(escaped("\u2027\u202f") == "\u2027\u202f");
    CHECK(escaped("\xc2\xa0") == "\xc2\xa0");
}

TEST_CASE("json_escape: each byte that is no UTF-8 becomes a replacement character") {
    CHECK(escaped("\xff") == R"(\ufffd)");
    CHECK(escaped("a\x80z") == R"(a\ufffdz)");
    CHECK(escaped("\xc3") == R"(\ufffd)");            // ends too early
    CHECK(escaped("\xe2\x82") == R"(\ufffd\ufffd)");  // ends too early
    CHECK(escaped("\xc3(") == R"(\ufffd()");          // not continued
    CHECK(escaped("\xc0\xaf") == R"(\ufffd\ufffd)");  // overlong
    CHECK(escaped("\xe0\x80\xaf") == R"(\ufffd\ufffd\ufffd)");
    CHECK(escaped("\xf0\x80\x80\xaf") == R"(\ufffd\ufffd\ufffd\ufffd)");
    CHECK(escaped("\xed\xa0\x80") == R"(\ufffd\ufffd\ufffd)");            // a surrogate
    CHECK(escaped("\xf4\x90\x80\x80") == R"(\ufffd\ufffd\ufffd\ufffd)");  // beyond U+10FFFF
    CHECK(escaped("\xc3\"") == R"(\ufffd\")");  // a quote is not swallowed
}

TEST_CASE("json_escape: a long text is escaped as its parts are") {
    std::string text;
    std::string expected;
    for (int i = 0; i < 1'000; ++i) {
        text += "x\xe2\x82\xac\n";
        expected += "x\xe2\x82\xac\\n";
    }
    CHECK(escaped(text) == expected);
    CHECK(escaped(std::string(1'000, '\x80')).size() == 6'000);
}

// What becomes of each byte alone.
std::string escaped_one(unsigned char byte) {
    if (byte == '"') return R"(\")";
    if (byte == '\\') return R"(\\)";
    if (byte == '\n') return R"(\n)";
    if (byte == '\r') return R"(\r)";
    if (byte == '\t') return R"(\t)";
    if (byte >= 0x80) return R"(\ufffd)";
    if (byte >= 0x20 && byte != 0x7f) return std::string(1, static_cast<char>(byte));
    static constexpr char kHex[] = "0123456789abcdef";
    return std::string(R"(\u00)") + kHex[byte >> 4] + kHex[byte & 15];
}

TEST_CASE("json_escape: each byte is seen wherever it stands in a text of any length") {
    // Neighbours of special bytes, as whole words are compared at once.
    for (const char neighbour : {' ', '!', '#', '[', ']', '~', 'a'}) {
        for (std::size_t size = 1; size <= 20; ++size) {
            for (std::size_t at = 0; at < size; ++at) {
                for (int byte = 0; byte < 256; ++byte) {
                    std::string text(size, neighbour);
                    text[at] = static_cast<char>(byte);
                    const std::string expected = std::string(at, neighbour) +
                                                 escaped_one(static_cast<unsigned char>(byte)) +
                                                 std::string(size - at - 1, neighbour);
                    if (escaped(text) != expected) FAIL_CHECK(text);
                }
            }
        }
    }
}

TEST_CASE("json_escape: a word has no space, and an item no comma either, wherever it stands") {
    for (std::size_t size = 1; size <= 20; ++size) {
        for (std::size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 128; ++byte) {
                const auto c = static_cast<char>(byte);
                std::string text(size, 'a');
                text[at] = c;
                char room[20 * kEscapedBytesMax];
                const std::string word(room, write_json_escaped_word(text, room));
                const std::string expected =
                    std::string(at, 'a') +
                    (c == ' ' ? R"(\u0020)" : escaped_one(static_cast<unsigned char>(byte))) +
                    std::string(size - at - 1, 'a');
                if (word != expected) FAIL_CHECK(text);
                const bool plain = c > ' ' && c <= '~' && c != '"' && c != '\\' && c != ',';
                char* const end = write_if_plain_item(text, room);
                if ((end != nullptr) != plain) FAIL_CHECK(text);
                if (plain && std::string(room, end) != text) FAIL_CHECK(text);
                const bool bare = c > ' ' && c <= '~' && c != '"' && c != '\\' && c != '=';
                char* const value_end = write_if_plain_value(text, room);
                if ((value_end != nullptr) != bare) FAIL_CHECK(text);
                if (bare && std::string(room, value_end) != text) FAIL_CHECK(text);
            }
        }
    }
    char room[1];
    CHECK(write_if_plain_item("", room) == nullptr);
    CHECK(write_if_plain_value("", room) == nullptr);
}

TEST_CASE("json_escape: memory around a text is neither read nor written") {
    for (std::size_t size = 0; size <= 20; ++size) {
        const std::vector<char> text(size, 'x');  // the sanitizer knows where it ends
        std::vector<char> room(size + 1, '.');
        const char* const end = write_json_escaped({text.data(), size}, room.data());
        CHECK(static_cast<std::size_t>(end - room.data()) == size);
        CHECK(std::string_view(room.data(), size) == std::string(size, 'x'));
        CHECK(room[size] == '.');
    }
}

TEST_CASE("json_string: quotes go around the escaped text") {
    CHECK(json("") == R"("")");
    CHECK(json("a/b") == R"("a/b")");
    CHECK(json("\"\\") == R"("\"\\")");
    CHECK(json("\n\r\t\b\x01\x1f\x7f") == R"("\n\r\t\u0008\u0001\u001f\u007f")");
    CHECK(json(std::string_view("a\0b", 3)) == R"("a\u0000b")");
    CHECK(json("</script>") == R"("</script>")");
}

TEST_CASE("json_string: UTF-8 passes, what only looks like it does not") {
    const std::string_view good[] = {"é",           "€", "𐍈", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf",
                                     "\xee\x80\x80"};
    for (const auto text : good) CHECK(json(text) == "\"" + std::string(text) + "\"");

    const std::string r = R"(\ufffd)";
    CHECK(json("\x80") == "\"" + r + "\"");
    CHECK(json("\xff\xfe") == "\"" + r + r + "\"");
    CHECK(json("\xc3") == "\"" + r + "\"");                          // cut off
    CHECK(json("\xe2\x82") == "\"" + r + r + "\"");                  // cut off
    CHECK(json("\xc3\"") == "\"" + r + "\\\"\"");                    // must not eat the quote
    CHECK(json("\xc0\xaf") == "\"" + r + r + "\"");                  // overlong
    CHECK(json("\xe0\x80\xaf") == "\"" + r + r + r + "\"");          // overlong
    CHECK(json("\xf0\x80\x80\xaf") == "\"" + r + r + r + r + "\"");  // overlong
    CHECK(json("\xed\xa0\x80") == "\"" + r + r + r + "\"");          // a surrogate
    CHECK(json("\xf4\x90\x80\x80") == "\"" + r + r + r + r + "\"");  // above U+10FFFF
    CHECK(json("\xf5\x80\x80\x80") == "\"" + r + r + r + r + "\"");
}

}  // namespace
}  // namespace tidegate::base_json_escape_test

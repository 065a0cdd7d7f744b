#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "usage/json_reader.hpp"

namespace tidegate::usage::json_reader_test {
namespace {

using Kind = JsonMember::Kind;

struct Read {
    std::vector<JsonReader::Members> documents;
    JsonReader::Fault fault = JsonReader::Fault::none;

    const JsonMember& member(std::size_t i = 0) const { return documents.at(0).at(i); }
};

Read read(std::string_view text, std::vector<std::string> names, JsonReader::Options options = {},
          std::size_t piece = std::string_view::npos,
          JsonPointers::Case letters = JsonPointers::Case::exact) {
    Read result;
    const JsonPointers pointers(names, letters);
    JsonReader reader(pointers, options,
                      [&](const auto& members) { result.documents.push_back(members); });
    for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at)) {
        reader.read(text.substr(at, piece));
    }
    result.fault = reader.end();
    return result;
}

Read read_any_case(std::string_view text, std::vector<std::string> names,
                   std::size_t piece = std::string_view::npos) {
    return read(text, std::move(names), {}, piece, JsonPointers::Case::ignored);
}

}  // namespace

TEST_CASE("json_reader: a member is found at its pointer, and only there") {
    const std::string text =
        R"({"x":{"usage":{"n":1}},"a":[{"usage":{"n":2}}],"s":"\"usage\":{\"n\":3}","usage":{"n":4,"o":{"n":5}}})";
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{7}, text.size()}) {
        CAPTURE(piece);
        const Read found = read(text, {"/usage/n"}, {}, piece);
        REQUIRE(found.fault == JsonReader::Fault::none);
        CHECK(found.member().whole == 4);
        CHECK_FALSE(found.member().ambiguous);
    }
}

TEST_CASE("json_reader: it tells each kind of value apart") {
    const auto found = read(R"({"a":null,"b":true,"c":-2,"d":"x","e":{},"f":[1,[2],{}]})",
                            {"/a", "/b", "/c", "/d", "/e", "/f", "/g"});
    const auto& members = found.documents.at(0);
    CHECK(members[0].kind == Kind::null);
    CHECK(members[1].text == "true");
    CHECK(members[2].text == "-2");
    CHECK_FALSE(members[2].whole);
    CHECK(members[3].text == "x");
    CHECK(members[4].kind == Kind::object);
    CHECK(members[5].kind == Kind::array);
    CHECK(members[5].size == 3);
    CHECK(members[6].kind == Kind::absent);
    CHECK_FALSE(members[4].is_scalar());
}

TEST_CASE("json_reader: numbers that are equal are one text") {
    for (const char* const number : {"1000", "1000.0", "1e3", "1E+3", "10000e-1"}) {
        CAPTURE(number);
        const auto found = read(std::string("[") + number + "]", {"/0"});
        CHECK(found.member().text == "1000");
        CHECK(found.member().whole == 1000);
    }
    CHECK(read("[-0.0]", {"/0"}).member().text == "0");
    CHECK(read("[0.5]", {"/0"}).member().text == "0.5");
    CHECK_FALSE(read("[0.5]", {"/0"}).member().whole);
    CHECK(read("[9007199254740993]", {"/0"}).member().text == "9007199254740993");
    CHECK(read("[18446744073709551615]", {"/0"}).member().text == "18446744073709551615");
    CHECK_FALSE(read("[1e300]", {"/0"}).member().whole);
    CHECK_FALSE(read("[\"7\"]", {"/0"}).member().whole);
}

TEST_CASE("json_reader: names and elements of a pointer are those of RFC 6901") {
    CHECK(read(R"({"a/b":{"c~d":[10,11]}})", {"/a~1b/c~0d/1"}).member().whole == 11);
    CHECK(read(R"({"":{"":3}})", {"//"}).member().whole == 3);
    CHECK(read(R"({"1":7})", {"/1"}).member().whole == 7);
    CHECK(read(R"({"\u0061":7})", {"/a"}).member().whole == 7);
    CHECK(read("[[1,2],[3,4]]", {"/1/0"}).member().whole == 3);
    CHECK(is_json_pointer("/a~0~1"));
    CHECK_FALSE(is_json_pointer("a"));
    CHECK_FALSE(is_json_pointer("/a~2"));
    CHECK_FALSE(is_json_pointer("/a~"));
}

TEST_CASE("json_reader: a name that occurs twice has its last value, and is marked") {
    const auto found = read(R"({"n":9,"n":"x","n":4})", {"/n"});
    CHECK(found.member().ambiguous);
    CHECK(found.member().whole == 4);
    CHECK(found.member().largest == 9);
}

TEST_CASE("json_reader: what a repeated object had before is gone") {
    const auto found = read(R"({"u":{"a":1,"b":2},"u":{"b":3}})", {"/u/a", "/u/b"});
    CHECK(found.documents.at(0)[0].kind == Kind::null);
    CHECK(found.documents.at(0)[0].ambiguous);
    CHECK_FALSE(found.documents.at(0)[0].whole);
    CHECK(found.documents.at(0)[1].whole == 3);
    CHECK_FALSE(read(R"({"u":{"a":1},"u":7})", {"/u/a"}).member().whole);
}

TEST_CASE("json_reader: a member of an object that occurs twice is ambiguous, whichever has it") {
    for (const char* const text : {R"({"u":{},"u":{"a":1}})", R"({"u":{"a":1},"u":{}})",
                                   R"({"u":7,"u":{"a":1}})", R"({"u":{"a":1},"u":7})"}) {
        CAPTURE(text);
        CHECK(read(text, {"/u/a"}).member().ambiguous);
    }
    CHECK_FALSE(read(R"({"u":{"a":1},"v":{"a":2}})", {"/u/a"}).member().ambiguous);
}

TEST_CASE("json_reader: a name in another case is no name, unless case is ignored") {
    const char* const text = R"({"Model":"x","MODEL":7})";
    CHECK(read(text, {"/model"}).member().kind == Kind::absent);
    CHECK_FALSE(read(text, {"/model"}).member().ambiguous);
    const auto found = read_any_case(text, {"/model"});
    CHECK(found.member().kind == Kind::absent);
    CHECK(found.member().ambiguous);
    CHECK(found.member().largest == 7);
}

TEST_CASE("json_reader: beside a name in another case a member keeps its own value") {
    for (const char* const text :
         {R"({"n":4,"N":9,"m":1})", R"({"N":9,"n":4,"m":1})", R"({"N":9,"n":4,"N":"x","m":1})"}) {
        for (const std::size_t piece : {std::size_t{1}, std::string_view::npos}) {
            CAPTURE(text);
            const auto found = read_any_case(text, {"/n", "/m"}, piece);
            CHECK(found.member().whole == 4);
            CHECK(found.member().text == "4");
            CHECK(found.member().largest == 9);
            CHECK(found.member().ambiguous);
            CHECK_FALSE(found.member(1).ambiguous);
        }
    }
}

TEST_CASE("json_reader: a number is the one that is written, in one piece and in many") {
    for (const std::size_t piece : {std::string_view::npos, std::size_t{1}, std::size_t{7}}) {
        CAPTURE(piece);
        CHECK(read("[2000000000000000150e-14]", {"/0"}, {}, piece).member().number ==
              2000000000000000150e-14);
        CHECK(read("[2000000000000000000e-14]", {"/0"}, {}, piece).member().whole == 20'000);
        CHECK(read("[200000000000000000000000e-19,7]", {"/0"}, {}, piece).member().whole == 20'000);
    }
    // Too long to tell: it may be as large as can be.
    const Read found = read("[2." + std::string(5'000, '0') + "e4]", {"/0"}, {}, 100);
    CHECK(found.member().ambiguous);
    CHECK(found.member().largest.value_or(0) > 2'000'000'000);
}

TEST_CASE("json_reader: objects and arrays in another case are followed for their numbers") {
    const auto found = read_any_case(
        R"({"u":{"list":[1]},"U":{"LIST":[5,6],"list":[3,8,9],"other":{"list":[99]}}})",
        {"/u/list", "/u/list/0", "/u/list/1", "/u/list/2", "/x"});
    CHECK(found.member(0).size == 1);
    CHECK(found.member(0).kind == Kind::array);
    CHECK(found.member(1).whole == 1);
    CHECK(found.member(1).largest == 5);
    CHECK(found.member(2).kind == Kind::absent);
    CHECK(found.member(2).largest == 8);
    CHECK(found.member(3).largest == 9);
    for (std::size_t i = 0; i < 4; ++i) CHECK(found.member(i).ambiguous);
    CHECK_FALSE(found.member(4).ambiguous);
}

TEST_CASE("json_reader: letters beyond ASCII that fold to a letter are that letter, as in Go") {
    const auto is_known = [](std::string_view name, const std::string& pointer) {
        const std::string text = "{\"" + std::string(name) + "\":7}";
        for (const std::size_t piece : {std::size_t{1}, std::string_view::npos}) {
            const auto found = read_any_case(text, {pointer}, piece);
            CHECK(found.member().ambiguous == (found.member().largest == 7));
            CHECK(found.member().kind == Kind::absent);
        }
        return read_any_case(text, {pointer}).member().ambiguous;
    };
    CHECK(is_known("max_to\u212Aen\u017F", "/max_tokens"));
    CHECK(is_known("MAX_TO\\u212aEN\\u017F", "/max_tokens"));
    CHECK(is_known("\u017F", "/s"));
    CHECK(is_known("\u212A\u212A\u212A\u212A", "/kkkk"));
    CHECK(is_known("GR\u00D6SSE", "/gr\u00F6sse"));
    CHECK_FALSE(is_known("maxtokens", "/max_tokens"));
    CHECK_FALSE(is_known("max_token", "/max_tokens"));
    CHECK_FALSE(is_known("max_to\u212Aen\u00DF", "/max_tokens"));
    CHECK_FALSE(is_known("{", "/["));  // as far apart as letters are
}

TEST_CASE("json_reader: of pointers that differ in case only each has its own value") {
    const auto found = read_any_case(R"({"Max":1,"max":{"Name":2}})", {"/max/Name", "/Max"});
    CHECK(found.member(0).whole == 2);
    CHECK(found.member(1).whole == 1);
    CHECK(found.member(0).ambiguous);
    CHECK(found.member(1).ambiguous);
    CHECK(read_any_case(R"({"Max":1})", {"/max", "/Max"}).member(0).ambiguous);
    CHECK_FALSE(read_any_case(R"({"other":1})", {"/max", "/Max"}).member(0).ambiguous);
}

TEST_CASE("json_reader: the next document knows nothing of names of the one before") {
    const JsonPointers pointers({"/n"}, JsonPointers::Case::ignored);
    std::vector<JsonMember> members;
    JsonReader reader(pointers, {}, [&](const auto& read) { members.push_back(read[0]); });
    for (const char* const text : {R"({"N":7})", R"({"n":1})", "{}"}) {
        reader.read(text);
        CHECK(reader.end() == JsonReader::Fault::none);
    }
    REQUIRE(members.size() == 3);
    CHECK(members[0].ambiguous);
    CHECK_FALSE(members[1].ambiguous);
    CHECK(members[1].largest == 1);
    CHECK_FALSE(members[2].ambiguous);
    CHECK_FALSE(members[2].largest);
}

TEST_CASE("json_reader: a text is kept up to the bound, in pieces as in one") {
    for (const std::size_t piece : {std::size_t{1}, std::string_view::npos}) {
        const auto found =
            read(R"({"a":"12345678","b":"1234"})", {"/a", "/b"}, {.text_max = 4}, piece);
        CHECK(found.documents.at(0)[0].text == "1234");
        CHECK(found.documents.at(0)[0].too_long);
        CHECK(found.documents.at(0)[1].text == "1234");
        CHECK_FALSE(found.documents.at(0)[1].too_long);
    }
}

TEST_CASE("json_reader: a broken document is no document, and the next one is read") {
    const JsonPointers pointers({"/n"});
    std::size_t documents = 0;
    JsonReader reader(pointers, {}, [&](const auto&) { ++documents; });
    for (const char* const text :
         {"", " ", "{", "{\"n\":1", "{\"n\":1}}", "{\"n\":1} x", "{\"n\":01}", "[DONE]", "nul",
          "{'n':1}", "\xff", "\"\xc3\x28\""}) {
        CAPTURE(text);
        reader.read(text);
        CHECK(reader.end() == JsonReader::Fault::not_json);
    }
    CHECK(documents == 0);
    reader.read("{\"n\":1}");
    reader.read(" \r\n");
    CHECK(reader.end() == JsonReader::Fault::none);
    reader.read("{\"n\":1}");
    reader.read(" \r\n{");
    CHECK(reader.end() == JsonReader::Fault::not_json);
    CHECK(documents == 1);
}

TEST_CASE("json_reader: what a document left in the middle of a text is not in the next one") {
    const JsonPointers pointers({"/a", "/b"});
    std::vector<JsonReader::Members> documents;
    JsonReader reader(pointers, {}, [&](const auto& members) { documents.push_back(members); });
    reader.read(R"({"a":"xy)");
    reader.forget();
    reader.read(R"({"b":"z"})");
    reader.end();
    REQUIRE(documents.size() == 1);
    CHECK(documents[0][0].kind == Kind::absent);
    CHECK(documents[0][1].text == "z");
}

TEST_CASE("json_reader: a reader knows nothing of what one before it on the thread has read") {
    // Of other pointers, more or fewer, with faults, cut, and in the middle of a name in another
    // case.
    for (const std::string_view before :
         {R"({"a":1,"b":{"c":"x"},"d":[1,2]})", R"({"a":1,"a":2,"A":3,"d":[1)", R"({"A":)",
          R"({"D":["x)", R"([{"a":4},{"b":)", R"({"a":1}x)"}) {
        CAPTURE(before);
        {
            const JsonPointers pointers({"/a", "/b/c", "/d", "/d/0"}, JsonPointers::Case::ignored);
            JsonReader reader(pointers, {.text_max = 5, .elements_are_documents = true},
                              [](const auto&) {});
            reader.read(before);
        }
        const auto found = read(R"([{"a":"0123456789","z":7}])", {"/z", "/0/a", "/a"});
        REQUIRE(found.documents.size() == 1);
        CHECK(found.fault == JsonReader::Fault::none);
        CHECK(found.member(0).kind == Kind::absent);
        CHECK(found.member(1).text == "0123456789");
        CHECK_FALSE(found.member(1).ambiguous);
        CHECK(found.member(2).kind == Kind::absent);
    }
}

TEST_CASE("json_reader: it tells names apart that have the same length and ends") {
    // As long, with the same first and last letter.
    const auto found = read_any_case(R"({"model":1,"metal":2,"medal":3,"MODAL":4,"":5,"m":6})",
                                     {"/medal", "/modal", "/", "/m", "/mural"});
    const auto& members = found.documents.at(0);
    CHECK(members[0].whole == 3);
    CHECK(members[1].largest == 4);
    CHECK(members[1].ambiguous);
    CHECK(members[2].whole == 5);
    CHECK(members[3].whole == 6);
    CHECK(members[4].kind == Kind::absent);
    // A pointer with a letter that folds to one of ASCII.
    const auto kelvin = read_any_case(R"({"tokens":7})", {"/to\u212Aens"});
    CHECK(kelvin.member().largest == 7);
}

TEST_CASE("json_reader: a document deeper than 64 is refused") {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    CHECK(read(nested(64), {}).fault == JsonReader::Fault::none);
    CHECK(read(nested(65), {}).fault == JsonReader::Fault::too_deep);
    CHECK(read(nested(100'000), {}, {}, 1000).fault == JsonReader::Fault::too_deep);
}

TEST_CASE("json_reader: elements of an array at the root are documents where that is asked for") {
    const auto found =
        read(R"([{"n":1},{"m":2},[],3,{"n":4}])", {"/n"}, {.elements_are_documents = true});
    REQUIRE(found.documents.size() == 4);
    CHECK(found.documents[0][0].whole == 1);
    CHECK(found.documents[1][0].kind == Kind::absent);
    CHECK(found.documents[3][0].whole == 4);
    const auto single = read(R"({"n":1})", {"/n"}, {.elements_are_documents = true});
    CHECK(single.member().whole == 1);
    CHECK(read(R"([{"n":1}])", {"/0/n"}).member().whole == 1);
}

namespace {

// Documents of what each part of the grammar allows and of what it does not.
class Documents {
  public:
    std::string next() {
        std::string text = container(0, true);
        // Mostly sound ones.
        if (below(4) == 0 && !text.empty()) text[below(text.size())] = kBytes[below(kBytes.size())];
        if (below(16) == 0) text.resize(below(text.size() + 1));
        if (below(8) == 0) text += space() + (below(2) == 0 ? "{}" : "");
        return space() + text;
    }

  private:
    static constexpr std::string_view kBytes = "{}[]\",:\\u0019.eE+-tnull \t\x01\x7f\xc3\xa9\xff";

    std::size_t below(std::size_t bound) { return random_() % bound; }
    std::string space() { return std::string(below(6) == 0 ? below(3) : 0, " \n\t\r"[below(4)]); }

    std::string container(int depth, bool is_object) {
        std::string text(1, is_object ? '{' : '[');
        for (std::size_t left = below(6); left > 0; --left) {
            text += space();
            if (is_object) text += '"' + name() + '"' + space() + ':' + space();
            text += value(depth + 1) + space();
            if (left > 1) text += ',';
        }
        return text + (is_object ? '}' : ']');
    }
    std::string name() {
        constexpr const char* kNames[] = {"a",
                                          "n",
                                          "A",
                                          "usage",
                                          "Usage",
                                          "model",
                                          "0",
                                          "x",
                                          "",
                                          "y\\u0061",
                                          "\\n",
                                          "u\xc5\xbf"
                                          "age",
                                          "choices",
                                          "a/b",
                                          "long-name-of-what-is-not-asked-for"};
        return kNames[below(std::size(kNames))];
    }
    std::string value(int depth) {
        constexpr const char* kPlain[] = {"0",
                                          "7",
                                          "12345678901234567",
                                          "1234567890123456789",
                                          "-3",
                                          "1.5",
                                          "2e3",
                                          "1E400",
                                          "-0",
                                          "01",
                                          "1.",
                                          "true",
                                          "null",
                                          "false",
                                          "nul",
                                          "18446744073709551616",
                                          "0.000000000000000000000000000000000001"};
        constexpr const char* kTexts[] = {"gpt-x",
                                          "",
                                          "a\\\"b",
                                          "\\u00e9 \\/ \\b",
                                          "\\ud83d\\ude00",
                                          "\\ud83d",
                                          "\\x",
                                          "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac",
                                          "\xc3",
                                          "\xed\xa0\x80",
                                          "a text of more than sixteen bytes",
                                          "a text of more than 16\tbytes",
                                          "fifteen bytes.\\n and on"};
        const std::size_t what = below(depth < 5 ? 5 : 2);
        if (what == 0) return kPlain[below(std::size(kPlain))];
        if (what == 1) return '"' + std::string(kTexts[below(std::size(kTexts))]) + '"';
        return container(depth, what != 2);
    }

    std::minstd_rand random_{7};
};

bool is_same(const JsonMember& a, const JsonMember& b) {
    return a.kind == b.kind && a.ambiguous == b.ambiguous && a.too_long == b.too_long &&
           a.size == b.size && a.number == b.number && a.whole == b.whole &&
           a.largest == b.largest && a.text == b.text;
}

bool is_same(const Read& a, const Read& b) {
    return a.fault == b.fault &&
           std::equal(a.documents.begin(), a.documents.end(), b.documents.begin(),
                      b.documents.end(), [](const auto& one, const auto& other) {
                          return std::equal(
                              one.begin(), one.end(), other.begin(), other.end(),
                              [](const auto& x, const auto& y) { return is_same(x, y); });
                      });
}

}  // namespace

TEST_CASE("json_reader: a document is the same in one piece as byte by byte, sound or not") {
    Documents documents;
    const std::vector<std::string> pointers = {"/a",    "/usage/n", "/usage/a/0",   "/model",  "/A",
                                               "/a~1b", "/0/x",     "/choices/1/a", "/n/usage"};
    std::size_t sound = 0;
    for (int i = 0; i < 20'000; ++i) {
        const std::string text = documents.next();
        CAPTURE(text);
        const auto letters = i % 2 == 0 ? JsonPointers::Case::exact : JsonPointers::Case::ignored;
        const JsonReader::Options options{.text_max = 12, .elements_are_documents = i % 3 == 0};
        const Read whole = read(text, pointers, options, text.size() + 1, letters);
        REQUIRE(is_same(whole, read(text, pointers, options, 1, letters)));
        // Cut behind a brace, where the first piece looks whole.
        if (const auto brace = text.find('}'); brace != text.npos) {
            REQUIRE(is_same(whole, read(text, pointers, options, brace + 1, letters)));
        }
        if (whole.fault == JsonReader::Fault::none) ++sound;
    }
    CHECK(sound > 3'000);
    CHECK(sound < 17'000);
}

TEST_CASE("json_reader: a byte means the same at each place of a text, in one piece as in pieces") {
    constexpr std::size_t kLongest = 170;
    std::size_t sound = 0;
    for (const char byte : std::string_view("\0\x1f !\"#[\\]^\x7f\x80\xa0\xdc\xff", 15)) {
        for (std::size_t at = 0; at < kLongest; ++at) {
            CAPTURE(int{byte});
            CAPTURE(at);
            std::string text(kLongest, 'n');
            text[at] = byte;
            for (const std::string& document :
                 {R"({"a":")" + text + R"(","n":7})", R"({"z":[")" + text + R"("],"n":7})",
                  R"({"n":7,"z":")" + text + R"("})"}) {
                const Read whole = read(document, {"/a", "/n"});
                REQUIRE(is_same(whole, read(document, {"/a", "/n"}, {}, 40)));
                if (whole.fault == JsonReader::Fault::none) ++sound;
            }
        }
    }
    // Seven of the bytes stand for themselves, and a backslash is sound before an n.
    CHECK(sound == 3 * (8 * kLongest - 1));
}

TEST_CASE("json_reader: depth is bounded in one piece as in pieces") {
    for (const int depth : {1, 58, 59, 60, 61, 62, 63, 64, 65, 200}) {
        CAPTURE(depth);
        std::string text;
        for (int i = 0; i < depth; ++i) text += "{\"x\":";
        text += '1' + std::string(static_cast<std::size_t>(depth), '}');
        const Read whole = read(text, {"/x/x"});
        CHECK(whole.fault == read(text, {"/x/x"}, {}, 1).fault);
        CHECK(whole.fault == (depth <= 64 ? JsonReader::Fault::none : JsonReader::Fault::too_deep));
    }
}

}  // namespace tidegate::usage::json_reader_test

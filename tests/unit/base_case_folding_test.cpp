#include <random>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "base/case_folding.hpp"
#include "base/utf8.hpp"

namespace tidegate::base_case_folding_test {
namespace {

TEST_CASE("case_folding: letters that some server treats as equal fold to the same") {
    for (const auto& [a, b] : {
             std::pair{"LOGIN", "login"},
             {"caf\u00C9", "CAF\u00E9"},
             {"\u0130\u0131Ii", "iiii"},             // Turkish, dotted and not
             {"\u212Aey \u017Fign", "key sign"},     // Kelvin sign, long s
             {"stra\u00DFe", "STRASSE"},             // sharp s
             {"o\uFB03ce/\uFB01le", "office/FILE"},  // ligatures
             {"\u03A3\u03C3\u03C2", "\u03C3\u03C3\u03C3"},
             {"\u041F\u0423\u0422\u042C", "\u043F\u0443\u0442\u044C"},
             {"\u00FF", "\u0178"},
             {"\u01C4\u01C5", "\u01C6\u01C6"},
             {"\u00B5", "\u03BC"},
             {"\U00010400", "\U00010428"},
             {"caf\xC9", "caf\xE9"},  // Latin-1
         }) {
        CAPTURE(a);
        CHECK(fold_case(a) == fold_case(b));
    }
}

TEST_CASE("case_folding: other letters stay apart, and characters without case stay") {
    for (const char* text :
         {"/a-z_0.9~", "\u7528\u6237", "\u05D0\u0628", "\xFF\xD7", "\u00D7\u00F7"})
        CHECK(fold_case(text) == text);
    CHECK(fold_case("caf\u00C9") != fold_case("cafe"));
    CHECK(fold_case("\u7528\u6237") != fold_case("\u5546\u54C1"));
    CHECK(fold_case("@[`{") == "@[`{");
}

TEST_CASE("case_folding: beyond ASCII only") {
    CHECK(fold_beyond_ascii("/Caf\u00C9") == "/Caf\u00E9");
    CHECK(fold_beyond_ascii("/\u212A") == "/k");
}

TEST_CASE("case_folding: folding never grows, is done after once, and keeps UTF-8") {
    std::mt19937 random(4711);
    for (int round = 0; round < 20'000; ++round) {
        std::string text;
        for (auto size = random() % 12; size > 0; --size)
            text += static_cast<char>(random() % 3 == 0 ? random() : 0xC0 + random() % 0x30);
        const std::string folded = fold_case(text);
        REQUIRE(folded.size() <= text.size());
        REQUIRE(3 * folded.size() >= text.size());
        if (!may_fold(text)) REQUIRE(folded == text);
        std::string_view rest = text;
        while (!rest.empty() && utf8_length(rest) > 0) rest.remove_prefix(utf8_length(rest));
        if (rest.empty()) REQUIRE(fold_case(folded) == folded);
    }
}

}  // namespace
}  // namespace tidegate::base_case_folding_test

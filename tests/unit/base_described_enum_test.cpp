#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/described_enum.hpp"

namespace tidegate::base_described_enum_test {

BOOST_DEFINE_FIXED_ENUM_CLASS(Colour, std::uint8_t, red, green, dark_blue)

constexpr EnumTexts<Colour> kSentences({{Colour::red, "It is red."},
                                        {Colour::green, "It is green."},
                                        {Colour::dark_blue, "It is nearly black."}});

// What is known when the program is compiled costs nothing when it runs.
static_assert(to_string(Colour::dark_blue) == "dark_blue");
static_assert(kEnumerators<Colour>.size() == 3);
static_assert(kSentences[Colour::green] == "It is green.");
static_assert(DescribedEnum<Colour>);
enum class Plain : std::uint8_t { one };
static_assert(!DescribedEnum<Plain>);

TEST_CASE("described enum: enumerators and their names come in the order of the source") {
    std::vector<std::string_view> names;
    for (const Colour colour : kEnumerators<Colour>) names.push_back(to_string(colour));
    CHECK(names == std::vector<std::string_view>{"red", "green", "dark_blue"});
    CHECK(names ==
          std::vector<std::string_view>(kEnumNames<Colour>.begin(), kEnumNames<Colour>.end()));
}

TEST_CASE("described enum: a table gives each enumerator its own row") {
    CHECK(kSentences[Colour::red] == "It is red.");
    CHECK(kSentences[Colour::dark_blue] == "It is nearly black.");
    CHECK(kSentences.values().size() == kEnumerators<Colour>.size());
}

TEST_CASE("described enum: an enumeration that is not described states the size of its table") {
    constexpr EnumTable<Plain, int, 1> kNumbers({{Plain::one, 7}});
    CHECK(kNumbers[Plain::one] == 7);
}

}  // namespace tidegate::base_described_enum_test

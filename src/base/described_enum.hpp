// Enumerations whose enumerators are known when the program is compiled (Boost.Describe):
//
//     BOOST_DEFINE_FIXED_ENUM_CLASS(StoreState, std::uint8_t, up, down)
//
// to_string(StoreState::up) is `up`, and kEnumerators<StoreState> are both. Where a text is not the
// enumerator's name, an EnumTable beside the enumeration has a row for each. Everything is a table
// with an index: nothing is searched for or allocated.
//
// Boost.Describe 1.81 takes 52 enumerators at most. They have the values 0, 1, 2 and so on.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <boost/describe/enum.hpp>
#include <boost/describe/enumerators.hpp>

namespace tidegate {

template <class E>
concept DescribedEnum = boost::describe::has_describe_enumerators<E>::value;

namespace detail {

template <class E, template <class...> class List, class... Descriptors>
consteval std::array<E, sizeof...(Descriptors)> values_in(List<Descriptors...>) {
    return {Descriptors::value...};
}

template <template <class...> class List, class... Descriptors>
consteval std::array<std::string_view, sizeof...(Descriptors)> names_in(List<Descriptors...>) {
    return {Descriptors::name...};
}

// An enumerator is an index below.
template <class E, std::size_t kSize>
consteval bool are_indices(const std::array<E, kSize>& values) {
    for (std::size_t i = 0; i < kSize; ++i) {
        if (static_cast<std::size_t>(values[i]) != i) return false;
    }
    return true;
}

}  // namespace detail

// All enumerators of E, in their order.
template <DescribedEnum E>
inline constexpr auto kEnumerators = [] {
    constexpr auto values = detail::values_in<E>(boost::describe::describe_enumerators<E>());
    static_assert(detail::are_indices(values), "the enumerators are not 0, 1, 2 and so on");
    return values;
}();

// Their names, in the same order.
template <DescribedEnum E>
inline constexpr auto kEnumNames = detail::names_in(boost::describe::describe_enumerators<E>());

// The name of an enumerator, as the source has it. Requires that `value` is one. The text lives as
// long as the program.
template <DescribedEnum E>
constexpr std::string_view to_string(E value) {
    return kEnumNames<E>[static_cast<std::size_t>(value)];
}

// A value for each enumerator, written as rows in the order of the enumerators:
//
//     constexpr EnumTexts<StoreState> kAdvice({{StoreState::up, "nothing to do"},
//                                              {StoreState::down, "look at Redis"}});
//
// A row that is missing, comes twice or is out of order does not compile. `kSize` is for an
// enumeration that is not described.
template <class E, class Value, std::size_t kSize = kEnumerators<E>.size()>
class EnumTable {
  public:
    struct Row {
        E enumerator;
        Value value;
    };

    template <std::size_t kRows>
    consteval explicit EnumTable(const Row (&rows)[kRows])
        : values_(values_of(rows, std::make_index_sequence<kRows>())) {
        static_assert(kRows == kSize, "there is not one row for each enumerator");
        for (std::size_t i = 0; i < kRows; ++i) {
            if (static_cast<std::size_t>(rows[i].enumerator) != i) {
                throw "the rows are not in the order of the enumerators";
            }
        }
    }

    // Requires that `key` is an enumerator.
    constexpr const Value& operator[](E key) const {
        return values_[static_cast<std::size_t>(key)];
    }
    // All values, in the order of the enumerators.
    constexpr const std::array<Value, kSize>& values() const { return values_; }

  private:
    template <std::size_t kRows, std::size_t... kIndex>
    static consteval std::array<Value, kSize> values_of(const Row (&rows)[kRows],
                                                        std::index_sequence<kIndex...>) {
        return {rows[kIndex].value...};
    }

    std::array<Value, kSize> values_;
};

template <class E>
using EnumTexts = EnumTable<E, std::string_view>;

}  // namespace tidegate

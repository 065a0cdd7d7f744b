// An expected failure is a value.
#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

namespace tidegate {

// Either a T or why there is none. `E` defaults to an error code; parsers that owe their caller a
// sentence use std::string.
template <class T, class E = boost::system::error_code>
using Result = boost::system::result<T, E>;

// `return ErrorMessage{"..."};` from any function that returns a Result with a sentence. A plain
// string would not do: aggregates such as config::Address could be made of one, so Result refuses
// to choose.
struct ErrorMessage {
    std::string sentence;

    template <class T>
    operator Result<T, std::string>() && {  // NOLINT(google-explicit-constructor): its purpose
        return {boost::system::in_place_error, std::move(sentence)};
    }
};

}  // namespace tidegate

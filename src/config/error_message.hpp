// The sentence of a failed Result.
#pragma once

#include <string>
#include <utility>

#include "base/result.hpp"

namespace tidegate::config {

// `return ErrorMessage{"..."};` from any function that returns a Result with a sentence. A plain
// string would not do: aggregates such as Address could be made of one, so Result refuses to
// choose.
struct ErrorMessage {
    std::string sentence;

    template <class T>
    operator Result<T, std::string>() && {  // NOLINT(google-explicit-constructor): its purpose
        return {boost::system::in_place_error, std::move(sentence)};
    }
};

}  // namespace tidegate::config

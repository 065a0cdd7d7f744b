// An expected failure is a value.
#pragma once

#include <boost/system/result.hpp>

namespace tidegate {

// Either a T or why there is none. `E` defaults to an error code; parsers that owe their caller a
// sentence use std::string.
template <class T, class E = boost::system::error_code>
using Result = boost::system::result<T, E>;

}  // namespace tidegate

// Which Tidegate this is.
#pragma once

#include <string_view>

namespace tidegate {

#ifndef TIDEGATE_VERSION
#error "the build says which version this is"
#endif
inline constexpr std::string_view kVersion = TIDEGATE_VERSION;

}  // namespace tidegate

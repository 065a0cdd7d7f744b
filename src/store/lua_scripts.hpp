// The Redis scripts of lua/, built into the program.
#pragma once

#include "redis/script.hpp"

namespace tidegate::store {

using redis::Script;

extern const Script kchargeScript;

}  // namespace tidegate::store

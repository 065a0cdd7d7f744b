// The request that a gateway asks about, read from the gateway's own. Pure.
#pragma once

#include <string_view>

#include "ask/decision.hpp"
#include "config/config.hpp"

namespace tidegate::faces {

// Makes of `facts`, which are those of the gateway's request, the facts of the request that it asks
// about: method, target and host, as `listen` says which fields hold them, and the scheme where a
// whole URL does. Fields that the gateway wrote for Tidegate are removed; all others are the
// client's. `bounds` hold for the original, too. That it has a body, the gateway tells by sending
// one. Returns what is wrong, for the gateway's log, or nothing; then `facts` are not to be used.
// The method may be any: the caller asks ask::check_method(). Views go into the gateway's head.
std::string_view read_original(const config::Listen& listen, const config::RequestBounds& bounds,
                               ask::Facts& facts);

}  // namespace tidegate::faces

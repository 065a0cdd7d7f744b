// The request that a gateway asks about, read from the gateway's own. Pure.
#pragma once

#include "ask/decision.hpp"
#include "ask/facts.hpp"
#include "config/config.hpp"

namespace tidegate::faces {

// Makes of `facts`, which are those of the gateway's request, the facts of the request that it asks
// about: method, target and host, as `listen` says which fields hold them. Fields that the gateway
// wrote for Tidegate are removed; all others are the client's. `bounds` hold for the original, too.
// That it has a body, the gateway tells by sending one. Refuses a question that names no such
// request, with what is wrong, for the gateway's log; and a method that the proxy refuses. Then
// `facts` are not to be used. Views go into the gateway's head.
void read_original(const config::Listen& listen, const config::RequestBounds& bounds,
                   ask::Facts& facts, ask::Decision& decision);

}  // namespace tidegate::faces

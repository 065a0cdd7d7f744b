// The request that a gateway asks about, read from the gateway's own. Pure.
#pragma once

#include <string_view>

#include "ask/decision.hpp"
#include "config/config.hpp"
#include "faces/metrics.hpp"

namespace tidegate::faces {

// Why a question does not state one original request. An empty text: it does.
struct OriginalFault {
    OriginalPart part = OriginalPart::method;
    std::string_view text{};  // a sentence for the gateway's operator; lives as long as the program

    bool empty() const { return text.empty(); }
};

// Makes of `facts`, which are those of the gateway's request, the facts of the request that it asks
// about: method, target and host, as `listen` says which fields hold them, and the scheme where a
// whole URL does. Fields that the gateway wrote for Tidegate are removed; all others are the
// client's. `bounds` hold for the original, too. That it has a body, the gateway tells by sending
// one. Returns what is wrong, if something is; then `facts` are not to be used. The method may be
// any: the caller asks ask::check_method(). Views go into the gateway's head.
OriginalFault read_original(const config::Listen& listen, const config::RequestBounds& bounds,
                            ask::Facts& facts);

}  // namespace tidegate::faces

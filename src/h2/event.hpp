// What a Server has to tell of its streams, in the order in which it happened.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "h2/fields.hpp"

namespace tidegate::h2 {

class Stream;

struct Event {
    enum class Kind : std::uint8_t {
        request,    // a head is complete, or its fault is known: a new stream
        body,       // `bytes` of content; consume() gives the client room for more
        end,        // the request is whole, with its trailers
        reset,      // nothing more comes or goes: the client has said so, or has to be told so
        drained,    // all that was offered has been taken
        malformed,  // a request that never became a stream: for the log, as a 400
        refused,    // one more than may be in service
    };

    Kind kind;
    Stream* stream = nullptr;               // null if malformed or refused
    std::string_view bytes = {};            // a view into what receive() was given
    std::uint32_t error = 0;                // of a reset: RFC 9113 section 7
    Malformed malformed = Malformed::none;  // of a reset for the client's fault, too
};

using EventList = std::vector<Event>;

}  // namespace tidegate::h2

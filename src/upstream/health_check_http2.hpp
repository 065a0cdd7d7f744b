// A health check's request and answer in HTTP/2, gRPC among them, on a connection of its own.
#pragma once

#include <string>

#include "net/byte_stream.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::upstream {

struct Http2Asked {
    error_code ec;            // why nothing more was read
    bool is_bad = false;      // what came is not HTTP/2, or no answer that may be
    bool has_spoken = false;  // anything came
    bool has_answer = false;  // `answer` has the status, or, of gRPC, says all there is to say
    bool has_settings = false;
};

// Sends the GET that the settings describe, and reads until the head of the final answer is there;
// or the call of gRPC, and reads all of its answer. Where the settings only connect, reads until
// the server has sent its SETTINGS. `socket` is connected, its handshake over, and closes itself
// when the time is over.
Task<Http2Asked> ask_over_http2(TimedSocket& socket, const HealthQuestion& question,
                                HealthAnswer& answer);

}  // namespace tidegate::upstream

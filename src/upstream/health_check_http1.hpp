// A health check's request and answer in HTTP/1.
#pragma once

#include "net/byte_stream.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::upstream {

struct Http1Asked {
    error_code ec;            // why nothing more was read
    bool is_bad = false;      // what came is no head of an answer, or none that may be
    bool has_spoken = false;  // anything came
    bool has_answer = false;  // `answer` has the status
};

// Sends the GET that the settings describe, and reads until the head of the final answer is there.
// Fills in `answer.rest` if the question and the head let the connection take another check.
// `socket` is connected, its handshake over, and closes itself when the time is over.
Task<Http1Asked> ask_over_http1(TimedSocket& socket, const HealthQuestion& question,
                                HealthAnswer& answer);

// Reads what follows the head of an answer, as far as it is short, within what is left of the time
// of the check. True: the answer is whole, and nothing is behind it.
Task<bool> read_rest(TimedSocket& socket, AnswerRest rest);

}  // namespace tidegate::upstream

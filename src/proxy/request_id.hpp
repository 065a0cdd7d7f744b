// The proxy keeps the X-Request-Id that a trusted peer gives a request, and makes one for all other
// requests.
#pragma once

#include <cstdint>
#include <string>

#include "ask/decision.hpp"

namespace tidegate::proxy {

// Makes request ids. One thread.
class RequestIds {
  public:
    RequestIds();

    // Writes a new one over `out`: 32 hexadecimal digits, half random for this worker, half a
    // scrambled count.
    void next(std::string& out);

  private:
    std::string prefix_;
    std::uint64_t state_;
};

// Sets facts.request_id to the X-Request-Id of a trusted peer's request, if that is one token.
void adopt_request_id(ask::Facts& facts);

}  // namespace tidegate::proxy

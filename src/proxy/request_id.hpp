// Names for requests: unique without asking anybody.
#pragma once

#include <cstdint>
#include <string>

namespace tidegate::proxy {

// One thread.
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

}  // namespace tidegate::proxy

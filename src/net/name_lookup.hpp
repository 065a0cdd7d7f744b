// Looks up a name without ever delaying the program's exit.
//
// getaddrinfo() cannot be called off, and Asio's resolver waits for it in its destructor: a name
// server that is silent would hold up a stop for as long as the system's resolver has patience. So
// each look-up has a detached thread, which shares nothing but its result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/asio.hpp"

namespace tidegate {

// The constructor begins the look-up; a look-up whose object is destroyed goes on alone. One thread
// uses it.
class NameLookup {
  public:
    NameLookup(std::string host, std::uint16_t port);

    // Callers have to poll it: the look-up wakes no coroutine.
    bool done() const;

    // TCP endpoints in the system's order, or none, and then why. Requires that it is done.
    const std::vector<StreamProtocol::endpoint>& endpoints() const;
    const std::string& error() const;

  private:
    struct Shared;

    std::shared_ptr<Shared> shared_;
};

}  // namespace tidegate

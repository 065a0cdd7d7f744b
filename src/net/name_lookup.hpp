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

// Begins with construction and goes on unheeded when destroyed. One thread uses it.
class NameLookup {
  public:
    NameLookup(std::string host, std::uint16_t port);

    // Has to be asked: nothing wakes who waits for it.
    bool done() const;

    // Once it is done: TCP endpoints in the system's order, or none and why.
    const std::vector<StreamProtocol::endpoint>& endpoints() const;
    const std::string& error() const;

  private:
    struct Shared;

    std::shared_ptr<Shared> shared_;
};

}  // namespace tidegate

// A network between a test and a server, which fails on command.
//
// Listens on a loopback port and passes bytes to another, both ways. A thread of its own; its
// buffers are bounded, so a sender that is not read is stopped as it would be by TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "net/asio.hpp"

namespace tidegate::test {

// Every change has taken effect when its function returns. Not for use by several threads at once.
class FaultProxy {
  public:
    // Leads to 127.0.0.1:`target`.
    explicit FaultProxy(std::uint16_t target);
    ~FaultProxy();
    FaultProxy(const FaultProxy&) = delete;
    FaultProxy& operator=(const FaultProxy&) = delete;

    std::uint16_t port() const { return port_; }

    // Resets all connections and refuses new ones.
    void cut();
    // Connections stay, new ones are accepted, nothing comes through. What is sent meanwhile
    // arrives after heal(), as it does when a network loses packets for a while.
    void swallow();
    // What is sent from now on takes `time` longer to arrive, either way.
    void delay(std::chrono::milliseconds time);
    // Ends the fault in force.
    void heal();
    // New connections lead to another server; those that there are stay.
    void lead_to(std::uint16_t target);

  private:
    struct Network;
    using Change = std::function<void(Network&)>;

    void change(const Change& what);

    asio::io_context io_{1};
    std::shared_ptr<Network> network_;  // touched by the thread alone, once it runs
    std::uint16_t port_;
    std::thread thread_;
};

}  // namespace tidegate::test

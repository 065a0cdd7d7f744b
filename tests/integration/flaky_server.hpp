// A server, and the network before it, that fail in the usual ways.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "fault_proxy.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test {

class FlakyServer {
  public:
    enum class Fault : std::uint8_t {
        none,
        killed,          // its connections are reset, new ones refused
        stopped,         // as by SIGSTOP: the kernel accepts, and nothing comes
        silent,          // takes requests and sends no answer
        complains,       // answers 500
        slow,            // answers, but later than a check waits
        closes,          // takes a request and closes
        garbage,         // what it answers is not HTTP
        cut_after_head,  // the connection ends behind the head of an answer
        cut_in_body,     // and inside the body, by a reset
    };

    FlakyServer();

    std::uint16_t port() const { return network_.port(); }
    std::string url() const { return "http://" + address(); }
    std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
    void set(Fault fault);

    // Requests that were answered 200; not those for `/healthz`.
    int answered() const { return answered_; }
    // All requests that came, whole.
    std::vector<Message> seen() const { return upstream_.seen(); }

  private:
    void serve(Conversation& conversation);

    std::atomic<Fault> fault_{Fault::none};
    std::atomic<int> answered_{0};
    Upstream upstream_;
    FaultProxy network_;
};

}  // namespace tidegate::test

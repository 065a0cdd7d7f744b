// The echo upstream's listening socket.
#pragma once

#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::cli {

class EchoListener {
  public:
    // Binds and listens. Throws std::system_error naming the address. A Unix socket whose owner is
    // gone is replaced.
    EchoListener(const Executor& executor, const config::Address& address);
    // Removes the Unix socket's name.
    ~EchoListener();
    EchoListener(const EchoListener&) = delete;
    EchoListener& operator=(const EchoListener&) = delete;

    Acceptor& acceptor() { return acceptor_; }
    const config::Address& address() const { return address_; }

  private:
    Acceptor acceptor_;
    config::Address address_;
};

}  // namespace tidegate::cli

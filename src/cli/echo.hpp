// A small upstream that answers with the request it received: to try a configuration without
// having anything to protect yet.
//
// It takes what a proxy may send it and more: heads up to 64 KiB, bodies of any size (counted, not
// kept), Expect, pipelining. `?status=404`, `?delay=100ms` and `?bytes=1000` ask for something else
// than the echo; `/healthz` answers 200.
#pragma once

#include <memory>

#include "config/config.hpp"

namespace tidegate::cli {

// Runs on a thread of its own, which takes no signals.
class EchoServer {
  public:
    // Listens on `address`, whose host is an IP address. Throws std::system_error naming it.
    explicit EchoServer(const config::Address& address);
    // Closes everything at once.
    ~EchoServer();
    EchoServer(const EchoServer&) = delete;
    EchoServer& operator=(const EchoServer&) = delete;

    // Where it listens: with the port the system chose when it was 0.
    const config::Address& address() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// `tidegate echo`: serves until INT or TERM comes. Returns the exit code.
int run_echo(const config::Address& address);

}  // namespace tidegate::cli

// The admin listener: metrics, health and readiness over HTTP, apart from the proxy's own path.
//
// Lives on one event loop and is touched by its thread only. Bounded: 64 connections, heads of
// 8 KiB, 10 seconds for each step, no request bodies.
#pragma once

#include <memory>

#include "admin/answer.hpp"
#include "base/asio.hpp"

namespace tidegate::admin {

class AdminServer {
  public:
    // Begins to serve `acceptor`, which is open and listening, once `io` runs. `io` outlives this.
    AdminServer(asio::io_context& io, Acceptor acceptor, AdminSources sources);
    // Stops.
    ~AdminServer();
    AdminServer(const AdminServer&) = delete;
    AdminServer& operator=(const AdminServer&) = delete;

    // Closes the listener and every connection; sources are not asked any more once this returns.
    void stop();

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace tidegate::admin

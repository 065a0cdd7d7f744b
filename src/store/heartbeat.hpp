// Tells Redis that this proxy is alive and learns how many are: what a local share is made from.
#pragma once

#include <memory>
#include <string>

#include "base/asio.hpp"
#include "redis/client.hpp"
#include "store/limiter.hpp"

namespace tidegate::store {

// One a process, on the loop of the worker whose `client` it uses.
class Heartbeat : public std::enable_shared_from_this<Heartbeat> {
  public:
    // `replicas` becomes max(`configured`, how many were last seen alive). `name` is this
    // process's own; both outlive the heartbeat.
    Heartbeat(Executor executor, std::shared_ptr<redis::Client> client, std::string key_prefix,
              std::string name, int configured, Replicas& replicas);
    ~Heartbeat();

    // Beats until stop().
    static Task<> run(std::shared_ptr<Heartbeat> self);
    void stop();

  private:
    class Beat;

    std::unique_ptr<Beat> beat_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::store

// Where counts are kept: one Redis, or a cluster of them. Its users say in which slot their keys
// are, and need not know which of the two it is. A handle: copies are of the same servers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "net/asio.hpp"
#include "redis/client.hpp"
#include "redis/cluster.hpp"

namespace tidegate::redis {

class Servers {
  public:
    Servers() = default;                                                         // none
    Servers(std::shared_ptr<Client> client) : client_(std::move(client)) {}      // NOLINT: is one
    Servers(std::shared_ptr<Cluster> cluster) : cluster_(std::move(cluster)) {}  // NOLINT: likewise

    explicit operator bool() const { return client_ != nullptr || cluster_ != nullptr; }
    bool is_cluster() const { return cluster_ != nullptr; }

    // Connects and stays connected until stop(). Once.
    void start(Executor executor) const {
        if (client_) spawn_vital(executor, Client::run(client_));
        if (cluster_) spawn_vital(executor, Cluster::run(cluster_));
    }
    // Fails all requests that wait before it returns. Not from on_reply or on_failure.
    void stop() const {
        if (client_) client_->stop();
        if (cluster_) cluster_->stop();
    }

    // As Client::send() and Cluster::send(). `slot` is looked at in a cluster only.
    std::optional<Failure> send(Request& request, std::uint16_t slot,
                                SteadyTime asked = std::chrono::steady_clock::now(),
                                SteadyTime needed_by = SteadyTime::max()) const {
        return cluster_ == nullptr ? client_->send(request, asked, needed_by)
                                   : cluster_->send(request, slot, asked, needed_by);
    }
    // As Client::flush(). In a cluster, whose commands go many ways, nothing.
    void flush() const {
        if (client_ != nullptr) client_->flush();
    }
    // Whether commands leave at once. Not for a cluster.
    bool is_connected() const { return client_ != nullptr && client_->is_connected(); }
    // Whether no server answers for that slot, as far as is known.
    bool is_away(std::uint16_t slot) const {
        return cluster_ == nullptr ? !client_->is_up() : cluster_->is_away(slot);
    }

  private:
    std::shared_ptr<Client> client_;
    std::shared_ptr<Cluster> cluster_;
};

}  // namespace tidegate::redis

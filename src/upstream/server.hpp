// One server of an upstream as one worker sees it: its addresses, its idle connections, and whether
// the worker could connect to it lately. Part of a pool; one thread. Does no I/O but closing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/connection.hpp"
#include "net/deadline.hpp"

namespace tidegate::upstream {

class Server {
  public:
    using Endpoints = std::vector<StreamProtocol::endpoint>;

    // After a connection failed, others are tried before this server for so long.
    static constexpr std::chrono::seconds kFailTimeout{1};

    // `settings` outlives this.
    explicit Server(const config::UpstreamServer& settings);

    const config::UpstreamServer& settings() const { return *settings_; }
    const std::string& address() const { return address_; }  // `host:port`, or the socket's path
    const std::string& authority() const { return settings_->authority; }  // unless Host is kept

    // Its address is a name, which has to be resolved.
    bool has_name() const { return has_name_; }
    bool is_resolved() const { return !endpoints_.empty(); }
    const Endpoints& endpoints() const { return endpoints_; }
    void resolved_to(Endpoints endpoints) { endpoints_ = std::move(endpoints); }
    // One after the other. Requires is_resolved().
    const StreamProtocol::endpoint& next_endpoint() {
        return endpoints_[next_endpoint_++ % endpoints_.size()];
    }

    // These note how connecting went. True when it failed the last time.
    bool connected();
    void connect_failed(SteadyTime now);
    bool failed_lately(SteadyTime now) const { return fails_until_ > now; }

    struct Idle {
        ConnectionPtr connection;
        SteadyTime since;
    };
    std::size_t idle_count() const { return idle_.size(); }
    void add_idle(ConnectionPtr connection, SteadyTime now) {
        idle_.push_back({std::move(connection), now});
    }
    // The one that was used last: it is the least likely to be stale. Requires an idle connection.
    ConnectionPtr take_idle();
    // Requires an idle connection.
    SteadyTime oldest_idle_since() const { return idle_.front().since; }
    ConnectionPtr take_oldest_idle();
    // Lets go of each Idle for which `is_over` holds.
    template <class IsOver>
    void erase_idle_if(IsOver is_over) {
        std::erase_if(idle_, is_over);
    }

    std::int64_t current_weight = 0;  // for next_by_weight()

  private:
    const config::UpstreamServer* settings_;
    std::string address_;
    bool has_name_ = false;
    Endpoints endpoints_;
    std::size_t next_endpoint_ = 0;
    std::vector<Idle> idle_;  // in the order in which they became so
    SteadyTime fails_until_{};
    bool is_down_ = false;
};

// Smooth weighted round robin: the server whose turn it is. Servers that failed lately only when
// all did. Never `other_than`. Requires two servers at least.
Server& next_by_weight(std::vector<Server>& servers, const Server* other_than, SteadyTime now);

}  // namespace tidegate::upstream

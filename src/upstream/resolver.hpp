// Keeps the names of an upstream's servers resolved. A server whose name was never resolved is
// unreachable; one whose name was keeps its addresses when a look-up fails. Part of a pool; one
// thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "net/asio.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

// The addresses of names, by `host:port`.
using ResolvedNames = std::map<std::string, Server::Endpoints>;

class Resolver {
  public:
    // `settings` and `servers` outlive this.
    Resolver(const Executor& executor, const config::Upstream& settings,
             std::vector<Server>& servers)
        : settings_(settings), servers_(servers), timer_(executor) {}

    // Gives servers whose names are not resolved yet what `names` says.
    void use(const ResolvedNames& names);
    // Adds what is resolved here to `names`, where they say nothing yet.
    void add_to(ResolvedNames& names) const;

    // Looks names up again and again. Ends soon after stop().
    Task<> run();
    void stop();

  private:
    Task<> resolve(Server& server);

    const config::Upstream& settings_;
    std::vector<Server>& servers_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::upstream

#include "upstream/server.hpp"

#include <utility>

namespace tidegate::upstream {

ConnectionPtr Server::take_idle() {
    ConnectionPtr connection = std::move(idle_.back().connection);
    idle_.pop_back();
    return connection;
}

ConnectionPtr Server::take_oldest_idle() {
    ConnectionPtr connection = std::move(idle_.front().connection);
    idle_.erase(idle_.begin());
    return connection;
}

}  // namespace tidegate::upstream

// Keeps the names of an upstream's servers resolved. A name that never led anywhere has no server;
// a name whose look-up fails keeps its addresses. On the main thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "net/asio.hpp"
#include "net/name_lookup.hpp"
#include "upstream/group.hpp"

namespace tidegate::upstream {

class Resolver {
  public:
    Resolver(const Executor& executor, GroupPtr group)
        : group_(std::move(group)), timer_(executor) {}

    // Looks names up again and again, if the upstream has any. Spawn once; ends soon after stop().
    static Task<> run(std::shared_ptr<Resolver> self);
    void stop();

  private:
    Task<> resolve(std::vector<std::size_t> names);
    void take(std::size_t configured, const NameLookup& lookup);

    const GroupPtr group_;
    Timer timer_;
    bool stopped_ = false;
};

}  // namespace tidegate::upstream

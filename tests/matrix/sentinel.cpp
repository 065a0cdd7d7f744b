#include "matrix/sentinel.hpp"

#include <stdexcept>

namespace tidegate::test {

SentinelWay::SentinelWay(bool is_fronted)
    : world_([&] {
          SentinelWorldShape shape;
          shape.fronted = is_fronted;
          return shape;
      }()) {}

// Of what was not replicated yet. A master that is restarted may be found gone, too.
int SentinelWay::losses(Fault) {
    return world_.master() == 0 ? 0 : 1;
}

void SentinelWay::fail_over() {
    const std::string answer =
        world_.sentinel(0).text({"SENTINEL", "FAILOVER", SentinelWorld::kMaster});
    if (answer != "OK") throw std::runtime_error("SENTINEL FAILOVER: " + answer);
    await_heir();
}

bool SentinelWay::has_heir(Fault fault) const {
    return fault == Fault::killed || fault == Fault::paused || fault == Fault::cut ||
           fault == Fault::swallowed;
}

// Known to one sentinel, from which the others learn of it.
void SentinelWay::await_heir() {
    await("another master", [&] {
        for (std::size_t i = 0; i < world_.sentinel_count(); ++i) {
            if (world_.master(i) != 0) return true;
        }
        return false;
    });
}

}  // namespace tidegate::test

// Three sentinels, a master and two replicas. The victim is the first master.
#pragma once

#include "matrix/way_in.hpp"
#include "sentinel_world.hpp"

namespace tidegate::test {

class SentinelWay final : public WayIn {
  public:
    explicit SentinelWay(bool is_fronted);

    std::string address() const override { return "sentinel: " + world_.yaml(); }
    int losses(Fault fault) override;

  protected:
    RedisServer& victim() override { return world_.server(0); }
    // What is cut off here is cut off from sentinels and replicas, too.
    FaultProxy& network() override { return world_.network(0); }
    void fail_over() override;
    bool has_heir(Fault fault) const override;
    void await_heir() override;

  private:
    SentinelWorld world_;
};

}  // namespace tidegate::test

// Three masters with a replica each. The victim is the first master, which decides about a third of
// the users.
#pragma once

#include "cluster_world.hpp"
#include "matrix/way_in.hpp"

namespace tidegate::test {

class ClusterWay final : public WayIn {
  public:
    explicit ClusterWay(bool is_fronted);

    std::string address() const override { return "cluster: " + world_.urls(); }
    std::vector<std::string> users() const override { return users_; }
    int losses(Fault fault) override;

  protected:
    RedisServer& victim() override { return world_.node(0); }
    // Between the first master and Tidegate; the nodes' own network stays whole.
    FaultProxy& network() override { return *network_; }
    void flush_scripts() override { world_.command_all({"SCRIPT", "FLUSH"}); }
    void fail_over() override;
    void reshard() override;
    bool has_heir(Fault fault) const override;
    void await_heir() override;

  private:
    void find_users();
    void find_heir();
    void put_network();
    bool heir_rules() const;

    ClusterWorld world_;
    std::size_t heir_ = 0;
    std::vector<std::string> users_;
    std::vector<std::uint16_t> slots_;  // of those whom the first master decides about, in order
    std::unique_ptr<FaultProxy> network_;
};

}  // namespace tidegate::test

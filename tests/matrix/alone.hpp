// One Redis, spoken to plainly, over TLS, or by a user with the rights of docs/redis.md.
#pragma once

#include <optional>

#include "certificates.hpp"
#include "integration/process.hpp"
#include "matrix/way_in.hpp"

namespace tidegate::test {

class AloneWay final : public WayIn {
  public:
    // `way`: `redis`, `tls` or `acl`.
    AloneWay(std::string_view way, Fault fault);

    std::string address() const override;
    int losses(Fault fault) override { return fault == Fault::killed ? 1 : 0; }

  protected:
    RedisServer& victim() override { return server_; }
    FaultProxy& network() override { return *network_; }
    // Another server becomes the master; then the address leads there.
    void fail_over() override;
    bool has_heir(Fault) const override { return false; }
    void await_heir() override {}

  private:
    void prepare_heir();
    std::vector<std::string> arguments(std::uint16_t tls_port) const;

    std::string way_;
    TemporaryFolder folder_;
    Authority authority_;
    std::uint16_t tls_port_;
    RedisServer server_;
    std::uint16_t heir_tls_port_ = 0;
    std::optional<RedisServer> heir_;  // at first a replica
    std::optional<FaultProxy> network_;
};

}  // namespace tidegate::test

// What a sentinel is asked and answers, and in which order sentinels are tried.
//
// Pure: no sockets, no clock. ServerConnection does the I/O, MasterWatch decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

struct SentinelOptions {
    std::string master;  // as the sentinels name it
    std::vector<NodeAddress> nodes;
    std::string username;  // of the sentinels, which have passwords of their own
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For one sentinel: connecting, its password, one question.
    std::chrono::milliseconds timeout{500};
};

// The answer to SENTINEL get-master-addr-by-name; nothing when it is no address.
std::optional<NodeAddress> master_of(const RespValue& reply);

// The new address, if `reply` is a message of +switch-master about `master`.
std::optional<NodeAddress> switch_of(const RespValue& reply, std::string_view master);

// Why a sentinel does not know `master`, and which it knows; `masters` is its answer to SENTINEL
// MASTERS.
std::string unknown_master(std::string_view master, const RespValue& masters);

// In which order sentinels are tried: in turn, so that one whose knowledge is stale does not
// decide alone, and those that failed lately after all others.
class SentinelOrder {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // `first` spreads a hundred proxies over the sentinels.
    SentinelOrder(std::size_t nodes, std::size_t first);

    std::vector<std::size_t> next(Time now);
    void failed(std::size_t node, Time now) { failed_at_[node] = now; }
    void answered(std::size_t node) { failed_at_[node].reset(); }

  private:
    std::vector<std::optional<Time>> failed_at_;
    std::size_t first_;
};

}  // namespace tidegate::redis

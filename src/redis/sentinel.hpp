// What sentinels are asked and say: Redis Sentinel's words as values, and whose turn it is.
//
// Pure: no sockets, no clock. SentinelConnection carries the words, MasterWatch decides.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tls/tls_client.hpp"

struct redisReader;

namespace tidegate::redis {

// What a master answers ROLE with, first.
inline constexpr std::string_view kMasterRole = "master";

struct SentinelNode {
    std::string host;
    int port = 26379;

    std::string address() const;  // `127.0.0.1:26379`, `[::1]:26379`
};

struct SentinelOptions {
    std::string master;  // as the sentinels name it
    std::vector<SentinelNode> nodes;
    std::string username;  // of the sentinels, who have passwords of their own
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For one sentinel: connecting, its password, one question.
    std::chrono::milliseconds patience{500};
};

struct MasterAddress {
    std::string host;
    int port = 0;

    std::string to_string() const;
    bool operator==(const MasterAddress&) const = default;
};

// A reply of a sentinel, small and flat.
struct SentinelReply {
    enum class Kind : std::uint8_t { text, error, nil, list };
    Kind kind = Kind::nil;
    std::string text;  // of a text, a number (in decimal) or an error
    // Of a list; nil is empty. Of a list in it, its first two.
    std::vector<std::string> items;
};

// Makes replies of bytes, as they come.
class SentinelReader {
  public:
    SentinelReader();
    SentinelReader(const SentinelReader&) = delete;
    SentinelReader& operator=(const SentinelReader&) = delete;

    // False, for good: this is not RESP, or more of it than any answer needs.
    bool feed(std::string_view bytes);
    // The next whole reply, if it is there.
    std::optional<SentinelReply> next();
    bool is_broken() const { return broken_; }

  private:
    struct Hooks;  // hiredis's C callbacks
    struct Free {
        void operator()(redisReader* reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    SentinelReply building_;
    bool broken_ = false;
};

// The answer to SENTINEL get-master-addr-by-name; nothing when it is none.
std::optional<MasterAddress> master_of(const SentinelReply& reply);

// The new address, if `reply` is a message of +switch-master about `master`.
std::optional<MasterAddress> switch_of(const SentinelReply& reply, std::string_view master);

// Why a sentinel does not tell of `master`, and what would be right; `masters` is its answer to
// SENTINEL MASTERS.
std::string unknown_master(std::string_view master, const SentinelReply& masters);

// Whether an error is about who we are and what we may do, which time does not heal.
bool is_denial(std::string_view error);

// Whether the answer to a command, or to ROLE, shows that a server is no master (any more).
bool is_replica_error(std::string_view error);

// In which order sentinels are tried: in turn, so that one whose knowledge is stale does not
// decide alone, and those that lately failed after all others.
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

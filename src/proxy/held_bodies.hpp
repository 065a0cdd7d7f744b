// Room for bodies that are read before their requests are decided, shared among addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/ip.hpp"
#include "client/connection_limit.hpp"

namespace tidegate::proxy {

// One a thread. An address may hold as much as it likes while less than half of the room is taken;
// beyond that, a sixteenth, so that one client cannot keep the bodies of others out.
class HeldBodies {
  public:
    // What one request holds; gives it back when it is destroyed.
    class Share {
      public:
        Share() = default;
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { give_back(); }

        // Takes `bytes` more of the room of `bodies`, which outlives this, for `client`, always the
        // same. False: there is no room, and nothing is taken.
        bool take(HeldBodies& bodies, const IpAddress& client, std::uint64_t bytes) {
            // Nothing is held for a client that has sent nothing, and so nothing has to be given
            // back.
            if (bytes == 0) return true;
            if (!bodies.take(client, bytes)) return false;
            bodies_ = &bodies;
            client_ = client;
            bytes_ += bytes;
            return true;
        }
        void give_back() {
            if (bodies_ != nullptr) {
                std::exchange(bodies_, nullptr)->give(client_, std::exchange(bytes_, 0));
            }
        }

      private:
        HeldBodies* bodies_ = nullptr;
        IpAddress client_;
        std::uint64_t bytes_ = 0;
    };

    // In bytes; what is held already stays.
    void set_room(std::uint64_t bytes) { room_ = bytes; }
    std::uint64_t held() const { return held_; }
    std::size_t clients() const { return by_client_.size(); }

  private:
    static constexpr std::uint64_t kShares = 16;

    bool take(const IpAddress& client, std::uint64_t bytes) {
        if (held_ + bytes > room_) return false;
        std::uint64_t& own = held_by(client);
        if (held_ + bytes > room_ / 2 && own + bytes > room_ / kShares) {
            if (own == 0) forget(by_client_.find(client));
            return false;
        }
        own += bytes;
        held_ += bytes;
        return true;
    }
    void give(const IpAddress& client, std::uint64_t bytes) {
        held_ -= bytes;
        const auto own = by_client_.find(client);
        own->second -= bytes;
        if (own->second == 0) forget(own);
    }

    using Clients = std::unordered_map<IpAddress, std::uint64_t, client::AddressHash>;

    std::uint64_t& held_by(const IpAddress& client) {
        if (spare_.empty()) return by_client_[client];
        spare_.key() = client;
        spare_.mapped() = 0;
        auto placed = by_client_.insert(std::move(spare_));
        spare_ = std::move(placed.node);
        return placed.position->second;
    }
    // Most clients hold one body at a time, so each of these would be allocated and freed.
    void forget(Clients::iterator client) { spare_ = by_client_.extract(client); }

    std::uint64_t room_ = 0;
    std::uint64_t held_ = 0;
    Clients by_client_{0, client::AddressHash::with_secret()};
    Clients::node_type spare_;  // may be empty
};

}  // namespace tidegate::proxy

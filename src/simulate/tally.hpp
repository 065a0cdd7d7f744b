// A simulation counts for each limit which clients were over it, how far, and when; and how many
// requests came and were limited in the course of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/secrets.hpp"
#include "config/config.hpp"
#include "limit/charge.hpp"
#include "store/memory_store.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::simulate {

using limit::Micros;

// An identifier as one limit sees it.
struct ClientCount {
    std::int64_t peak = 0;  // the most that it asked for at one moment
    std::uint64_t limited = 0;
};

// An identifier that a policy counts. Its counts, one a limit, and its text stand behind it.
struct Client {
    std::uint32_t size = 0;  // of the text
    std::uint32_t limits = 0;
    // Where its demand is: what it asked for, counted as if the limits had no quota. 0: as long as
    // all that it asked for was taken, the store counts the same.
    std::size_t demand = 0;

    ClientCount* counts() { return reinterpret_cast<ClientCount*>(this + 1); }
    const ClientCount* counts() const { return reinterpret_cast<const ClientCount*>(this + 1); }
    std::string_view identifier() const {
        return {reinterpret_cast<const char*>(counts() + limits), size};
    }
};

struct ClientView {
    std::string_view identifier;
    std::int64_t peak = 0;
    std::uint64_t limited = 0;
};

// One limit of a policy, or of a tier of one.
struct LimitTally {
    const limit::Limit* limit = nullptr;
    limit::Limit demand;        // the same without a quota
    bool has_peaks = true;      // false: of slots and schedules
    std::uint64_t limited = 0;  // requests
    Micros first{0};
    Micros last{0};
    Micros worst{0};  // the minute with most of them, and how many
    std::uint64_t worst_limited = 0;
    Micros minute{0};  // the minute that is counted now
    std::uint64_t minute_limited = 0;
};

// The clients of a list by their identifiers: a hash table with open addressing, whose places can
// be loaded before they are looked at.
class ClientTable {
  public:
    // Null: there is none.
    Client* find(std::uint64_t hash, std::string_view identifier) const {
        if (places_.empty()) return nullptr;
        for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
            const Place& place = places_[at];
            if (place.client == nullptr) return nullptr;
            if (place.hash == hash && place.client->identifier() == identifier) return place.client;
        }
    }
    // Requires that the table does not have the client.
    void add(std::uint64_t hash, Client& client);
    // Begin to load the place of such a client, and then the client there.
    void load_place(std::uint64_t hash) const {
        if (!places_.empty()) __builtin_prefetch(&places_[hash & mask()]);
    }
    void load_client(std::uint64_t hash) const {
        if (!places_.empty()) __builtin_prefetch(places_[hash & mask()].client);
    }

  private:
    struct Place {
        std::uint64_t hash = 0;
        Client* client = nullptr;
    };
    std::size_t mask() const { return places_.size() - 1; }

    std::vector<Place> places_;  // a power of two, of which at most half are taken
    std::size_t count_ = 0;
};

// The limits that count together: those of a policy or a tier.
struct ListTally {
    std::vector<LimitTally> limits;
    // What the store says is not what was asked for: of limits that hold requests back, or that
    // refuse none.
    bool needs_demand = false;
    bool is_of_candidate = false;
    std::vector<const Client*> clients;  // in the order in which they came
    ClientTable by_identifier;
};

// Requests in the course of time: buckets of the same width, which doubles when they would be too
// many.
class Timeline {
  public:
    static constexpr std::size_t kBuckets = 480;

    struct Bucket {
        std::uint64_t requests = 0;
        std::uint64_t limited = 0;
    };

    void add(Micros at, bool is_limited);
    Micros begin() const { return begin_; }
    Micros width() const { return width_; }
    const std::vector<Bucket>& buckets() const { return buckets_; }

  private:
    Micros begin_{0};
    Micros width_{1'000'000};
    std::vector<Bucket> buckets_;
};

class Tally {
  public:
    // Identifiers beyond `clients_max` are not told apart: they are counted in `untracked()`.
    Tally(const config::Config& config, std::size_t clients_max, std::uint64_t secret);

    // A charge that `store` has decided.
    struct Decided {
        const limit::Charge& charge;
        Micros now;
        int status;  // of the answer; 0: it is not known
        bool took;   // the item's cost was taken
        const store::MemoryStore& store;
    };
    // What the clients are found by.
    std::uint64_t hash_of(const limit::ChargeItem& item) const {
        return hash_text(item.identifier, secret_, secret_);
    }
    // Counts an item of a charge. `verdicts` are those of its limits.
    void add(const Decided& decided, const limit::ChargeItem& item, std::uint64_t hash,
             std::span<const limit::LimitVerdict> verdicts);
    // The clients of the item.
    const ClientTable& table_of(const limit::ChargeItem& item) const;
    void add_to_timeline(Micros at, bool is_limited) { timeline_.add(at, is_limited); }

    const std::vector<ListTally>& lists() const { return lists_; }
    const Timeline& timeline() const { return timeline_; }
    std::uint64_t untracked() const { return untracked_; }
    // Of policies; a candidate has those of its policy.
    std::size_t clients() const { return client_count_ - of_candidates_; }
    // The identifiers of a list as its limit sees them.
    std::vector<ClientView> views(std::size_t list, std::size_t limit) const;
    // How much a limit admits at once: its quota, or its burst.
    static std::int64_t size_of(const limit::Limit& limit);

  private:
    Client* find(ListTally& list, std::uint64_t hash, std::string_view identifier);
    void begin_demand(const Decided& decided, const limit::ChargeItem& item, ListTally& list,
                      Client& client);
    void add_demand(const Decided& decided, const limit::ChargeItem& item, ListTally& list,
                    Client& client, bool begins);

    std::vector<ListTally> lists_;  // by Policy::index and Tier::index
    std::size_t clients_max_;
    std::uint64_t secret_;
    std::size_t client_count_ = 0;
    std::size_t of_candidates_ = 0;      // of these
    std::deque<store::Record> demands_;  // those of a client beside each other
    std::vector<std::unique_ptr<std::max_align_t[]>> chunks_;
    char* chunk_at_ = nullptr;  // in the last of them
    std::size_t chunk_left_ = 0;
    std::uint64_t untracked_ = 0;
    Timeline timeline_;
};

}  // namespace tidegate::simulate

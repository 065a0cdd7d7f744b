// What a simulation counts: for each limit who was over it, how far, and when; and how many
// requests came and were limited in the course of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "base/secrets.hpp"
#include "config/config.hpp"
#include "limit/charge.hpp"
#include "store/memory_store_shard.hpp"

namespace tidegate::simulate {

using limit::Micros;

// An identifier as one limit sees it.
struct ClientCount {
    // What it asked for, counted as if the limit had no quota.
    store::Record demand;
    std::int64_t peak = 0;  // the most of that at one moment
    std::uint64_t limited = 0;
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

// The limits that count together: those of a policy or a tier.
struct ListTally {
    std::vector<LimitTally> limits;
    std::vector<std::uint32_t> clients;  // positions of its identifiers
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

    // Counts an item of a charge that was decided. `verdicts` are those of its limits. `counts`
    // says whether a limit that counts by status keeps its units.
    void add(const limit::Charge& charge, const limit::ChargeItem& item, Micros now,
             std::span<const limit::LimitVerdict> verdicts, int status);
    void add_to_timeline(Micros at, bool is_limited) { timeline_.add(at, is_limited); }

    const std::vector<ListTally>& lists() const { return lists_; }
    const Timeline& timeline() const { return timeline_; }
    std::uint64_t untracked() const { return untracked_; }
    std::size_t clients() const { return clients_.size(); }
    // The identifiers of a list as its limit sees them.
    std::vector<ClientView> views(std::size_t list, std::size_t limit) const;
    // How much a limit admits at once: its quota, or its burst.
    static std::int64_t size_of(const limit::Limit& limit);

  private:
    struct Name {
        std::uint32_t list;
        std::string_view identifier;
        bool operator==(const Name&) const = default;
    };
    struct NameHash {
        using is_avalanching = void;
        std::uint64_t secret;
        std::size_t operator()(const Name& name) const {
            return hash_text(name.identifier, name.list, secret);
        }
    };
    struct Client {
        std::string_view identifier;
        std::size_t first = 0;  // of its counts, one a limit
    };

    const Client* find(std::uint32_t list, std::string_view identifier);
    std::string_view keep(std::string_view text);

    std::vector<ListTally> lists_;  // by Policy::index and Tier::index
    std::size_t clients_max_;
    std::vector<Client> clients_;
    std::deque<ClientCount> counts_;
    boost::unordered_flat_map<Name, std::uint32_t, NameHash> names_;
    std::vector<std::unique_ptr<char[]>> texts_;
    char* text_at_ = nullptr;  // in the last of them
    std::size_t text_left_ = 0;
    std::uint64_t untracked_ = 0;
    Timeline timeline_;
};

}  // namespace tidegate::simulate

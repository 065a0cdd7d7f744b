// A list of networks that requests are compared with: as it is written, for people, and sorted, so
// that a search among thousands costs some comparisons. Immutable once made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/ip.hpp"

namespace tidegate {

class IpNetworks {
  public:
    IpNetworks() = default;
    IpNetworks(std::initializer_list<IpNetwork> written)
        : IpNetworks(std::vector<IpNetwork>(written)) {}
    explicit IpNetworks(std::vector<IpNetwork> written);

    bool operator==(const IpNetworks& other) const { return written_ == other.written_; }

    // In the order in which they are written.
    auto begin() const { return written_.begin(); }
    auto end() const { return written_.end(); }
    bool empty() const { return written_.empty(); }
    std::size_t size() const { return written_.size(); }

    // Whether one of them contains `ip`: a binary search.
    bool contains(const IpAddress& ip) const;
    // The first that contains `ip`, or null: one after the other, for people.
    const IpNetwork* find(const IpAddress& ip) const;

  private:
    using Bytes = std::array<std::uint8_t, 16>;

    // All addresses from one to another, both included.
    struct Range {
        Bytes first{};
        Bytes last{};
    };
    // Of one version of IP: in order, and none touches another.
    using Ranges = std::vector<Range>;

    static void merge(Ranges& ranges);
    const Ranges& ranges(bool v4) const { return v4 ? v4_ : v6_; }

    std::vector<IpNetwork> written_;
    Ranges v4_;
    Ranges v6_;
};

}  // namespace tidegate

// The patterns of many routes as one tree of segments, so that a path is compared with its own
// segments and not with every route. Built once, then read by any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "routing/path_pattern.hpp"

namespace tidegate::routing {

class RouteIndex {
  public:
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    // Adds a pattern of segments. Routes are added in ascending order.
    void add(const PathPattern& pattern, std::uint32_t route);

    // The lowest route below `best` whose pattern matches `path` and which `accept` takes; `best`
    // when there is none. `path` begins with a slash.
    template <class Accept>
    std::uint32_t find(std::string_view path, std::uint32_t best, const Accept& accept) const {
        return nodes_.empty() ? best : find_below(0, path.substr(1), true, best, accept);
    }

  private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>{}(text);
        }
    };

    struct Node {
        std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> literals;
        std::uint32_t any = kNone;
        std::uint32_t lowest = kNone;     // route here or below
        std::vector<std::uint32_t> here;  // patterns that end here, ascending
        std::vector<std::uint32_t> open;  // patterns that end here in `**`, ascending
    };

    std::uint32_t child(std::uint32_t node, const PathPattern::Segment& segment);

    template <class Accept>
    static std::uint32_t first_of(const std::vector<std::uint32_t>& routes, std::uint32_t best,
                                  const Accept& accept) {
        for (const std::uint32_t route : routes) {
            if (route >= best) break;
            if (accept(route)) return route;
        }
        return best;
    }

    // Visits a node at most once for each way its pattern's segments can be met, so no more nodes
    // than there are; `lowest` cuts off what could not win.
    template <class Accept>
    std::uint32_t find_below(std::uint32_t index, std::string_view rest, bool more,
                             std::uint32_t best, const Accept& accept) const {
        const Node& node = nodes_[index];
        if (node.lowest >= best) return best;
        best = first_of(node.open, best, accept);
        // The end of the path, or one slash after it.
        if (rest.empty()) best = first_of(node.here, best, accept);
        if (!more) return best;
        const std::string_view segment = take_segment(rest, more);
        if (segment.empty() && more) return best;  // no pattern has `//`
        if (const auto found = node.literals.find(segment); found != node.literals.end())
            best = find_below(found->second, rest, more, best, accept);
        if (node.any != kNone && !segment.empty())
            best = find_below(node.any, rest, more, best, accept);
        return best;
    }

    std::vector<Node> nodes_;
};

}  // namespace tidegate::routing

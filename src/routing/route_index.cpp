#include "routing/route_index.hpp"

namespace tidegate::routing {

void RouteIndex::add(const PathPattern& pattern, std::uint32_t route) {
    if (nodes_.empty()) nodes_.emplace_back();
    std::uint32_t at = 0;
    nodes_[at].lowest = std::min(nodes_[at].lowest, route);
    for (const PathPattern::Segment& segment : pattern.segments()) {
        at = child(at, segment);
        nodes_[at].lowest = std::min(nodes_[at].lowest, route);
    }
    (pattern.open_ended() ? nodes_[at].open : nodes_[at].here).push_back(route);
}

std::uint32_t RouteIndex::child(std::uint32_t node, const PathPattern::Segment& segment) {
    const bool literal = segment.kind == PathPattern::Segment::Kind::literal;
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    std::uint32_t* const link =
        literal ? &nodes_[node].literals.try_emplace(segment.text, kNone).first->second
                : &nodes_[node].any;
    if (*link != kNone) return *link;
    *link = fresh;
    nodes_.emplace_back();
    return fresh;
}

}  // namespace tidegate::routing

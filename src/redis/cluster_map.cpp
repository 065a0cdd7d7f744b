#include "redis/cluster_map.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace tidegate::redis {

namespace {

constexpr unsigned kPolynomial = 0x1021;

constexpr std::array<std::uint16_t, 256> make_table() {
    std::array<std::uint16_t, 256> table{};
    for (unsigned byte = 0; byte < table.size(); ++byte) {
        unsigned crc = byte << 8;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ kPolynomial : crc << 1;
        }
        table[byte] = static_cast<std::uint16_t>(crc);
    }
    return table;
}

constexpr auto kTable = make_table();

}  // namespace

std::uint16_t crc16(std::string_view bytes) {
    std::uint16_t crc = 0;
    for (const char letter : bytes) {
        const auto byte = static_cast<unsigned char>(letter);
        crc = static_cast<std::uint16_t>(crc << 8 ^ kTable[(crc >> 8 ^ byte) & 0xffU]);
    }
    return crc;
}

namespace {

std::optional<std::uint16_t> parse_slot(std::string_view text) {
    const auto slot = parse_number<std::uint16_t>(text);
    return slot && *slot < kSlots ? slot : std::nullopt;
}

// `host:port`, where the host may be an IPv6 address without brackets, or nothing: then it is
// `asked_host`. `?` is a host that is not known.
std::optional<NodeAddress> parse_address(std::string_view text, const std::string& asked_host) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
    const std::string_view host = text.substr(0, colon);
    if (!port || *port == 0 || host == "?") return std::nullopt;
    return NodeAddress{host.empty() ? asked_host : std::string(host), *port};
}

bool has_flag(std::string_view flags, std::string_view flag) {
    while (!flags.empty()) {
        if (take_until(flags, ',') == flag) return true;
    }
    return false;
}

// `0-5460`, `7000`. A slot in brackets is moving from or to another node; ASK names that.
bool add_slots(std::string_view text, std::vector<SlotRange>& slots) {
    if (text.starts_with('[')) return true;
    const bool is_range = text.find('-') != std::string_view::npos;
    const auto first = parse_slot(take_until(text, '-'));
    const auto last = is_range ? parse_slot(text) : first;
    if (!first || !last || *first > *last) return false;
    slots.push_back({*first, *last});
    return true;
}

enum class Line : std::uint8_t { master, other, nonsense };

// `id ip:port@bus,hostname,... flags master ping-sent pong-received epoch link-state slot slot ...`
Line read_line(std::string_view line, const std::string& asked_host, ClusterNode& node) {
    take_until(line, ' ');
    std::string_view place = take_until(line, ' ');
    const std::string_view flags = take_until(line, ' ');
    for (int i = 0; i < 4; ++i) take_until(line, ' ');  // master, ping, pong, epoch
    const std::string_view state = take_until(line, ' ');
    if (state != "connected" && state != "disconnected") return Line::nonsense;
    if (!has_flag(flags, "master") || has_flag(flags, "noaddr") || has_flag(flags, "handshake")) {
        return Line::other;
    }
    std::string_view address = take_until(place, ',');
    const auto parsed = parse_address(take_until(address, '@'), asked_host);
    if (!parsed) return Line::nonsense;
    node.address = *parsed;
    node.name = take_until(place, ',');
    // Without a host name, other facts may be in its place: `shard-id=...`.
    if (node.name == "?" || node.name.find('=') != std::string::npos) node.name.clear();
    while (!line.empty()) {
        if (!add_slots(take_until(line, ' '), node.slots)) return Line::nonsense;
    }
    return Line::master;
}

}  // namespace

Result<std::vector<ClusterNode>, std::string> parse_cluster_nodes(std::string_view text,
                                                                  const std::string& asked_host) {
    std::vector<ClusterNode> nodes;
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty()) continue;
        ClusterNode node;
        switch (read_line(line, asked_host, node)) {
            case Line::master:
                nodes.push_back(std::move(node));
                break;
            case Line::other:
                break;
            case Line::nonsense:
                return std::string("its list of the cluster's nodes is malformed");
        }
        if (nodes.size() > kClusterNodesMax) {
            return "its cluster has more than " + std::to_string(kClusterNodesMax) + " masters";
        }
    }
    const bool any = std::any_of(nodes.begin(), nodes.end(),
                                 [](const ClusterNode& node) { return !node.slots.empty(); });
    if (!any) return std::string("it knows no node that serves a slot");
    return nodes;
}

std::optional<Redirection> parse_redirection(std::string_view error,
                                             const std::string& asked_host) {
    Redirection found;
    const std::string_view word = take_until(error, ' ');
    if (word != "MOVED" && word != "ASK") return std::nullopt;
    found.is_ask = word == "ASK";
    const auto slot = parse_slot(take_until(error, ' '));
    const auto target = parse_address(take_until(error, ' '), asked_host);
    if (!slot || !target) return std::nullopt;
    found.slot = *slot;
    found.target = *target;
    return found;
}

}  // namespace tidegate::redis

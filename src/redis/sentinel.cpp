#include "redis/sentinel.hpp"

#include <algorithm>
#include <array>
#include <system_error>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate::redis {

namespace {

constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kNamesShown = 5;
// A sentinel that failed is tried after all others for so long.
constexpr std::chrono::seconds kBadFor{10};

std::optional<NodeAddress> address_of(std::string_view host, std::string_view port) {
    const bool is_plain =
        !host.empty() && host.size() <= kHostBytesMax &&
        std::all_of(host.begin(), host.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
    const auto number = parse_number<std::uint16_t>(port);
    if (!is_plain || number.value_or(0) == 0) return std::nullopt;
    return NodeAddress{std::string(host), *number};
}

}  // namespace

std::optional<NodeAddress> master_of(const RespValue& reply) {
    if (!reply.is_list() || reply.items.size() != 2) return std::nullopt;
    return address_of(reply.items[0].text, reply.items[1].text);
}

// `message`, the channel, `<master> <old ip> <old port> <new ip> <new port>`.
std::optional<NodeAddress> switch_of(const RespValue& reply, std::string_view master) {
    if (reply.items.size() != 3 || reply.items[0].text != "message" ||
        reply.items[1].text != "+switch-master") {
        return std::nullopt;
    }
    std::array<std::string_view, 5> words;
    std::string_view rest = reply.items[2].text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t space = rest.find(' ');
        const bool is_last = i + 1 == words.size();
        if (rest.empty() || (space == std::string_view::npos) != is_last) return std::nullopt;
        words[i] = rest.substr(0, space);
        rest.remove_prefix(is_last ? rest.size() : space + 1);
    }
    if (words[0] != master) return std::nullopt;
    return address_of(words[3], words[4]);
}

std::string unknown_master(std::string_view master, const RespValue& masters) {
    std::string text = "it knows no master " + quote(master);
    std::string names;
    std::size_t count = 0;
    for (const RespValue& one : masters.items) {
        const std::string_view name = one.value_of("name");
        if (name.empty() || ++count > kNamesShown) continue;
        names += (names.empty() ? "" : ", ") + quote(name);
    }
    if (!masters.is_list()) return text;
    if (names.empty()) return text + ": it watches none";
    return text + ": it watches " + names + (count > kNamesShown ? " and others" : "");
}

SentinelOrder::SentinelOrder(std::size_t nodes, std::size_t first)
    : failed_at_(nodes), first_(first % nodes) {}

std::vector<std::size_t> SentinelOrder::next(Time now) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < failed_at_.size(); ++i) {
        order.push_back((first_ + i) % failed_at_.size());
    }
    std::stable_partition(order.begin(), order.end(), [&](std::size_t node) {
        return !failed_at_[node] || now - *failed_at_[node] >= kBadFor;
    });
    first_ = (order.front() + 1) % failed_at_.size();
    return order;
}

}  // namespace tidegate::redis

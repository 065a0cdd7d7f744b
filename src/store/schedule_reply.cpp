#include "store/schedule_reply.hpp"

#include <cstddef>
#include <string_view>

#include "base/text.hpp"

namespace tidegate::store {
namespace {

constexpr std::uint16_t kMembersMax = 4'000;  // the script lists no more

// `moment:units`
bool add_moments(std::string_view text, std::vector<std::int64_t>& moments) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    const auto moment = parse_number<std::int64_t>(text.substr(0, colon));
    const auto units = parse_number<std::int64_t>(text.substr(colon + 1));
    if (!moment || !units || *units < 1 || *units > limit::kMomentsMax) return false;
    moments.insert(moments.end(), static_cast<std::size_t>(*units), *moment);
    return moments.size() <= 2 * static_cast<std::size_t>(limit::kMomentsMax);
}

}  // namespace

bool read_moments(ReplyReader& reader, ScheduleReply& reply) {
    reply.asked_for = limit::Micros{reader.number()};
    const auto members = reader.packed<std::uint16_t>();
    for (std::uint16_t i = 0; i < members; ++i) {
        if (!add_moments(reader.take(reader.byte()), reply.moments)) return false;
    }
    reply.are_all = members < kMembersMax;
    return reader.ok();
}

}  // namespace tidegate::store

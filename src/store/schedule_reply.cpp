#include "store/schedule_reply.hpp"

#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace tidegate::store {
namespace {

constexpr std::uint16_t kMembersMax = 4'000;  // more the script does not tell

// `moment:units`
bool add_moments(std::string_view text, std::vector<std::int64_t>& moments) {
    std::int64_t moment = 0;
    std::int64_t units = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, moment);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ':') return false;
    const auto second = std::from_chars(first.ptr + 1, end, units);
    if (second.ec != std::errc{} || second.ptr != end) return false;
    if (units < 1 || units > limit::kMomentsMax) return false;
    moments.insert(moments.end(), static_cast<std::size_t>(units), moment);
    return moments.size() <= 2 * static_cast<std::size_t>(limit::kMomentsMax);
}

}  // namespace

bool read_moments(ReplyReader& reader, ScheduleReply& told) {
    told.asked_for = limit::Micros{reader.number()};
    const auto members = reader.packed<std::uint16_t>();
    for (std::uint16_t i = 0; i < members; ++i) {
        if (!add_moments(reader.take(reader.byte()), told.moments)) return false;
    }
    told.are_all = members < kMembersMax;
    return reader.ok();
}

}  // namespace tidegate::store

#include "http/max_forwards.hpp"

#include <charconv>
#include <limits>
#include <system_error>

namespace tidegate::http {

std::optional<std::uint64_t> max_forwards(const RequestHead& head) {
    if (head.method != "OPTIONS") return {};
    const std::string_view text = single_value(head.fields, kMaxForwards);
    if (text.empty()) return {};
    const char* const end = text.data() + text.size();
    std::uint64_t number = 0;
    const auto [stop, fault] = std::from_chars(text.data(), end, number);
    if (stop != end) return {};
    if (fault == std::errc::result_out_of_range) return std::numeric_limits<std::uint64_t>::max();
    return number;
}

}  // namespace tidegate::http

#include "telemetry/trace_context.hpp"

#include <algorithm>
#include <span>

#include "base/text.hpp"

namespace tidegate::telemetry {

namespace {

constexpr unsigned char kSampled = 1;
constexpr std::size_t kLongMemberBytes = 128;

// Returns the byte that two digits in lower case write, or -1.
int lower_hex_byte(char high, char low) {
    const auto is_capital = [](char c) { return c >= 'A' && c <= 'F'; };
    return is_capital(high) || is_capital(low) ? -1 : hex_byte(high, low);
}

bool read_hex(std::string_view digits, std::span<unsigned char> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        const int byte = lower_hex_byte(digits[2 * i], digits[2 * i + 1]);
        if (byte < 0) return false;
        out[i] = static_cast<unsigned char>(byte);
    }
    return true;
}

bool is_zero(std::span<const unsigned char> id) {
    return std::all_of(id.begin(), id.end(), [](unsigned char byte) { return byte == 0; });
}

bool is_key_rest(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
    });
}

// A key is `vendor` or `tenant@vendor` (section 3.3.1.3.1).
bool is_state_key(std::string_view key) {
    constexpr std::size_t kSimpleMax = 256;
    constexpr std::size_t kTenantMax = 241;
    constexpr std::size_t kSystemMax = 14;
    const auto begins_with_letter = [](std::string_view text) {
        return !text.empty() && is_lower(text.front());
    };
    const std::size_t at = key.find('@');
    if (at == std::string_view::npos) {
        return begins_with_letter(key) && key.size() <= kSimpleMax && is_key_rest(key);
    }
    const std::string_view tenant = key.substr(0, at);
    const std::string_view system = key.substr(at + 1);
    return (begins_with_letter(tenant) || (!tenant.empty() && is_digit(tenant.front()))) &&
           tenant.size() <= kTenantMax && is_key_rest(tenant) && begins_with_letter(system) &&
           system.size() <= kSystemMax && is_key_rest(system);
}

// A value is printable ASCII without comma and equals sign, and does not end in a space (section
// 3.3.1.3.2).
bool is_state_value(std::string_view value) {
    constexpr std::size_t kBytesMax = 256;
    return !value.empty() && value.size() <= kBytesMax && value.back() != ' ' &&
           std::all_of(value.begin(), value.end(),
                       [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

std::string_view key_of(std::string_view member) {
    return member.substr(0, member.find('='));
}

}  // namespace

// A traceparent is `00-` trace `-` span `-` flags.
std::optional<TraceParent> parse_traceparent(std::string_view value) {
    if (value.size() < kTraceParentBytes) return std::nullopt;
    const int version = lower_hex_byte(value[0], value[1]);
    if (version < 0 || version == 0xff) return std::nullopt;
    if (value.size() > kTraceParentBytes && (version == 0 || value[kTraceParentBytes] != '-')) {
        return std::nullopt;
    }
    if (value[2] != '-' || value[35] != '-' || value[52] != '-') return std::nullopt;
    TraceParent parent;
    std::array<unsigned char, 1> flags{};
    if (!read_hex(value.substr(3, 32), parent.trace) ||
        !read_hex(value.substr(36, 16), parent.span) || !read_hex(value.substr(53, 2), flags) ||
        is_zero(parent.trace) || is_zero(parent.span)) {
        return std::nullopt;
    }
    parent.is_sampled = (flags[0] & kSampled) != 0;
    return parent;
}

void write_traceparent(const TraceParent& parent, char* to) {
    std::copy_n("00-", 3, to);
    write_hex(parent.trace, to + 3);
    to[35] = '-';
    write_hex(parent.span, to + 36);
    std::copy_n(parent.is_sampled ? "-01" : "-00", 3, to + 52);
}

void TraceStateReader::add(std::string_view value) {
    while (!is_bad_ && !value.empty()) {
        is_bad_ = !add_member(trimmed(take_until(value, ',')));
    }
}

bool TraceStateReader::add_member(std::string_view member) {
    if (member.empty()) return true;
    const std::string_view key = key_of(member);
    if (key.size() == member.size() || count_ == members_.size()) return false;
    if (!is_state_key(key) || !is_state_value(member.substr(key.size() + 1))) return false;
    const auto known = std::span(members_).first(count_);
    if (std::any_of(known.begin(), known.end(), [&](auto one) { return key_of(one) == key; })) {
        return false;
    }
    members_[count_++] = member;
    return true;
}

void TraceStateReader::finish() {
    if (is_bad_) return;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count_; ++i) bytes += members_[i].size() + (i == 0 ? 0 : 1);
    const bool is_too_long = bytes > kTraceStateBytesMax;
    // The proxy drops members of more than 128 bytes, from the end, as few as are needed.
    for (std::size_t i = count_; is_too_long && i > 0 && bytes > kTraceStateBytesMax; --i) {
        std::string_view& member = members_[i - 1];
        if (member.size() <= kLongMemberBytes) continue;
        bytes -= std::min(bytes, member.size() + 1);
        member = {};
    }
    for (std::size_t i = 0; i < count_; ++i) {
        const std::string_view member = members_[i];
        if (member.empty()) continue;
        const std::size_t comma = out_.empty() ? 0 : 1;
        if (out_.size() + comma + member.size() > kTraceStateBytesMax) break;
        out_.append(comma, ',');
        out_ += member;
    }
}

}  // namespace tidegate::telemetry

#include "store/charge_script.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <vector>

#include "limit/window.hpp"
#include "store/lua_scripts.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;
using limit::Micros;

// The layout of a state; a new one is a new name, so old and new proxies never read each other's.
constexpr std::string_view kStateVersion = "1";
constexpr std::size_t kCostBytes = 8;
constexpr std::size_t kRunBytes = 14;
constexpr std::size_t kLimitBytes = 24;
constexpr std::size_t kVerdictBytes = 9;
constexpr std::size_t kLimitVerdictBytes = 16;

// Little endian, as the script packs and unpacks.
template <class Unsigned>
void append_packed(Unsigned number, std::string& out) {
    for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
        out += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
    }
}

std::int64_t read_packed(std::string_view bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(number); ++i) {
        number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return static_cast<std::int64_t>(number);
}

void append_decimal(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    out.append(digits, end);
}

// RESP's `$3\r\n` (a string of three bytes) or `*3\r\n` (an array of three).
void append_length(char type, std::size_t length, std::string& out) {
    out += type;
    append_decimal(length, out);
    out += "\r\n";
}

bool is_plain(char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return byte > 0x20 && byte < 0x7f && letter != '{' && letter != '}' && letter != '%' &&
           letter != ':';
}

std::size_t safe_size(std::string_view name) {
    std::size_t size = 0;
    for (char letter : name) size += is_plain(letter) ? 1 : 3;
    return size;
}

// A policy's name as part of a key: no brace may open a hash tag of its own, and no name may look
// like another one with an identifier after it.
void append_safe(std::string_view name, std::string& out) {
    static constexpr std::string_view kHexadecimal = "0123456789ABCDEF";
    for (char letter : name) {
        if (is_plain(letter)) {
            out += letter;
            continue;
        }
        const auto byte = static_cast<unsigned char>(letter);
        out += {'%', kHexadecimal[byte >> 4], kHexadecimal[byte & 15]};
    }
}

// `<prefix>1:<policy>:{<identifier>}`
void append_key(const limit::ChargeItem& item, std::string_view prefix, std::string& out) {
    assert(!item.identifier.empty());
    const std::string_view policy = item.policy->name;
    append_length('$',
                  prefix.size() + kStateVersion.size() + 1 + safe_size(policy) + 2 +
                      item.identifier.size() + 1,
                  out);
    out.append(prefix).append(kStateVersion).append(1, ':');
    append_safe(policy, out);
    out.append(":{").append(item.identifier).append("}\r\n");
}

// How many of the items, from the first on, are of one policy: their limits are sent once.
std::size_t run_length(std::span<const limit::ChargeItem> items) {
    constexpr std::size_t kMost = 255;
    std::size_t length = 1;
    while (length < std::min(items.size(), kMost) && items[length].policy == items[0].policy) {
        ++length;
    }
    return length;
}

// Doubles are what Lua counts in; these are whole numbers it holds exactly.
void append_double(Micros time, std::string& out) {
    append_packed(std::bit_cast<std::uint64_t>(static_cast<double>(time.count())), out);
}

bool opens_itself(const Limit& limit) {
    return limit.anchor == limit::Anchor::first_request;
}

// Names the records of a state and their order: 256 times a hash that is not zero, and how many.
std::uint32_t layout_of(const std::vector<Limit>& limits) {
    std::uint32_t hash = 0x811c9dc5;
    for (const Limit& limit : limits) hash = (hash ^ limit.id) * 0x01000193;
    hash ^= hash >> 15;
    return (hash | 1) << 8 | static_cast<std::uint32_t>(limits.size());
}

Micros narrowest(const std::vector<Limit>& limits) {
    Micros width = Micros::max();
    for (const Limit& limit : limits) width = std::min(width, limit.precision);
    return width;
}

void append_limits(const std::vector<Limit>& limits, std::string& out) {
    append_packed(layout_of(limits), out);
    append_double(narrowest(limits), out);
    for (const Limit& limit : limits) {
        append_packed(static_cast<std::uint32_t>(limit.quota), out);
        append_double(opens_itself(limit) ? Micros{0} : limit.precision, out);
        append_double(span_of(limit), out);
    }
    for (const Limit& limit : limits) append_packed(limit.id, out);
}

void append_request(const limit::Charge& charge, std::string& out) {
    std::size_t size = kCostBytes;
    for (auto items = charge.items; !items.empty(); items = items.subspan(run_length(items))) {
        size += kRunBytes + kLimitBytes * items[0].policy->limits.size();
    }
    append_length('$', size, out);
    // A cost above every quota is denied whatever it is; a huge one would not be exact in Lua.
    append_packed(static_cast<std::uint64_t>(std::min(charge.cost, limit::kQuotaMax + 1)), out);
    for (auto items = charge.items; !items.empty(); items = items.subspan(run_length(items))) {
        const auto& limits = items[0].policy->limits;
        assert(!limits.empty() && limits.size() <= limit::kLimitsMax);
        append_packed(static_cast<std::uint8_t>(run_length(items)), out);
        append_packed(static_cast<std::uint8_t>(limits.size()), out);
        append_limits(limits, out);
    }
    out += "\r\n";
}

// One limit's part of the reply; false if it contradicts the verdict.
bool read_limit(std::string_view bytes, const Limit& limit, const limit::Charge& charge,
                bool admitted, limit::LimitVerdict& verdict) {
    const std::int64_t left = read_packed(bytes);
    const std::int64_t next_us = read_packed(bytes.substr(8));
    if (left > limit.quota || left < -limit::kQuotaMax) return false;
    if (next_us < 0 || next_us > limit::kNowMax.count()) return false;
    verdict.denied = left < charge.cost;
    if (admitted && verdict.denied) return false;
    verdict.remaining = std::max<std::int64_t>(0, admitted ? left - charge.cost : left);
    // The script tells when the next unit is free as if the request were admitted. When nothing is
    // held even so, nothing is going to be free.
    const bool nothing_held = left == limit.quota && (!admitted || charge.cost == 0);
    verdict.next_unit = Micros{nothing_held ? 0 : next_us};
    return true;
}

std::size_t limits_of(const limit::Charge& charge) {
    std::size_t limits = 0;
    for (const limit::ChargeItem& item : charge.items) limits += item.policy->limits.size();
    return limits;
}

}  // namespace

void append_charge_command(const limit::Charge& charge, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    assert(!charge.items.empty() && charge.cost >= 0);
    append_length('*', 4 + charge.items.size() + (clock ? 1 : 0), out);
    out.append("$7\r\nEVALSHA\r\n$40\r\n").append(kchargeScript.sha1).append("\r\n");
    std::string_view number;
    char digits[20];
    const auto print = [&](std::uint64_t value) {
        number = {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
        append_length('$', number.size(), out);
        out.append(number).append("\r\n");
    };
    print(charge.items.size());
    for (const limit::ChargeItem& item : charge.items) append_key(item, prefix, out);
    append_request(charge, out);
    if (clock) {
        assert(*clock >= Micros{0} && *clock <= limit::kNowMax);
        print(static_cast<std::uint64_t>(clock->count()));
    }
}

bool read_charge_reply(std::string_view reply, const limit::Charge& charge,
                       limit::Verdict& verdict) {
    verdict.limits.clear();
    if (reply.size() != kVerdictBytes + kLimitVerdictBytes * limits_of(charge)) return false;
    const char admitted = reply[0];
    const std::int64_t retry_us = read_packed(reply.substr(1));
    if (admitted != 0 && admitted != 1) return false;
    if (retry_us < -1 || retry_us > limit::kNowMax.count()) return false;
    verdict.admitted = admitted == 1;
    verdict.retry_after = retry_us < 0 ? limit::kNever : Micros{retry_us};
    bool any_denied = false;
    reply.remove_prefix(kVerdictBytes);
    for (const limit::ChargeItem& item : charge.items) {
        for (const Limit& limit : item.policy->limits) {
            limit::LimitVerdict& told = verdict.limits.emplace_back();
            if (!read_limit(reply, limit, charge, verdict.admitted, told)) return false;
            any_denied = any_denied || told.denied;
            reply.remove_prefix(kLimitVerdictBytes);
        }
    }
    // Nobody is refused without a limit that refuses, nor told to wait when admitted.
    return verdict.admitted ? retry_us == 0 : any_denied && retry_us != 0;
}

}  // namespace tidegate::store

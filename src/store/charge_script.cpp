#include "store/charge_script.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "limit/gcra.hpp"
#include "limit/window.hpp"
#include "store/resp.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {
namespace {

using limit::Algorithm;
using limit::ChargeItem;
using limit::ExactTime;
using limit::Flow;
using limit::Limit;
using limit::Micros;

// The layout of a state; a new one is a new name, so old and new proxies never read each other's.
constexpr std::string_view kStateVersion = "3";
constexpr std::size_t kAskedBytes = 2;
constexpr std::size_t kRunBytes = 7;
constexpr std::size_t kLimitBytes = 26;  // kind, three numbers, name
constexpr std::size_t kNumbersBytes = 16;

constexpr std::array<bool, 256> plain_letters() {
    std::array<bool, 256> plain{};
    for (std::size_t byte = 0x21; byte < 0x7f; ++byte) plain[byte] = true;
    for (const char special : {'{', '}', '%', ':'}) {
        plain[static_cast<unsigned char>(special)] = false;
    }
    return plain;
}
constexpr auto kPlain = plain_letters();

bool is_plain(char letter) {
    return kPlain[static_cast<unsigned char>(letter)];
}

std::size_t safe_size(std::string_view text) {
    std::size_t size = text.size();
    for (char letter : text) size += is_plain(letter) ? 0 : 2;
    return size;
}

// A policy's name is the operator's own, but a brace in it would be another hash tag.
void append_safe(std::string_view text, std::string& out) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    if (std::all_of(text.begin(), text.end(), is_plain)) {
        out += text;
        return;
    }
    for (char letter : text) {
        const auto byte = static_cast<unsigned char>(letter);
        if (is_plain(letter)) {
            out += letter;
        } else {
            out.append(1, '%').append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
        }
    }
}

bool is_window(const Limit& limit) {
    return limit.algorithm == Algorithm::sliding_window ||
           limit.algorithm == Algorithm::fixed_window || limit.algorithm == Algorithm::sliding_log;
}

bool is_bucket(const Limit& limit) {
    return limit.algorithm == Algorithm::gcra || limit.algorithm == Algorithm::leaky_bucket;
}

bool has_set(const Limit& limit) {
    return limit.algorithm == Algorithm::schedule || limit.algorithm == Algorithm::concurrency;
}

// How many of the items, from the first on, are of one policy: their limits are sent once.
std::size_t run_length(std::span<const ChargeItem> items) {
    constexpr std::size_t kMost = 255;
    std::size_t length = 1;
    while (length < std::min(items.size(), kMost) && items[length].policy == items[0].policy &&
           items[length].tier == items[0].tier) {
        ++length;
    }
    return length;
}

template <class Visit>
void for_each_run(std::span<const ChargeItem> items, Visit visit) {
    while (!items.empty()) {
        const std::size_t length = run_length(items);
        visit(items.first(length));
        items = items.subspan(length);
    }
}

char kind_of(const Limit& limit) {
    const bool all = limit.count == limit::Count::all;
    switch (limit.algorithm) {
        case Algorithm::sliding_window:
        case Algorithm::fixed_window:
            return all ? 'W' : 'w';
        case Algorithm::sliding_log:
            return all ? 'L' : 'l';
        case Algorithm::gcra:
            return all ? 'G' : 'g';
        case Algorithm::leaky_bucket:
            return 'k';
        case Algorithm::schedule:
            return limit.utc_day ? 'd' : 's';
        case Algorithm::concurrency:
            return 'c';
    }
    return 'w';
}

std::uint8_t mark_bytes(const Limit& limit) {
    if (!is_window(limit)) return 0;
    return limit.algorithm == Algorithm::sliding_log ? 12 : 6;
}

// How long a full bucket takes to become empty; of leaky_bucket, the longest line.
ExactTime fullest(const Limit& limit) {
    const ExactTime burst = limit::time_for(Flow(limit), limit.burst);
    const bool line_is_shorter =
        limit.algorithm == Algorithm::leaky_bucket && limit.max_delay.count() <= burst.us;
    return line_is_shorter ? ExactTime{limit.max_delay.count(), 0} : burst;
}

void append_terms(const Limit& limit, std::string& out) {
    append_packed(static_cast<std::uint32_t>(limit.quota), out);
    if (is_window(limit)) {
        const bool opens_itself = limit.anchor == limit::Anchor::first_request;
        append_double(opens_itself ? 0 : limit.precision.count(), out);
        append_double(limit::span_of(limit).count(), out);
    } else if (is_bucket(limit)) {
        const ExactTime full = fullest(limit);
        append_double(full.us, out);
        append_double(full.parts, out);
    } else {
        append_double(limit.duration.count(), out);
        append_double(limit.forward_past ? 1 : 0, out);
    }
}

// Names the records of a state and their order: 256 times a hash that is not zero, and how many.
std::uint32_t layout_of(std::span<const Limit> limits) {
    std::uint32_t hash = 0x811c9dc5;
    for (const Limit& limit : limits) hash = (hash ^ limit.id) * 0x01000193;
    hash ^= hash >> 15;
    return (hash | 1) << 8 | static_cast<std::uint32_t>(limits.size());
}

void append_asked(std::span<const ChargeItem> items, std::size_t times, std::string& out) {
    std::size_t size = kAskedBytes;
    for_each_run(items, [&](std::span<const ChargeItem> run) {
        size += kRunBytes + kLimitBytes * run[0].limits().size();
    });
    append_length('$', size, out);
    append_packed(static_cast<std::uint8_t>(items.size()), out);
    append_packed(static_cast<std::uint8_t>(times), out);
    for_each_run(items, [&](std::span<const ChargeItem> run) {
        const std::span<const Limit> limits = run[0].limits();
        assert(!limits.empty() && limits.size() <= limit::kLimitsMax);
        append_packed(static_cast<std::uint8_t>(run.size()), out);
        append_packed(static_cast<std::uint8_t>(run[0].policy->shadow ? 1 : 0), out);
        append_packed(layout_of(limits), out);
        append_packed(static_cast<std::uint8_t>(limits.size()), out);
        for (const Limit& limit : limits) out += kind_of(limit);
        for (const Limit& limit : limits) append_terms(limit, out);
        for (const Limit& limit : limits) {
            append_packed(limit.id, out);
            append_packed(mark_bytes(limit), out);
        }
    });
    out += "\r\n";
}

// What the limit needs to know of the request besides its cost.
void append_numbers(const Limit& limit, const limit::Charge& charge, std::string& out) {
    if (is_bucket(limit)) {
        // A line would take any cost, were it not told.
        const bool too_much =
            limit.algorithm == Algorithm::leaky_bucket && charge.cost > limit.burst;
        const ExactTime time =
            too_much ? ExactTime{-1, 0} : limit::time_for(Flow(limit), charge.cost);
        append_double(time.us, out);
        append_double(time.parts, out);
    } else if (limit.algorithm == Algorithm::schedule) {
        append_double(charge.moment.count(), out);
        append_double(0, out);
    } else {
        append_packed(charge.lease.holder, out);
        append_packed(charge.lease.request, out);
    }
}

void append_requests(std::span<const limit::Charge> charges, std::string& out) {
    std::size_t size = 0;
    for_each_run(charges[0].items, [&](std::span<const ChargeItem> run) {
        for (const Limit& limit : run[0].limits()) size += is_window(limit) ? 0 : kNumbersBytes;
    });
    append_length('$', (sizeof(double) + size) * charges.size(), out);
    for (const limit::Charge& charge : charges) {
        // A cost above every quota is denied whatever it is; a huge one would not be exact in Lua.
        append_double(std::min(charge.cost, limit::kQuotaMax + 1), out);
        for_each_run(charge.items, [&](std::span<const ChargeItem> run) {
            for (const Limit& limit : run[0].limits()) {
                if (!is_window(limit)) append_numbers(limit, charge, out);
            }
        });
    }
    out += "\r\n";
}

std::size_t key_size(const ChargeItem& item, std::string_view prefix) {
    return prefix.size() + kStateVersion.size() + 1 + safe_size(item.policy->name) + 2 +
           item.identifier.size() + 1;
}

void append_key_text(const ChargeItem& item, std::string_view prefix, std::string& out) {
    out.append(prefix).append(kStateVersion).append(1, ':');
    append_safe(item.policy->name, out);
    out.append(":{").append(item.identifier).append("}");
}

}  // namespace

bool can_share_command(const limit::Charge& charge) {
    return std::all_of(charge.items.begin(), charge.items.end(), [](const ChargeItem& item) {
        const auto limits = item.limits();
        return !item.policy->shadow &&
               std::all_of(limits.begin(), limits.end(), [](const Limit& limit) {
                   return limit.count == limit::Count::admitted &&
                          (is_window(limit) || limit.algorithm == Algorithm::gcra);
               });
    });
}

bool may_be_given_back(const Limit& limit) {
    return limit.count == limit::Count::by_status || limit.algorithm == Algorithm::leaky_bucket ||
           limit.algorithm == Algorithm::concurrency;
}

void append_state_key(const ChargeItem& item, std::string_view prefix, std::string& out) {
    append_length('$', key_size(item, prefix), out);
    append_key_text(item, prefix, out);
    out += "\r\n";
}

void append_set_key(const ChargeItem& item, const Limit& limit, std::string_view prefix,
                    std::string& out) {
    constexpr std::string_view kHex = "0123456789abcdef";
    constexpr std::size_t kIdBytes = 9;  // a colon and eight digits
    append_length('$', key_size(item, prefix) + kIdBytes, out);
    append_key_text(item, prefix, out);
    out += ':';
    for (int shift = 28; shift >= 0; shift -= 4) out += kHex[limit.id >> shift & 15];
    out += "\r\n";
}

std::size_t reading_keys(std::span<const ChargeItem> items) {
    std::size_t keys = items.size();
    for (const ChargeItem& item : items) {
        const auto limits = item.limits();
        keys += static_cast<std::size_t>(std::count_if(limits.begin(), limits.end(), has_set));
    }
    return keys;
}

void append_reading(std::span<const ChargeItem> items, std::size_t keys, std::size_t requests,
                    std::string_view prefix, std::string& out) {
    append_number(keys, out);
    for (const ChargeItem& item : items) append_state_key(item, prefix, out);
    for (const ChargeItem& item : items) {
        for (const Limit& limit : item.limits()) {
            if (has_set(limit)) append_set_key(item, limit, prefix, out);
        }
    }
    append_asked(items, requests, out);
}

void append_charge_command(std::span<const limit::Charge> charges, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    const limit::Charge& first = charges[0];
    assert(!first.items.empty() && first.items.size() <= 255 && charges.size() <= kBatchMax);
    const std::size_t keys = reading_keys(first.items);
    append_length('*', 5 + keys + (clock ? 1 : 0), out);
    // The short way is for one request.
    const auto& script = charges.size() == 1 ? charge_script(first) : charge_script({});
    out.append("$7\r\nEVALSHA\r\n$40\r\n").append(script.sha1).append("\r\n");
    append_reading(first.items, keys, charges.size(), prefix, out);
    append_requests(charges, out);
    if (!clock) return;
    assert(*clock >= Micros{0} && *clock <= limit::kNowMax);
    append_number(static_cast<std::uint64_t>(clock->count()), out);
}

}  // namespace tidegate::store

#include "proxy/simulate_recording.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "ask/verdict.hpp"
#include "base/text.hpp"
#include "config/config.hpp"

namespace tidegate::proxy {

namespace {

using Result = store::LimitDecision::Result;

// Whether the identifier is of the share: each request of it, then.
bool is_chosen(const identity::KeyedDigest::Value& name, std::int64_t share) {
    std::uint32_t head = 0;
    std::memcpy(&head, name.data(), sizeof(head));
    return static_cast<std::int64_t>(head) * RecordingPlan::kAll < share * (std::int64_t{1} << 32);
}

// Takes the next part of a joined identifier, `17:header:x-tenant=a+12:route:search`. Nothing: it
// is none.
std::optional<std::string_view> take_part(std::string_view& joined) {
    const std::size_t colon = joined.find(':');
    if (colon == joined.npos) return std::nullopt;
    const auto size = parse_number<std::size_t>(joined.substr(0, colon));
    if (!size || *size > joined.size() - colon - 1) return std::nullopt;
    const std::string_view part = joined.substr(colon + 1, *size);
    joined.remove_prefix(std::min(colon + 2 + *size, joined.size()));
    return part;
}

// Whether the text names no client: all requests that it is written for, or a great part of them,
// have it. Such an identifier cannot be one of a share.
bool is_shared_by_all(std::string_view identifier) {
    if (identifier.empty()) return true;
    if (!is_digit(identifier.front())) {
        constexpr std::array<std::string_view, 4> kShared{
            "route:", "constant:", "method:", "shared:"};
        return std::any_of(kShared.begin(), kShared.end(),
                           [&](std::string_view kind) { return identifier.starts_with(kind); });
    }
    while (!identifier.empty()) {
        const auto part = take_part(identifier);
        if (!part || !is_shared_by_all(*part)) return false;
    }
    return true;
}

// Whether a recording leaves the item out. A simulation cannot replay descriptors of Envoy's rate
// limit service: the key of their policy does not name them.
bool is_left_out(const limit::ChargeItem& item) {
    return is_shared_by_all(item.identifier) || item.policy->name.starts_with(config::kRlsPolicy);
}

// Whether a line can have the name as it is.
[[maybe_unused]] bool is_bare(std::string_view name) {
    return name.find_first_of("\"\\ ;") == name.npos;
}

// Whether a limit of the item refused the request.
bool refused(const store::LimitDecision& decision, const limit::ChargeItem& of) {
    bool denied = false;
    ask::for_each_limit(
        decision, [&](const limit::ChargeItem& item, std::size_t, const limit::LimitVerdict& one) {
            denied = denied ||
                     (one.denied && item.policy == of.policy && item.identifier == of.identifier);
        });
    return denied && of.policy->is_enforced();
}

}  // namespace

// {"at":1795946400123456,"route":"api","charges":"per-client 0a1b... 1;tenants 2c3d... 3 gold",
//  "verdict":"admitted","status":200,"took_us":1234}
// Names of routes, policies and tiers have no quote, backslash, space or `;`: is_identifier(),
// is_plain_name() of read_routes.cpp, is_tier_name().
void Recording::add(const Request& request) {
    const ask::Decision& decision = request.decision;
    const store::LimitDecision& asked = decision.charge;
    if (asked.result != Result::admitted && asked.result != Result::limited) return;
    const limit::Charge charge = asked.charge();
    const bool is_limited = asked.result == Result::limited;
    bool refused_here = false;
    std::size_t count = 0;
    line_.assign("{\"at\":");
    append_number(
        std::chrono::duration_cast<std::chrono::microseconds>(request.began.time_since_epoch())
            .count(),
        line_);
    line_.append(",\"route\":\"");
    if (decision.route != nullptr) {
        assert(is_bare(decision.route->name));
        line_.append(decision.route->name);
    }
    line_.append("\",\"charges\":\"");
    for (std::size_t i = 0; i < asked.items.size(); ++i) {
        const limit::ChargeItem& item = asked.items[i];
        if (is_left_out(item)) continue;
        const auto name = plan_->names.of({item.identifier});
        if (!is_chosen(name, plan_->share)) continue;
        assert(is_bare(item.policy->name) && (item.tier == nullptr || is_bare(item.tier->name)));
        if (count++ > 0) line_ += ';';
        line_.append(item.policy->name) += ' ';
        append_hex(std::span<const unsigned char>(name), line_);
        line_ += ' ';
        const bool is_settled = i < request.settled.size() && request.settled[i] >= 0;
        const std::int64_t cost = is_settled ? request.settled[i] : charge.cost_of(item);
        append_number(std::min(cost, limit::kMoneyMax), line_);
        if (item.tier != nullptr) line_.append(" ").append(item.tier->name);
        refused_here = refused_here || (is_limited && refused(asked, item));
    }
    if (count == 0) return;
    line_.append(is_limited ? "\",\"verdict\":\"limited\"" : "\",\"verdict\":\"admitted\"");
    // A simulation cannot know why.
    if (is_limited && !refused_here) line_.append(",\"refused_elsewhere\":1");
    if (request.status > 0) {
        line_.append(",\"status\":");
        append_number(request.status, line_);
    }
    if (request.took.count() >= 0) {
        line_.append(",\"took_us\":");
        append_number(request.took.count(), line_);
    }
    line_.append("}\n");
    if (lines_.size() + line_.size() > plan_->bytes_max) {
        ++left_out_;
        return;
    }
    lines_.append(line_);
}

Recording::Portion Recording::take(Time now) {
    ends_ = now + plan_->patience;
    return {std::exchange(lines_, {}), left_out_};
}

}  // namespace tidegate::proxy

#include "ask/ruleset.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

namespace tidegate::ask {

namespace {

std::int64_t window_seconds(const limit::Limit& limit) {
    constexpr std::int64_t kSecond = 1'000'000;
    // Slots have no window, and a schedule's lies around the moment, not before now.
    if (limit.has_set()) return 0;
    // The draft has one number of seconds for `w`, and lets it be left out. Any number would be
    // wrong in most months, and on some days of a time zone; `t` says when they end.
    if (!limit.has_one_duration()) return 0;
    const std::int64_t micros = limit.duration.count();
    return micros < kSecond ? 0 : (micros + kSecond - 1) / kSecond;
}

http::RateLimitItem::Kind kind_of(const limit::Limit& limit) {
    using Kind = http::RateLimitItem::Kind;
    if (limit.traits().has_slots) return Kind::in_flight;
    if (limit.traits().has_moments) return Kind::schedule;
    return Kind::window;
}

http::RateLimitItem::Unit unit_of(const config::PolicyCost* cost) {
    using Unit = http::RateLimitItem::Unit;
    if (cost == nullptr) return Unit::requests;
    if (cost->in_money) return Unit::microdollars;
    return cost->settle == config::PolicyCost::Settle::usage ? Unit::tokens : Unit::requests;
}

PolicyTexts::LimitTexts texts_of(const config::PolicySettings& policy, const limit::Limit& limit) {
    PolicyTexts::LimitTexts texts{.name = limit::full_name(policy, limit),
                                  .window_seconds = window_seconds(limit),
                                  .kind = kind_of(limit),
                                  .unit = unit_of(policy.cost.get()),
                                  .members = {},
                                  .json_begin = R"({"policy":)",
                                  .json_quota = R"(","quota":)"};
    texts.members = http::ratelimit_texts({.name = texts.name,
                                           .quota = limit.quota,
                                           .window_seconds = texts.window_seconds,
                                           .kind = texts.kind,
                                           .unit = texts.unit});
    append_json_string(policy.name, texts.json_begin);
    texts.json_begin += R"(,"limit":)";
    append_json_string(texts.name, texts.json_begin);
    texts.json_begin += R"(,"identifier":")";
    append_number(limit.quota, texts.json_quota);
    texts.json_quota += R"(,"left":)";
    return texts;
}

}  // namespace

PolicyTexts::PolicyTexts(const config::Config& config) {
    for (const config::LimitList& list : config.limit_lists) {
        auto& texts = lists_.emplace_back();
        for (const limit::Limit& limit : list.limits()) {
            texts.push_back(texts_of(*list.policy, limit));
        }
    }
}

}  // namespace tidegate::ask

#include "faces/check_answer.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "ask/decided_limits.hpp"
#include "http/problem.hpp"

namespace tidegate::faces {

namespace {

using Json = nlohmann::ordered_json;

// Rounded up, so that nobody comes back too early; null: nobody can tell.
Json milliseconds_up(limit::Micros time) {
    constexpr std::int64_t kMilli = 1'000;
    if (time == limit::kNever) return nullptr;
    return time.count() / kMilli + (time.count() % kMilli != 0 ? 1 : 0);
}

Json limits_json(const ask::Ruleset& rules, const store::Decision& charge) {
    Json limits = Json::array();
    ask::for_each_limit(
        charge, [&](const limit::ChargeItem& item, std::size_t i, const limit::LimitVerdict& one) {
            if (item.policy->shadow) return;
            const limit::Limit& limit = item.limits()[i];
            limits.push_back({{"policy", item.policy->name},
                              {"limit", rules.policy_texts.of(item, i).name},
                              {"identifier", item.identifier},
                              {"quota", limit.quota},
                              {"left", std::min(one.remaining, limit.quota)},
                              {"reset_ms", milliseconds_up(one.next_unit)},
                              {"denied", one.denied}});
        });
    return limits;
}

}  // namespace

int status_of(const ask::Decision& decision) {
    constexpr int kOk = 200;
    constexpr int kTooMany = 429;
    if (decision.goes_on()) return kOk;
    return decision.fault == ask::Fault::limited ? kTooMany : ask::traits(decision.fault).status;
}

Json answer_json(const ask::Ruleset& rules, const ask::Decision& decision) {
    using Result = store::Decision::Result;
    const store::Decision& charge = decision.charge;
    Json json{{"admitted", decision.goes_on()}};
    const bool is_decided = charge.result == Result::admitted || charge.result == Result::limited;
    json["limits"] = is_decided ? limits_json(rules, charge) : Json::array();
    if (decision.goes_on()) return json;
    if (decision.fault == ask::Fault::limited) {
        json["retry_after_ms"] = milliseconds_up(charge.verdict.retry_after);
        return json;
    }
    const ask::FaultTraits& fault = ask::traits(decision.fault);
    json["status"] = fault.status;
    json["detail"] = decision.fault_detail.empty() ? fault.detail : decision.fault_detail;
    return json;
}

std::string problem_text(int status, std::string_view detail, std::string_view request_id) {
    http::Problem problem;
    problem.status = status;
    problem.detail = detail;
    problem.request_id = request_id;
    std::string text;
    http::append_problem(problem, text);
    return text;
}

std::string settled_problem_text(std::int64_t cost, std::string_view request_id) {
    const std::string detail =
        "The reservation is settled already, with the cost " + std::to_string(cost) + ".";
    std::string problem = problem_text(409, detail, request_id);
    problem.pop_back();  // the brace
    return problem + ",\"cost\":" + std::to_string(cost) + "}";
}

}  // namespace tidegate::faces

#include "ask/policy_cost.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "http/field.hpp"

namespace tidegate::ask {

namespace {

using config::PolicyCost;

// A gateway between gave up waiting: the provider may go on, and bill.
bool may_go_on(int status) {
    constexpr int kRequestTimeout = 408;
    constexpr int kGatewayTimeout = 504;
    constexpr int kOriginTimeout = 524;  // of Cloudflare
    return status == kRequestTimeout || status == kGatewayTimeout || status == kOriginTimeout;
}

// Rounded up, but for what only the binary form of a decimal number adds.
std::int64_t units_of(double amount, double each) {
    constexpr double kNoise = 1e-6;
    constexpr double kMost = 4'503'599'627'370'496;  // 2^52
    const double units = std::ceil(amount * each - kNoise);
    return static_cast<std::int64_t>(std::clamp(units, 0.0, kMost));
}

std::optional<std::int64_t> units_by_usage(const config::Config& config, const PolicyCost& cost,
                                           std::string_view model, const AnswerFacts& answer) {
    if (answer.usage == nullptr) return std::nullopt;
    if (!cost.usage->is_by_provider()) return units_of(answer.usage->units, cost.each);
    const usage::Rates* const rates = rates_at(config, cost, model, answer.price_row);
    if (rates == nullptr) return std::nullopt;
    return usage::cost_of(answer.usage->tokens, *rates);
}

std::optional<std::int64_t> known_units(const config::Config& config, const PolicyCost& cost,
                                        std::string_view model, const AnswerFacts& answer) {
    using std::chrono::duration;
    switch (cost.settle) {
        case PolicyCost::Settle::never:
            break;
        case PolicyCost::Settle::usage:
            return units_by_usage(config, cost, model, answer);
        case PolicyCost::Settle::header:
            if (answer.header) return units_of(*answer.header, cost.each);
            break;
        case PolicyCost::Settle::time:
            return units_of(duration<double, std::milli>(answer.time).count(), cost.each);
        case PolicyCost::Settle::bytes:
            return units_of(static_cast<double>(answer.bytes), cost.each);
    }
    return std::nullopt;
}

}  // namespace

bool signs_body(const http::Fields& fields) {
    constexpr std::string_view kSigning[] = {"content-digest", "repr-digest",          "digest",
                                             "content-md5",    "x-amz-content-sha256", "signature"};
    return std::any_of(fields.begin(), fields.end(), [&](const http::Field& field) {
        return std::any_of(std::begin(kSigning), std::end(kSigning), [&](std::string_view name) {
            return http::equal_ignoring_case(field.name, name);
        });
    });
}

std::string model_of(const Facts& facts) {
    const bool is_in_body = facts.body != nullptr && !facts.body->json.model.empty() &&
                            !usage::path_decides_model(facts.head.path);
    if (is_in_body) return facts.body->json.model;
    return usage::model_of_path(facts.head.path);
}

const usage::Rates* rates_of(const config::Config& config, const PolicyCost& cost,
                             std::string_view model) {
    const bool is_priced = cost.needs_price() && config.prices && !model.empty();
    return rates_at(config, cost, model,
                    is_priced ? config.prices->row_of(model) : usage::PriceList::kNoRow);
}

const usage::Rates* rates_at(const config::Config& config, const PolicyCost& cost,
                             std::string_view model, std::size_t row) {
    if (!cost.needs_price()) return &cost.weights;
    // The price of unknown models is for those that have a name.
    const bool has_model = !model.empty() || row != usage::PriceList::kNoRow;
    return config.prices && has_model ? config.prices->rates_at(row) : nullptr;
}

std::size_t settled_row(const config::Config& config, const Decision& decision,
                        std::string_view answer_model) {
    constexpr std::size_t kNoRow = usage::PriceList::kNoRow;
    if (!config.prices) return kNoRow;
    // The answer may name a version that has another price.
    if (!answer_model.empty() && answer_model != decision.model) {
        const std::size_t row = config.prices->row_of(answer_model);
        if (row != kNoRow) return row;
    }
    if (decision.price_row) return *decision.price_row;
    return decision.model.empty() ? kNoRow : config.prices->row_of(decision.model);
}

bool reserves_most(const PolicyCost& cost, const Facts& facts) {
    const InspectedBody* const body = facts.body;
    if (body == nullptr || !body->is_whole) return true;
    // An upstream may read what Tidegate does not, such as NaN, a byte order mark or UTF-16.
    if (!body->json.is_json) return body->bytes > 0;
    // The maxima are those of the requests inside.
    if (usage::begins_batch(facts.head.path)) return true;
    // The maximum is not written.
    return cost.writes_cap && !body->json.output_max[cost.rule].stated &&
           signs_body(facts.head.fields);
}

std::int64_t reserved_units(const config::Config& config, const PolicyCost& cost,
                            const Facts& facts, const usage::Rates& rates) {
    if (!cost.reads_body()) return cost.reserved;
    const usage::RequestReader& reader = *config.body_reader;
    const InspectedBody* const body = facts.body;
    if (reserves_most(cost, facts)) return reader.largest(cost.rule).cost(rates);
    return reader.estimate(cost.rule, body->json, body->bytes).cost(rates);
}

std::optional<std::int64_t> settled_units(const config::Config& config, const PolicyCost& cost,
                                          std::int64_t reserved, std::string_view model,
                                          const AnswerFacts& answer) {
    constexpr int kErrors = 400;
    if (answer.end == AnswerFacts::End::not_sent) return 0;
    if (answer.end == AnswerFacts::End::unanswered) return std::nullopt;
    const std::optional<std::int64_t> known = known_units(config, cost, model, answer);
    if (!known) {
        const bool is_free = answer.status >= kErrors && !may_go_on(answer.status);
        return is_free ? std::optional<std::int64_t>(0) : std::nullopt;
    }
    // More may have been spent than was seen.
    return answer.end == AnswerFacts::End::cut ? std::max(*known, reserved) : *known;
}

}  // namespace tidegate::ask

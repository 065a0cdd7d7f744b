// `explain --body`: what policies need of the body of a request, and what they reserve by it.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ask/decision.hpp"
#include "ask/policy_cost.hpp"
#include "cli/explain.hpp"
#include "proxy/request.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::cli {

namespace {

using ask::Fault;
using config::PolicyCost;
using Reserved = Explanation::Reserved;

// The member of the body with the largest maximum of output, and that maximum.
std::optional<std::pair<std::string, std::int64_t>> stated_output(const usage::EstimateRule& rule,
                                                                  std::string_view body) {
    std::optional<std::pair<std::string, std::int64_t>> found;
    const usage::JsonPointers pointers(rule.output_max, usage::JsonPointers::Case::ignored);
    usage::JsonReader reader(pointers, {}, [&](const usage::JsonReader::Members& members) {
        for (std::size_t i = 0; i < members.size(); ++i) {
            const auto stated = members[i].largest;
            if (!stated || *stated > usage::kTokensMax) continue;
            if (!found || *stated > found->second) found = {rule.output_max[i], *stated};
        }
    });
    reader.read(body);
    reader.end();
    return found;
}

void explain_estimate(const PolicyCost& cost, const usage::RequestReader& reader,
                      const ask::Facts& facts, Reserved& out) {
    const ask::InspectedBody* const body = facts.body;
    const usage::EstimateRule& rule = reader.rule(cost.rule);
    out.tokens_max = rule.max;
    if (ask::reserves_most(cost, facts)) {
        out.by = Reserved::By::maximum;
        out.tokens = reader.largest(cost.rule);
        return;
    }
    out.by = Reserved::By::body;
    out.tokens = reader.estimate(cost.rule, body->json, body->bytes);
    std::int64_t wanted = rule.fallback * body->json.answers;
    out.answers = body->json.answers;
    if (body->json.is_json) {
        const usage::OutputMax& max = body->json.output_max[cost.rule];
        wanted = std::max(max.stated.value_or(wanted), max.largest);
        const bool is_stated = max.stated || max.largest > rule.fallback * body->json.answers;
        const auto stated = is_stated ? stated_output(rule, body->text) : std::nullopt;
        if (stated) out.stated_by = stated->first;
    }
    out.is_capped = out.tokens.output < wanted;
}

std::string settled_by(const PolicyCost& cost) {
    switch (cost.settle) {
        case PolicyCost::Settle::never:
            break;
        case PolicyCost::Settle::usage:
            return cost.usage->is_by_provider() ? "by the usage that the answer states"
                                                : "by members of the answer";
        case PolicyCost::Settle::header:
            return "by the field " + cost.header + " of the answer";
        case PolicyCost::Settle::time:
            return "by the time until the answer has ended";
        case PolicyCost::Settle::bytes:
            return "by the bytes of the answer";
    }
    return {};
}

}  // namespace

void explain_body(const std::optional<std::string>& text, const config::Config& config,
                  ask::Facts& facts, ask::Decision& decision, ask::InspectedBody& into,
                  Explanation& out) {
    const config::Route& route = *decision.route;
    const bool is_needed = route.reads_body && !decision.is_preflight;
    if (text) out.body = {.bytes = text->size(), .is_needed = is_needed};
    if (!is_needed) return;
    const std::size_t bytes = text ? text->size() : 0;
    if (bytes > 0 && proxy::is_coded(facts.head.fields)) return decision.refuse(Fault::coded_body);
    const bool is_utf8 = bytes == 0 || proxy::is_in_utf8(facts.head.fields);
    if (!is_utf8 && route.needs_whole_body) {
        return decision.refuse(Fault::coded_body, proxy::kOtherCharset);
    }
    into.is_whole = bytes <= route.inspected_bytes;
    if (bytes > route.body_bytes || (!into.is_whole && route.needs_whole_body)) {
        return decision.refuse(Fault::body_too_large);
    }
    if (into.is_whole && text) {
        into.text = *text;
        into.bytes = bytes;
        into.is_form = is_utf8 && proxy::is_form(facts.head.fields);
        if (bytes > 0 && is_utf8) config.body_reader->read(into.text, facts.head.path, into.json);
    }
    if (out.body) {
        out.body->is_whole = into.is_whole;
        out.body->is_json = into.json.is_json;
        out.body->is_form = into.is_form;
    }
    facts.body = &into;
}

std::optional<Reserved> reserved_of(const PolicyCost& cost, const config::Config& config,
                                    const ask::Facts& facts) {
    Reserved out;
    out.in_money = cost.in_money;
    out.settled_by = settled_by(cost);
    out.model = ask::model_of(facts);
    const usage::Rates* const rates = ask::rates_of(config, cost, out.model);
    if (rates == nullptr) return std::nullopt;
    out.units = ask::reserved_units(config, cost, facts, *rates);
    const bool is_by_provider = cost.usage != nullptr && cost.usage->is_by_provider();
    if (cost.reads_body() || is_by_provider) out.rates = *rates;
    out.is_unknown_model = cost.needs_price() && !config.prices->names(out.model);
    if (cost.reads_body()) explain_estimate(cost, *config.body_reader, facts, out);
    return out;
}

}  // namespace tidegate::cli

// An explanation for programs. Members may be added to it, and none is taken away or renamed.
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cli/explain.hpp"
#include "cli/explain_check.hpp"
#include "cli/explain_words.hpp"

namespace tidegate::cli {

namespace {

using Json = nlohmann::ordered_json;

// Null for what is not there.
Json optional_text(std::string_view text) {
    return text.empty() ? Json(nullptr) : Json(text);
}

Json client_json(const Explanation& explanation) {
    Json hops = Json::array();
    for (const Explanation::Hop& hop : explanation.hops) {
        hops.push_back({{"text", hop.text},
                        {"address", optional_text(hop.address)},
                        {"kind", words_of(hop.kind).name}});
    }
    return {{"address", optional_text(explanation.client.value_or(""))},
            {"field", explanation.chain_field},
            {"hops", hops}};
}

Json methods_json(const Explanation& explanation) {
    Json methods = Json::array();
    for (const Explanation::Method& method : explanation.methods) {
        methods.push_back({{"method", method.text},
                           {"outcome", words_of(method.outcome).name},
                           {"fault", optional_text(method.fault)}});
    }
    return methods;
}

Json user_json(const Explanation& explanation) {
    if (!explanation.user) return nullptr;
    return {{"name", explanation.user->name}, {"tier", optional_text(explanation.user->tier)}};
}

Json timeouts_json(const Explanation& explanation) {
    if (!explanation.route) return nullptr;
    return {{"response_ms", explanation.response_timeout.count()},
            {"stream_idle_ms", explanation.stream_idle.count()}};
}

Json route_json(const Explanation& explanation) {
    Json passed = Json::array();
    for (const Explanation::PassedRoute& route : explanation.passed) {
        passed.push_back({{"name", route.name}, {"because", words_of(route.because).name}});
    }
    Json readings = Json::array();
    for (const Explanation::Reading& reading : explanation.readings) {
        readings.push_back({{"path", reading.path},
                            {"route", optional_text(reading.route)},
                            {"captures", reading.captures},
                            {"ignoring_case", reading.ignoring_case}});
    }
    return {{"name", optional_text(explanation.route.value_or(""))},
            {"upstream", optional_text(explanation.upstream)},
            {"user_needed", explanation.need_of_user.is_needed},
            {"passed", passed},
            {"readings", readings},
            {"upstream_path", optional_text(explanation.upstream_path)},
            {"timeouts", timeouts_json(explanation)}};
}

Json limit_json(const Explanation::Limit& each) {
    const limit::Limit& limit = each.limit;
    Json json = {{"name", each.name}, {"algorithm", limit.traits().name}};
    json["quota"] = limit.quota;
    if (limit::has_period(limit.anchor)) json["anchor"] = limit::name_of(limit.anchor);
    if (!limit.time_zone.empty()) json["time_zone"] = limit.time_zone;
    if (limit.has_one_duration()) json["duration_us"] = limit.duration.count();
    if (limit.burst != 0) json["burst"] = limit.burst;
    return json;
}

Json policy_json(const Explanation::Policy& policy) {
    Json keys = Json::array();
    for (const Explanation::Key& key : policy.keys) {
        keys.push_back({{"key", key.text},
                        {"outcome", words_of(key.outcome).name},
                        {"identifiers", key.identifiers}});
    }
    Json limits = Json::array();
    for (const Explanation::Limit& limit : policy.limits) limits.push_back(limit_json(limit));
    return {{"name", policy.name},
            {"outcome", policy.left_out ? "left_out" : words_of(policy.outcome).name},
            {"mode", policy.shadow ? "shadow" : "enforce"},
            {"tier", optional_text(policy.tier)},
            {"listed_as", optional_text(policy.listed_as)},
            {"keys", keys},
            {"limits", limits}};
}

Json result_json(const Explanation& explanation) {
    if (explanation.refusal != 0) {
        return {{"outcome", "refused"},
                {"status", explanation.refusal},
                {"reason", explanation.refusal_reason}};
    }
    return {{"outcome", explanation.cost ? "limited" : "unlimited"},
            {"identifiers", explanation.identifiers},
            {"limits", explanation.limits}};
}

Json whole_json(const Explanation& explanation) {
    Json json;
    if (!explanation.is_call || !explanation.method.empty()) {
        json["request"] = {{"method", optional_text(explanation.method)},
                           {"path", optional_text(explanation.path)},
                           {"host", optional_text(explanation.host)}};
        if (!explanation.is_call) json["request"]["protocol"] = name_of(explanation.version);
        if (explanation.is_preflight) json["preflight"] = true;
        json["peer"] = {{"address", optional_text(explanation.peer)},
                        {"trusted", explanation.trusted},
                        {"network", optional_text(explanation.trusted_network)}};
    }
    if (explanation.is_identified) {
        json["client"] = client_json(explanation);
        json["methods"] = methods_json(explanation);
        json["guess"] = explanation.guess;
        json["user"] = user_json(explanation);
        json["route"] = route_json(explanation);
    }
    if (explanation.is_identified || explanation.is_call) {
        json["policies"] = Json::array();
        for (const Explanation::Policy& policy : explanation.policies) {
            json["policies"].push_back(policy_json(policy));
        }
    }
    if (explanation.cost)
        json["cost"] = {{"units", explanation.cost->units}, {"why", explanation.cost->why}};
    json["result"] = result_json(explanation);
    return json;
}

Json call_json(const CallExplanation& explanation) {
    using Form = faces::CheckCall::Form;
    if (explanation.form == Form::one && explanation.items.size() == 1) {
        return whole_json(explanation.items.front());
    }
    Json items = Json::array();
    for (const Explanation& item : explanation.items) items.push_back(whole_json(item));
    Json json;
    if (explanation.form != Form::one) {
        json[explanation.form == Form::all ? "all" : "each"] = std::move(items);
    }
    if (explanation.refusal != 0) {
        json["result"] = {{"outcome", "refused"},
                          {"status", explanation.refusal},
                          {"reason", explanation.refusal_reason}};
    } else if (explanation.form == Form::all) {
        json["result"] = {{"outcome", explanation.identifiers != 0 ? "limited" : "unlimited"},
                          {"identifiers", explanation.identifiers},
                          {"limits", explanation.limits}};
    } else {
        json["result"] = {{"outcome", "answered"}};
    }
    return json;
}

std::string text_of_json(const Json& json) {
    return json_text(json, {.indent = 2, .ascii = true}) + "\n";
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
    return text_of_json(whole_json(explanation));
}

std::string explanation_json(const CallExplanation& explanation) {
    return text_of_json(call_json(explanation));
}

}  // namespace tidegate::cli

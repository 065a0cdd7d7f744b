#include "proxy/cors_fields.hpp"

#include <algorithm>
#include <string_view>

#include "http/field.hpp"
#include "http/framing.hpp"

namespace tidegate::proxy {

namespace {

using http::append_field;
using http::Field;
using http::FieldName;
using http::Fields;

constexpr std::string_view kExposeHeaders = "Access-Control-Expose-Headers";
constexpr std::string_view kMaxAge = "Access-Control-Max-Age";

// A field that Connection names is not passed on, so it has another id.
bool is_named(const Field& field, std::string_view name) {
    return field.id == FieldName::other && http::equal_ignoring_case(field.name, name);
}

bool lists(std::string_view list, std::string_view name) {
    std::string_view item;
    while (http::next_list_item(list, item)) {
        if (http::equal_ignoring_case(item, name)) return true;
    }
    return false;
}

// One line: clients that take only the last of several fields lose none.
void append_merged(const Fields& fields, std::string_view ours, std::string& out) {
    const auto is_listed = [&](std::string_view name) {
        return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
            return is_named(field, kExposeHeaders) && lists(field.value, name);
        });
    };
    out.append(kExposeHeaders).append(": ");
    std::string_view between;
    for (const Field& field : fields) {
        if (!is_named(field, kExposeHeaders) || field.value.empty()) continue;
        out.append(between).append(field.value);
        between = ", ";
    }
    std::string_view name;
    while (http::next_list_item(ours, name)) {
        if (is_listed(name)) continue;
        out.append(between).append(name);
        between = ", ";
    }
    out += "\r\n";
}

}  // namespace

void append_cors_fields(const Exchange& exchange, std::string& out) {
    const config::Response& response = exchange.config().response;
    const config::Route* const route = exchange.decision.route;
    const config::Cors* const cors = route != nullptr ? route->cors : response.cors;
    if (cors == nullptr) return;
    // Also where no origin is named: a cache must not give this answer to a page of another origin.
    append_field("Vary", "Origin", out);
    if (cors->origins.any) {
        append_field("Access-Control-Allow-Origin", "*", out);
    } else {
        const std::string_view origin = http::single_value(exchange.facts.head.fields, "origin");
        if (!cors->origins.include(origin)) return;
        append_field("Access-Control-Allow-Origin", origin, out);
        if (cors->credentials) append_field("Access-Control-Allow-Credentials", "true", out);
    }
    append_field(kExposeHeaders, response.exposed_fields, out);
}

bool is_merged_for_cors(const Exchange& exchange, const Field& field) {
    return !exchange.decision.is_preflight && is_named(field, kExposeHeaders);
}

void append_forwarded_cors_fields(const Exchange& exchange, const Fields& fields,
                                  std::string& out) {
    if (!exchange.decision.is_preflight) {
        return append_merged(fields, exchange.config().response.exposed_fields, out);
    }
    const std::chrono::seconds max_age = exchange.decision.route->cors->max_age;
    const bool says = std::any_of(fields.begin(), fields.end(),
                                  [](const Field& field) { return is_named(field, kMaxAge); });
    if (says || max_age.count() == 0) return;
    append_field(kMaxAge, static_cast<std::uint64_t>(max_age.count()), out);
}

}  // namespace tidegate::proxy

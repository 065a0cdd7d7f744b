#include "faces/original_request.hpp"

#include <array>
#include <cstddef>

#include "http/head.hpp"

namespace tidegate::faces {

namespace {

using config::Dialect;
using http::Field;
using http::FieldName;

// What the fields of a dialect say, in the order of their names and values here.
enum : std::size_t { kMethod, kTarget, kHost, kFields };
using FieldTexts = std::array<std::string_view, kFields>;

// An empty name: the gateway's request says it without a field.
constexpr FieldTexts names_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::nginx:
            return {"x-original-method", "x-original-uri", ""};
        case Dialect::forwarded:
            return {"x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"};
        case Dialect::envoy:
            break;
    }
    return {};
}

// Connection says that the field is for this hop alone.
bool is_named_by_connection(const Field& field) {
    return field.id == FieldName::named_by_connection;
}

// The position of the name that a field has, kFields for none, and whether it is spelled so.
struct NamePlace {
    std::size_t at = kFields;
    bool is_spelled_so = false;
};

NamePlace place_of(const Field& field, const FieldTexts& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].size() != field.name.size()) continue;  // nearly always
        if (http::equal_ignoring_case(names[i], field.name)) return {i, true};
        // A known name is no spelling of another one.
        const bool is_known = field.id != FieldName::other && !is_named_by_connection(field);
        if (!is_known && http::equal_as_variable(names[i], field.name)) return {i, false};
    }
    return {};
}

// Takes the fields of these names out of `fields`, and returns their values. A second field,
// another spelling of the name, or a name that Connection lists may come from the client: then the
// value is empty. One pass, for each question goes through here.
FieldTexts take_values(const FieldTexts& names, http::Fields& fields) {
    FieldTexts values;
    std::array<bool, kFields> seen{};
    auto kept = fields.begin();
    for (auto field = fields.begin(); field != fields.end(); ++field) {
        const NamePlace place = place_of(*field, names);
        if (place.at == kFields) {
            if (kept != field) *kept = *field;
            ++kept;
            continue;
        }
        const bool is_good =
            !seen[place.at] && place.is_spelled_so && !is_named_by_connection(*field);
        values[place.at] = is_good ? field->value : std::string_view{};
        seen[place.at] = true;
    }
    fields.erase(kept, fields.end());
    return values;
}

std::string_view read_fields(const FieldTexts& names, ask::Facts& facts) {
    http::RequestHead& head = facts.head;
    const FieldTexts values = take_values(names, head.fields);
    if (!http::is_token(values[kMethod]) || values[kMethod] == "CONNECT") {
        return "The field with the original method is missing, there twice, or no method.";
    }
    if (!http::set_origin_form(values[kTarget], head)) {
        return "The field with the original target is missing, there twice, or does not begin "
               "with `/`.";
    }
    if (!names[kHost].empty()) {
        if (!http::is_valid_host(values[kHost])) {
            return "The field with the original host is missing, there twice, or no host.";
        }
        facts.host = values[kHost];
    }
    head.method = values[kMethod];
    return {};
}

// Envoy puts its `path_prefix` before the path of each request.
std::string_view remove_prefix(std::string_view prefix, http::RequestHead& head) {
    std::string_view target = head.target;
    if (!target.starts_with(prefix)) {
        return "The path does not begin with `path_prefix` of the listener.";
    }
    target.remove_prefix(prefix.size());
    return http::set_origin_form(target, head)
               ? std::string_view{}
               : "The path behind `path_prefix` of the listener does not begin with `/`.";
}

}  // namespace

std::string_view read_original(const config::Listen& listen, const config::RequestBounds& bounds,
                               ask::Facts& facts) {
    if (listen.dialect == Dialect::envoy) {
        return remove_prefix(listen.path_prefix, facts.head);
    }
    const std::string_view fault = read_fields(names_of(listen.dialect), facts);
    if (fault.empty() && facts.head.target.size() > bounds.uri_bytes) {
        return "The original target is longer than allowed.";
    }
    return fault;
}

}  // namespace tidegate::faces

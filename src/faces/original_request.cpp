#include "faces/original_request.hpp"

#include <array>
#include <cstddef>

#include "http/head.hpp"

namespace tidegate::faces {

namespace {

using config::Dialect;
using http::Field;
using http::FieldName;

// The values of a dialect's fields, in the order of their names and values here.
enum : std::size_t { kMethod, kTarget, kHost, kFields };
using FieldTexts = std::array<std::string_view, kFields>;

// An empty text: the gateway's request says it without a field.
struct FieldsOfDialect {
    std::array<FieldName, kFields> names;
    FieldTexts texts;
};

constexpr FieldsOfDialect kNginx{
    {FieldName::x_original_method, FieldName::x_original_uri, FieldName::other},
    {"x-original-method", "x-original-uri", ""}};
constexpr FieldsOfDialect kForwarded{
    {FieldName::x_forwarded_method, FieldName::x_forwarded_uri, FieldName::x_forwarded_host},
    {"x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"}};

// The position of the name that a field has, kFields for none, and whether it is spelled so and
// meant for Tidegate.
struct NamePlace {
    std::size_t at = kFields;
    bool is_good = false;
};

NamePlace place_of(const Field& field, const FieldsOfDialect& wanted) {
    // A known name is no spelling of another one. Connection may say that a field is for this hop
    // alone, whatever its name.
    const bool is_known =
        field.id != FieldName::other && field.id != FieldName::named_by_connection;
    for (std::size_t i = 0; i < kFields; ++i) {
        if (is_known ? field.id == wanted.names[i]
                     : wanted.texts[i].size() == field.name.size() &&
                           http::equal_as_variable(wanted.texts[i], field.name)) {
            return {i, is_known};
        }
    }
    return {};
}

// Takes the wanted fields out of `fields`, and returns their values. A second field, another
// spelling of the name, or a name that Connection lists may come from the client: then the value is
// empty. One pass, for each question goes through here.
FieldTexts take_values(const FieldsOfDialect& wanted, http::Fields& fields) {
    FieldTexts values;
    std::array<bool, kFields> seen{};
    auto kept = fields.begin();
    for (auto field = fields.begin(); field != fields.end(); ++field) {
        const NamePlace place = place_of(*field, wanted);
        if (place.at == kFields) {
            if (kept != field) *kept = *field;
            ++kept;
            continue;
        }
        const bool is_good = place.is_good && !seen[place.at];
        values[place.at] = is_good ? field->value : std::string_view{};
        seen[place.at] = true;
    }
    fields.erase(kept, fields.end());
    return values;
}

std::string_view read_fields(const FieldsOfDialect& wanted, ask::Facts& facts) {
    http::RequestHead& head = facts.head;
    const FieldTexts values = take_values(wanted, head.fields);
    if (!http::is_token(values[kMethod]) || values[kMethod] == "CONNECT") {
        return "The field with the original method is missing, there twice, or no method.";
    }
    if (!http::set_origin_form(values[kTarget], head)) {
        return "The field with the original target is missing, there twice, or does not begin "
               "with `/`.";
    }
    if (!wanted.texts[kHost].empty()) {
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
    const std::string_view fault =
        read_fields(listen.dialect == Dialect::nginx ? kNginx : kForwarded, facts);
    if (fault.empty() && facts.head.target.size() > bounds.uri_bytes) {
        return "The original target is longer than allowed.";
    }
    return fault;
}

}  // namespace tidegate::faces

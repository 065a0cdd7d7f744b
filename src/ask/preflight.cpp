#include "ask/preflight.hpp"

#include <algorithm>

#include "base/utf8.hpp"
#include "http/request_value.hpp"

namespace tidegate::ask {

namespace {

using http::Field;
using http::FieldName;

bool is_named(const Field& field, std::string_view name) {
    return field.id == FieldName::other && http::equal_ignoring_case(field.name, name);
}

}  // namespace

bool is_preflight(const Facts& facts, std::span<const std::string> credential_fields) {
    if (facts.head.method != "OPTIONS" || facts.has_body) return false;
    bool has_origin = false;
    bool has_method = false;
    for (const Field& field : facts.head.fields) {
        if (is_named(field, "origin")) {
            if (without_outer_blanks(field.value).empty()) return false;
            has_origin = true;
        } else if (is_named(field, "access-control-request-method")) {
            if (!http::is_token(field.value)) return false;
            has_method = true;
        } else if (http::override_of(field.name) != http::RequestOverride::none ||
                   std::any_of(credential_fields.begin(), credential_fields.end(),
                               [&](const std::string& name) {
                                   return http::equal_as_variable(name, field.name);
                               })) {
            return false;
        }
    }
    return has_origin && has_method;
}

}  // namespace tidegate::ask

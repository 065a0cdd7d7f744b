#include "ask/preflight.hpp"

namespace tidegate::ask {

namespace {

using http::Field;
using http::FieldName;

bool has_body(const Field& field) {
    return field.id == FieldName::transfer_encoding ||
           (field.id == FieldName::content_length && field.value != "0");
}

bool is_named(const Field& field, std::string_view name) {
    return field.id == FieldName::other && http::equal_ignoring_case(field.name, name);
}

}  // namespace

bool is_preflight(const http::RequestHead& head) {
    if (head.method != "OPTIONS") return false;
    bool has_origin = false;
    bool has_method = false;
    for (const Field& field : head.fields) {
        if (has_body(field)) return false;
        has_origin = has_origin || is_named(field, "origin");
        has_method = has_method || is_named(field, "access-control-request-method");
    }
    return has_origin && has_method;
}

}  // namespace tidegate::ask

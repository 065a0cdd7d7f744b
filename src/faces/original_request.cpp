#include "faces/original_request.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "http/head.hpp"

namespace tidegate::faces {

namespace {

using config::Dialect;
using http::Field;

// The fields of a dialect; an empty name: the gateway's request says it without a field.
struct FieldNames {
    std::string_view method;
    std::string_view target;
    std::string_view host;
};

constexpr FieldNames names_of(Dialect dialect) {
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

// The value of the only field of that name. A second one, another spelling of the name, or a name
// that Connection lists may come from the client, so then there is none.
std::optional<std::string_view> only_value(const http::Fields& fields, std::string_view name) {
    const auto is_named = [&](const Field& field) {
        return http::equal_as_variable(field.name, name);
    };
    const auto found = std::find_if(fields.begin(), fields.end(), is_named);
    if (found == fields.end() || found->value.empty() ||
        found->id == http::FieldName::named_by_connection ||
        !http::equal_ignoring_case(found->name, name) ||
        std::any_of(found + 1, fields.end(), is_named)) {
        return std::nullopt;
    }
    return found->value;
}

std::string_view read_fields(const FieldNames& names, ask::Facts& facts) {
    http::RequestHead& head = facts.head;
    const auto method = only_value(head.fields, names.method);
    if (!method || !http::is_token(*method) || *method == "CONNECT") {
        return "The field with the original method is missing, there twice, or no method.";
    }
    const auto target = only_value(head.fields, names.target);
    if (!target || !http::set_origin_form(*target, head)) {
        return "The field with the original target is missing, there twice, or does not begin "
               "with `/`.";
    }
    if (!names.host.empty()) {
        const auto host = only_value(head.fields, names.host);
        if (!host || !http::is_valid_host(*host)) {
            return "The field with the original host is missing, there twice, or no host.";
        }
        facts.host = *host;
    }
    head.method = *method;
    const std::array<std::string_view, 3> written{names.method, names.target, names.host};
    std::erase_if(head.fields, [&](const Field& field) {
        return std::any_of(written.begin(), written.end(), [&](std::string_view name) {
            return !name.empty() && http::equal_ignoring_case(field.name, name);
        });
    });
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

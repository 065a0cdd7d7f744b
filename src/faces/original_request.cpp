#include "faces/original_request.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include "http/head.hpp"

namespace tidegate::faces {

namespace {

using config::Dialect;
using http::Field;
using http::FieldName;

// The values of a dialect's fields, in the order of their names and values here.
enum : std::size_t { kMethod, kTarget, kHost, kFields };
using FieldTexts = std::array<std::string_view, kFields>;

// A known name is no spelling of another one.
bool is_known(const Field& field) {
    return field.id != FieldName::other && field.id != FieldName::named_by_connection;
}

// A set of numbers below 64.
class SmallNumbers {
  public:
    constexpr void insert(std::size_t number) { bits_ |= std::uint64_t{1} << number; }
    constexpr bool has(std::size_t number) const {
        return number < 64 && (bits_ >> number & 1) != 0;
    }

  private:
    std::uint64_t bits_ = 0;
};

// An empty text: the gateway's request says it without a field.
struct FieldsOfDialect {
    constexpr FieldsOfDialect(const std::array<FieldName, kFields>& known,
                              const FieldTexts& written)
        : names(known), texts(written) {
        for (const FieldName name : names) ids.insert(static_cast<std::size_t>(name));
        for (const std::string_view text : texts) lengths.insert(text.size());
    }

    // False of most fields of a question, which are the client's.
    bool may_have(const Field& field) const {
        return is_known(field) ? ids.has(static_cast<std::size_t>(field.id))
                               : lengths.has(field.name.size());
    }

    std::array<FieldName, kFields> names;
    FieldTexts texts;
    SmallNumbers ids;
    SmallNumbers lengths;  // of the names
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
    if (!wanted.may_have(field)) return {};
    // Connection may say that a field is for this hop alone, whatever its name.
    const bool is_good = is_known(field);
    for (std::size_t i = 0; i < kFields; ++i) {
        if (is_good ? field.id == wanted.names[i]
                    : wanted.texts[i].size() == field.name.size() &&
                          http::equal_as_variable(wanted.texts[i], field.name)) {
            return {i, is_good};
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
    if (!http::is_token(values[kMethod])) {
        return "The field with the original method is missing, there twice, or no method.";
    }
    if (!http::set_origin_form(values[kTarget], head)) {
        return "The field with the original target is missing, there twice, or does not begin "
               "with `/`.";
    }
    if (!wanted.texts[kHost].empty()) {
        // Gateways mostly repeat their own Host, which has been checked.
        const bool is_checked = !facts.host.empty() && values[kHost] == facts.host;
        if (!is_checked && !http::is_valid_host(values[kHost])) {
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
    // An origin form has been checked and split: that of a prefix without a query stays as it is.
    if (head.authority.empty() && prefix.size() < head.path.size() && target.starts_with('/')) {
        head.target = target;
        head.path.remove_prefix(prefix.size());
        return {};
    }
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

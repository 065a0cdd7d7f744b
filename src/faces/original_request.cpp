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

// What states the host of the original request.
enum class HostIn : std::uint8_t {
    question,  // its own Host
    field,     // the one at kHost
    url,       // the target, which is a whole URL
};

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

// The fields in which a gateway states the original request, and the answer where one is wrong.
// An empty text: something else states it.
struct FieldsOfDialect {
    constexpr FieldsOfDialect(HostIn host, const std::array<FieldName, kFields>& known,
                              const FieldTexts& written, const FieldTexts& when_wrong)
        : host_in(host), names(known), texts(written), faults(when_wrong) {
        for (const FieldName name : names) ids.insert(static_cast<std::size_t>(name));
        for (const std::string_view text : texts) lengths.insert(text.size());
    }

    // False of most fields of a question, which are the client's.
    bool may_have(const Field& field) const {
        return is_known(field) ? ids.has(static_cast<std::size_t>(field.id))
                               : lengths.has(field.name.size());
    }

    HostIn host_in;
    // Without X-Original-URL: for the proxy it is one of the client's fields, so it has no
    // FieldName.
    std::array<FieldName, kFields> names;
    FieldTexts texts;
    FieldTexts faults;
    SmallNumbers ids;
    SmallNumbers lengths;  // of the names
};

constexpr FieldsOfDialect kNginx{
    HostIn::question,
    {FieldName::x_original_method, FieldName::x_original_uri, FieldName::other},
    {"x-original-method", "x-original-uri", ""},
    {"X-Original-Method is missing, there twice, or no method.",
     "X-Original-URI is missing, there twice, or does not begin with `/`.", ""}};
constexpr FieldsOfDialect kForwarded{
    HostIn::field,
    {FieldName::x_forwarded_method, FieldName::x_forwarded_uri, FieldName::x_forwarded_host},
    {"x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"},
    {"X-Forwarded-Method is missing, there twice, or no method.",
     "X-Forwarded-Uri is missing, there twice, or does not begin with `/`.",
     "X-Forwarded-Host is missing, there twice, or no host."}};
constexpr FieldsOfDialect kIngressNginx{
    HostIn::url,
    {FieldName::x_original_method, FieldName::other, FieldName::other},
    {"x-original-method", "x-original-url", ""},
    {"X-Original-Method is missing, there twice, or no method.",
     "X-Original-URL is missing, there twice, or no URL such as `https://shop.example/cart?a=b`.",
     "X-Original-URL has no host, as if a client of HTTP/1.0 sent none, or no valid one."}};

constexpr const FieldsOfDialect& fields_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::forwarded:
            return kForwarded;
        case Dialect::ingress_nginx:
            return kIngressNginx;
        case Dialect::nginx:
        case Dialect::envoy:  // has no such fields
            break;
    }
    return kNginx;
}

// The position of the name that a field has, kFields for none, and whether it is spelled so and
// meant for Tidegate.
struct NamePlace {
    std::size_t at = kFields;
    bool is_good = false;
};

NamePlace place_of(const Field& field, const FieldsOfDialect& wanted) {
    if (!wanted.may_have(field)) return {};
    for (std::size_t i = 0; i < kFields; ++i) {
        const std::string_view text = wanted.texts[i];
        if (is_known(field)) {
            if (field.id == wanted.names[i]) return {i, true};
        } else if (text.size() == field.name.size() && http::equal_as_variable(text, field.name)) {
            // Connection may say that a field is for this hop alone, whatever its name.
            const bool is_good = wanted.names[i] == FieldName::other &&
                                 field.id == FieldName::other &&
                                 http::equal_ignoring_case(text, field.name);
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

// Takes scheme and host off the URL that is the target, for the checks of a target and a host.
// nginx puts it together of the scheme, Host as the client wrote it, and the target, and takes no
// Host that has a `/`. So the first `/` ends the host: what a Host brings besides, such as
// userinfo, a query or a fragment, makes a host that is none.
bool split_url(FieldTexts& values, std::string_view& scheme) {
    constexpr std::string_view kHttp = "http";
    constexpr std::string_view kHttps = "https";
    constexpr std::string_view kBeforeHost = "://";
    std::string_view& url = values[kTarget];
    const std::size_t scheme_bytes = url.find(kBeforeHost);
    if (scheme_bytes == url.npos) return false;
    const std::string_view named = url.substr(0, scheme_bytes);
    if (named != kHttp && named != kHttps) return false;
    scheme = named == kHttps ? kHttps : kHttp;
    url.remove_prefix(scheme_bytes + kBeforeHost.size());
    values[kHost] = url.substr(0, url.find('/'));
    url.remove_prefix(values[kHost].size());
    return true;
}

OriginalFault read_fields(const FieldsOfDialect& wanted, ask::Facts& facts) {
    const OriginalFault bad_method{OriginalPart::method, wanted.faults[kMethod]};
    const OriginalFault bad_target{OriginalPart::target, wanted.faults[kTarget]};
    http::RequestHead& head = facts.head;
    FieldTexts values = take_values(wanted, head.fields);
    if (!http::is_token(values[kMethod])) return bad_method;
    if (wanted.host_in == HostIn::url && !split_url(values, facts.scheme)) return bad_target;
    if (wanted.host_in != HostIn::question) {
        // Gateways mostly repeat their own Host, which has been checked.
        const bool is_checked = !facts.host.empty() && values[kHost] == facts.host;
        if (!is_checked && !http::is_valid_host(values[kHost])) {
            return {OriginalPart::host, wanted.faults[kHost]};
        }
    }
    if (!http::set_origin_form(values[kTarget], head)) return bad_target;
    if (wanted.host_in != HostIn::question) facts.host = values[kHost];
    head.method = values[kMethod];
    return {};
}

// Envoy puts its `path_prefix` before the path of each request.
OriginalFault remove_prefix(std::string_view prefix, http::RequestHead& head) {
    std::string_view target = head.target;
    if (!target.starts_with(prefix)) {
        return {OriginalPart::path_prefix,
                "The path does not begin with `path_prefix` of the listener."};
    }
    target.remove_prefix(prefix.size());
    // An origin form has been checked and split: that of a prefix without a query stays as it is.
    if (head.authority.empty() && prefix.size() < head.path.size() && target.starts_with('/')) {
        head.target = target;
        head.path.remove_prefix(prefix.size());
        return {};
    }
    if (http::set_origin_form(target, head)) return {};
    return {OriginalPart::path_prefix,
            "The path behind `path_prefix` of the listener does not begin with `/`."};
}

}  // namespace

OriginalFault read_original(const config::Listen& listen, const config::RequestBounds& bounds,
                            ask::Facts& facts) {
    if (listen.dialect == Dialect::envoy) {
        return remove_prefix(listen.path_prefix, facts.head);
    }
    const OriginalFault fault = read_fields(fields_of(listen.dialect), facts);
    if (fault.empty() && facts.head.target.size() > bounds.uri_bytes) {
        return {OriginalPart::length, "The original target is longer than allowed."};
    }
    return fault;
}

}  // namespace tidegate::faces

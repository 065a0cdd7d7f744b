#include "config/user_method.hpp"

#include <algorithm>

#include "base/quote.hpp"
#include "config/header_field.hpp"

namespace tidegate::config {

namespace {

// Why a field can name no user. Empty: it can.
std::string fault_of_field(const std::string& name) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (dashed == "cookie") return "to read a cookie, write `cookie: NAME`";
    if (http::field_name(dashed) == http::FieldName::other && dashed != "set-cookie") return {};
    return "HTTP gives this field a meaning of its own";
}

}  // namespace

bool CredentialPlace::operator==(const CredentialPlace& other) const {
    if (in != other.in) return false;
    return in == In::cookie ? name == other.name : http::equal_as_variable(name, other.name);
}

std::string CredentialPlace::to_string() const {
    switch (in) {
        case In::bearer:
            return "`Authorization: Bearer`";
        case In::basic:
            return "`Authorization: Basic`";
        case In::field:
            return "the field " + quote(name);
        case In::certificate:
            return "the client's certificate";
        case In::cookie:
            break;
    }
    return "the cookie " + quote(name);
}

CredentialPlace place_of_secret(const std::string& field) {
    if (field == "authorization") return {CredentialPlace::In::bearer};
    return {CredentialPlace::In::field, field};
}

std::optional<std::string> read_credential_field(const Value& value, bool if_secret) {
    auto name = read_field_name(value);
    if (!name) return std::nullopt;
    std::string fault = fault_of_field(*name);
    if (*name == "authorization" && !if_secret) {
        fault = "use `jwt`, `api_key` or `basic`, which check the credential in it";
    }
    if (!fault.empty()) {
        value.fault(quote(*name) + " cannot name a user: " + fault);
        return std::nullopt;
    }
    return name;
}

std::optional<std::string> read_cookie_name(const Value& value) {
    constexpr std::size_t kCookieNameBytesMax = 128;
    auto name = value.text("the name of a cookie such as `session`");
    if (!name) return std::nullopt;
    if (!is_token(*name) || name->size() > kCookieNameBytesMax) {
        value.fault(quote(*name) + " is not the name of a cookie such as `session`");
        return std::nullopt;
    }
    return name;
}

}  // namespace tidegate::config

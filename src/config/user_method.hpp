// One method of `identity.user` as it is read: where in a request it looks, and what it is then.
#pragma once

#include <optional>
#include <string>

#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::config {

// The part of a request that a method looks at.
struct CredentialPlace {
    enum class In : std::uint8_t { bearer, basic, field, cookie, certificate };
    In in = In::field;
    std::string name{};  // of the field, in lower case, or of the cookie

    // Whether both are the same to some reader of fields: `x_user` is `x-user`.
    bool operator==(const CredentialPlace& other) const;
    std::string to_string() const;  // "the field `x-user`"
};

// Where a token or a key is in that field: in Authorization it has its scheme before it.
CredentialPlace place_of_secret(const std::string& field);

// The name of a field that may hold what names a user, in lower case. Authorization only
// `if_secret`.
std::optional<std::string> read_credential_field(const Value& value, bool if_secret);
std::optional<std::string> read_cookie_name(const Value& value);

// What a method's settings come to. Where they are broken, that has been reported.
struct FoundMethod {
    std::optional<CredentialPlace> place{};  // nothing: broken
    decltype(identity::UserMethod::how) how{};
    bool complete = false;               // nothing else is broken, either
    std::optional<Value> tier_header{};  // where HeaderMethod::tier_field is written
};

// What every method has beside its own keys.
inline constexpr std::string_view kMethodWanted = "a map of the method's settings";
inline constexpr std::string_view kNamespace = "namespace";
inline constexpr KeyText kNamespaceText{"is put before the user: `key:alice`", "none",
                                        "letters, digits, `-`, `_`, `.`"};

const Rows& jwt_keys();
FoundMethod read_jwt(Section& section, Declared& declared);

}  // namespace tidegate::config

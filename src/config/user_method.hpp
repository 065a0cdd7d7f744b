// One method of `identity.user` as it is read: its keys, and what of the configuration concerns it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::config {

// The name of a field that may hold what names a user, in lower case. Authorization only
// `if_secret`.
std::optional<std::string> read_credential_field(const Value& value, bool if_secret);
std::optional<std::string> read_cookie_name(const Value& value);

// Holds what a method's settings come to. Faults in them have been reported.
struct FoundMethod {
    std::optional<identity::CredentialPlace> place{};  // nothing: broken
    std::shared_ptr<const identity::IdentityMethod> how{};
    bool complete = false;               // nothing else is broken, either
    std::optional<Value> tier_header{};  // where the field `tier_field` of the tier is written
    std::string tier_field{};
};

// Every method takes these keys beside its own.
inline constexpr std::string_view kMethodWanted = "a map of the method's settings";
inline constexpr std::string_view kNamespace = "namespace";
inline constexpr KeyText kNamespaceText{"is put before the user: `key:alice`", "none",
                                        "letters, digits, `-`, `_`, `.`"};

// A method: its keys, how they are read, and what is legal but hardly meant. `warn` calls `say`
// with each warning, without the name of the method.
struct MethodRow {
    using Say = std::function<void(const std::string& warning)>;

    const identity::MethodTraits& traits;
    const KeyRows& keys;
    std::string_view what;  // for the reference
    FoundMethod (*read)(Section&, Declared&);
    void (*warn)(const identity::IdentityMethod& method, const Config& config,
                 const Say& say) = nullptr;
};

// The row of `jwt`.
const Rows& jwt_keys();
FoundMethod read_jwt(Section& section, Declared& declared);
void warn_about_jwt(const identity::IdentityMethod& method, const Config& config,
                    const MethodRow::Say& say);

// Warns about what is legal but hardly meant.
void warn_about_identity(const Config& config, const Declared& declared, Context& context);
// Whether some method takes the tier from the credential or a field, so that any tier may come.
bool takes_any_tier(const Config& config);
// The names of the methods that have the trait: "`NAME`, `NAME` or `NAME`".
std::string methods_with(bool identity::MethodTraits::*trait);

}  // namespace tidegate::config

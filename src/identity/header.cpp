// `header`: a trusted proxy names the user in a field.
#include <algorithm>
#include <string>
#include <string_view>

#include "http/field.hpp"
#include "identity/authenticator.hpp"
#include "identity/client_ip.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {

CredentialPlace HeaderMethod::place() const {
    return {CredentialPlace::In::field, field};
}

std::string HeaderMethod::to_string() const {
    return "header " + field;
}

// A field from a peer that is not trusted is ignored; a field that is there twice names no user.
void HeaderMethod::look(const Presented& request, Authentication& found) const {
    if (!request.peer.trusted) return;
    const http::Fields& fields = request.fields;
    // A field that Connection names does not reach the upstream, which would see another user.
    const auto stated = [&](std::string_view name) {
        const bool is_named = std::any_of(fields.begin(), fields.end(), [&](const auto& one) {
            return one.id == http::FieldName::named_by_connection &&
                   http::equal_ignoring_case(one.name, name);
        });
        return is_named ? std::string_view{} : http::single_value(fields, name);
    };
    const std::string_view user = stated(field);
    if (user.empty()) return;
    const std::string_view tier = tier_field.empty() ? std::string_view{} : stated(tier_field);
    if (!is_safe_user(user)) {
        found.refuse(CredentialFault::unsafe_user);
    } else {
        found.name(user, is_tier_name(tier) ? tier : std::string_view{});
    }
}

bool HeaderMethod::is_same_authority(const IdentityMethod& other) const {
    // A trusted peer may name the user in any field.
    return &other.traits() == &kTraits;
}

}  // namespace tidegate::identity

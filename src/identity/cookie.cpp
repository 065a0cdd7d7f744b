// `cookie`: a cookie that Tidegate does not check; the user is its hash.
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "identity/authenticator.hpp"
#include "identity/credentials.hpp"
#include "identity/digest.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {

CredentialPlace CookieMethod::place() const {
    return {CredentialPlace::In::cookie, name};
}

std::string CookieMethod::to_string() const {
    return "cookie " + name;
}

void CookieMethod::look(const Presented& request, Authentication& found) const {
    const Credential cookie = find_cookie(request.fields, name);
    if (cookie.state == Credential::State::malformed) {
        found.refuse(CredentialFault::unclear_cookie);
    }
    if (cookie.state != Credential::State::present) return;
    // The cookie itself is a secret. Its digest is the same in every process, so that all proxies
    // in front of one store count it as one.
    std::string room;
    const std::string_view value = counted_cookie_value(cookie.text, room);
    if (value.empty()) return;
    const auto hex = hex_of(sha256(value));
    found.name({hex.data(), hex.size()}, {});
}

void CookieMethod::append_challenge(std::string_view, std::string& out) const {
    identity::append_challenge("Cookie", "cookie", name, out);
}

}  // namespace tidegate::identity

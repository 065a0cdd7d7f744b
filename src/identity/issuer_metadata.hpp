// What Tidegate reads of the metadata of an issuer of tokens (`jwt.discovery`). Pure.
//
// OpenID Connect Discovery 1.0 section 4, not RFC 8414: the document of OpenID Connect is at the
// issuer's URL with `/.well-known/openid-configuration` after it; that of RFC 8414 has
// `/.well-known/oauth-authorization-server` between host and path. The providers that publish the
// second one publish the first one, too, and many publish the first one alone.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace tidegate::identity {

// Where the metadata of `issuer`, a URL without query and fragment, are. One slash at the end of
// the issuer goes (section 4.1).
std::string metadata_url(std::string_view issuer);

// The member `jwks_uri` of the metadata `json`, not checked yet. Or why there is none, as a clause:
// no strict JSON object, an `issuer` that is not exactly `issuer` (section 4.3), no `jwks_uri`.
Result<std::string, std::string> key_set_url(std::string_view json, std::string_view issuer);

}  // namespace tidegate::identity

#include "identity/issuer_metadata.hpp"

#include <optional>

#include <nlohmann/json.hpp>

#include "base/quote.hpp"
#include "base/strict_json.hpp"

namespace tidegate::identity {

namespace {

// A Result of two strings does not know which one it is given.
Result<std::string, std::string> fault(std::string why) {
    return {boost::system::in_place_error, std::move(why)};
}

std::string_view without_slash(std::string_view url) {
    if (url.ends_with('/')) url.remove_suffix(1);
    return url;
}

}  // namespace

std::string metadata_url(std::string_view issuer) {
    return std::string(without_slash(issuer)) + "/.well-known/openid-configuration";
}

Result<std::string, std::string> key_set_url(std::string_view json, std::string_view issuer) {
    const auto document = parse_json_object(json);
    if (!document) return fault(document.error());
    const auto named = string_member(*document, "issuer");
    if (!named) return fault("it has no `issuer`");
    if (*named != issuer) {
        const bool is_slash = without_slash(*named) == without_slash(issuer);
        return fault("its `issuer` is " + quote(*named) +
                     (is_slash ? ": write `discovery` exactly so, with the same end"
                               : ", and `discovery` names another one"));
    }
    const auto url = string_member(*document, "jwks_uri");
    if (!url || url->empty()) return fault("it has no `jwks_uri`");
    return {boost::system::in_place_value, *url};
}

}  // namespace tidegate::identity

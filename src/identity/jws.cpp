#include "identity/jws.hpp"

#include <cjose/header.h>
#include <cjose/jws.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>
#include <openssl/err.h>

#include "base/strict_json.hpp"
#include "http/field.hpp"
#include "identity/base64url.hpp"

namespace tidegate::identity {
namespace {

struct JwsRelease {
    void operator()(cjose_jws_t* jws) const { cjose_jws_release(jws); }
};
using ImportedJws = std::unique_ptr<cjose_jws_t, JwsRelease>;

struct Parts {
    std::string_view head;
    std::string_view payload;
    std::string_view signature;
};

std::optional<Parts> split(std::string_view token) {
    const auto first = token.find('.');
    if (first == token.npos) return std::nullopt;
    const auto second = token.find('.', first + 1);
    // A third dot is no digit of base64url.
    if (second == token.npos) return std::nullopt;
    const Parts parts{token.substr(0, first), token.substr(first + 1, second - first - 1),
                      token.substr(second + 1)};
    if (parts.head.empty() || parts.payload.empty() || parts.signature.empty()) return std::nullopt;
    return parts;
}

// RFC 7515 section 4.1.9: a media type, compared without case, `application/` left out or not.
// RFC 9068 section 2.1 names access tokens so.
bool is_token_type(std::string_view type) {
    constexpr std::array<std::string_view, 4> kTypes{"jwt", "at+jwt", "application/jwt",
                                                     "application/at+jwt"};
    return std::any_of(kTypes.begin(), kTypes.end(), [&](std::string_view known) {
        return http::equal_ignoring_case(type, known);
    });
}

CredentialFault read_head(const JsonValue& head, Jws& jws) {
    const auto algorithm = parse_jws_algorithm(string_member(head, "alg").value_or(""));
    if (!algorithm) return CredentialFault::algorithm;
    jws.algorithm = *algorithm;
    if (head.contains("crit") || head.contains("zip")) return CredentialFault::critical_extension;
    if (head.contains("typ")) {
        const auto type = string_member(head, "typ");
        if (!type) return CredentialFault::malformed;
        if (!is_token_type(*type)) return CredentialFault::token_type;
    }
    jws.kid.reset();
    if (head.contains("kid")) {
        const auto kid = string_member(head, "kid");
        if (!kid || kid->size() > kKeyIdBytesMax) return CredentialFault::malformed;
        jws.kid = std::string(*kid);
    }
    return CredentialFault::none;
}

// cjose reads the head again, with a parser of its own, and verifies by the `alg` that it finds:
// nothing unless that is ours.
ImportedJws import(const Jws& jws) {
    ImportedJws imported(cjose_jws_import(jws.text.data(), jws.text.size(), nullptr));
    if (!imported) return nullptr;
    const char* algorithm =
        cjose_header_get(cjose_jws_get_protected(imported.get()), CJOSE_HDR_ALG, nullptr);
    if (algorithm == nullptr || algorithm != to_string(jws.algorithm)) return nullptr;
    return imported;
}

// The part of the token that is signed (RFC 7515 section 5.1). cjose knows no EdDSA (RFC 8037).
std::string_view signed_part(const Jws& jws) {
    return jws.text.substr(0, jws.text.rfind('.'));
}

}  // namespace

CredentialFault read_jws(std::string_view token, Jws& jws) {
    if (token.size() > kTokenBytesMax) return CredentialFault::malformed;
    const auto parts = split(token);
    if (!parts) return CredentialFault::malformed;
    const auto head = decode_base64url(parts->head);
    auto payload = decode_base64url(parts->payload);
    auto signature = decode_base64url(parts->signature);
    if (!head || !payload || !signature) return CredentialFault::malformed;
    const auto object = parse_json_object(*head);
    if (!object) return CredentialFault::not_json;
    jws.text = token;
    jws.payload = *std::move(payload);
    jws.signature = *std::move(signature);
    return read_head(*object, jws);
}

bool is_signed_by(const Jws& jws, std::span<const Jwk* const> keys) {
    ImportedJws imported;
    // What a wrong signature leaves with OpenSSL would be found by TLS on this thread.
    ERR_set_mark();
    const bool good = std::any_of(keys.begin(), keys.end(), [&](const Jwk* key) {
        if (!key->may_have_signed(jws.signature, jws.algorithm)) return false;
        if (key->ed25519)
            return is_signed_with_ed25519(*key->ed25519, signed_part(jws), jws.signature);
        if (!imported) imported = import(jws);
        return imported && cjose_jws_verify(imported.get(), key->handle.get(), nullptr);
    });
    ERR_pop_to_mark();
    return good;
}

}  // namespace tidegate::identity

// `jwt` of `identity.user`: where a token is, and what must hold for it.
#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/user_method.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"

namespace tidegate::config {

namespace {

using identity::CredentialPlace;
using identity::JwkSet;
using identity::JwsAlgorithm;
using identity::KeySource;

constexpr DurationRange kLeeway{milliseconds{0}, std::chrono::minutes{5}};

constexpr std::string_view kEmpty = "the list is empty: Tidegate would refuse every token";

// A claim that a token states, or the name of one of its claims.
std::optional<std::string> read_claim_text(const Value& value, std::string_view wanted) {
    constexpr std::size_t kClaimBytesMax = 1'024;
    auto text = value.text(wanted);
    if (!text) return std::nullopt;
    if (text->size() > kClaimBytesMax) {
        value.fault("longer than " + std::to_string(kClaimBytesMax) + " bytes");
        return std::nullopt;
    }
    return text;
}

std::vector<JwsAlgorithm> read_algorithms(const Value& value) {
    std::vector<JwsAlgorithm> algorithms;
    constexpr ListRule kAlgorithms{"a list of algorithms: `[RS256, ES256]`", "algorithms", 32,
                                   kEmpty};
    for (const Value& item : value.one_or_more(kAlgorithms)) {
        const auto name = item.text("an algorithm such as `RS256`");
        if (!name) continue;
        const auto algorithm = identity::parse_jws_algorithm(*name);
        if (!algorithm) {
            item.fault(quote(*name) +
                       " is not a supported algorithm: write HS, RS, PS or ES with 256, 384 or "
                       "512, such as `RS256`, or `EdDSA`");
            continue;
        }
        add_once(item, quote(*name), *algorithm, algorithms);
    }
    return algorithms;
}

std::vector<std::string> read_audience(const Value& value) {
    constexpr ListRule kAudiences{"an audience or a list of them", "audiences", 32, kEmpty};
    std::vector<std::string> audience;
    for (const Value& item : value.one_or_more(kAudiences)) {
        const auto name = read_claim_text(item, "an audience such as `api`");
        if (name) add_once(item, quote(*name), *name, audience);
    }
    return audience;
}

// Authorization, another field or a cookie. Nothing when it is broken.
std::optional<CredentialPlace> read_place_of_token(Section& section, identity::JwtMethod& jwt) {
    const auto header = section.find("header");
    const auto cookie = section.find("cookie");
    if (header && cookie) {
        cookie->fault(
            "write either `header` or `cookie`: Tidegate reads the token from one of them");
        return std::nullopt;
    }
    if (cookie) {
        auto name = read_cookie_name(*cookie);
        if (!name) return std::nullopt;
        jwt.cookie = std::move(*name);
        return jwt.place();
    }
    if (header) {
        auto field = read_credential_field(*header, true);
        if (!field) return std::nullopt;
        jwt.field = std::move(*field);
    }
    return jwt.place();
}

void read_claims(Section& section, identity::JwtMethod& jwt) {
    const auto text = [&](std::string_view key, std::string_view wanted, std::string& out) {
        const auto value = section.find(key);
        if (!value) return;
        if (auto found = read_claim_text(*value, wanted)) out = std::move(*found);
    };
    if (const auto audience = section.find("audience")) jwt.audience = read_audience(*audience);
    text("claim", "the name of a claim such as `sub`", jwt.claim);
    text("tier_claim", "the name of a claim such as `plan`", jwt.tier_claim);
    const auto leeway = section.find("leeway");
    if (!leeway) return;
    const auto time = leeway->duration(kLeeway);
    if (!time) return;
    jwt.leeway = std::chrono::duration_cast<std::chrono::seconds>(*time);
    if (jwt.leeway != *time) leeway->fault("tokens have whole seconds only: write `30s`");
}

// Discovery implies the issuer.
void read_issuer(Section& section, const std::string& discovered, identity::JwtMethod& jwt) {
    if (const auto value = section.find("issuer")) {
        auto issuer = read_claim_text(*value, "an issuer such as `https://idp.example`");
        if (issuer && !discovered.empty() && *issuer != discovered) {
            value->fault("`discovery` names the issuer " + quote(discovered) +
                         ": remove `issuer`, or write the same in both");
        }
        if (issuer) jwt.issuer = std::move(*issuer);
    }
    if (jwt.issuer.empty()) jwt.issuer = discovered;
}

void check_place_of_keys(Section& section) {
    const auto jwks = section.find("jwks");
    const auto discovery = section.find("discovery");
    if (jwks && discovery) {
        discovery->fault(
            "write either `jwks` or `discovery`: the metadata of the issuer name the key set");
    } else if (!jwks && !discovery) {
        section.need("jwks",
                     "`jwks: keys.json`, or an https:// URL, or `discovery: https://issuer`");
    }
}

bool is_secret(JwsAlgorithm algorithm) {
    return identity::key_kind_of(algorithm) == identity::JwkKind::secret;
}

std::shared_ptr<KeySource> source_at(const Value& value, identity::KeyLocation location,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto parsed =
        location.is_issuer ? parse_issuer_url(location.url) : parse_key_url(location.url);
    if (!parsed) {
        value.fault(parsed.error());
        return nullptr;
    }
    if (std::any_of(algorithms.begin(), algorithms.end(), is_secret)) {
        value.fault("name a file: a URL would show the shared secret (HS) to others");
        return nullptr;
    }
    // None of the parts has a line end, but the last one.
    std::string name = (location.is_issuer ? "issuer\n" : "url\n") + location.url;
    name.append("\n").append(location.ca);
    std::shared_ptr<void>& source = declared.credentials["jwt\n" + name];
    if (source == nullptr) source = std::make_shared<KeySource>(std::move(location));
    return std::static_pointer_cast<KeySource>(source);
}

// Null when it is broken, which has been reported.
std::shared_ptr<KeySource> source_of_file(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "keys.json");
    if (!file) return nullptr;
    const auto [known, is_new] = declared.credentials.try_emplace("jwt\nfile\n" + file->path);
    if (!is_new) return std::static_pointer_cast<KeySource>(known->second);
    warn_if_world_writable(value, *file);
    const auto keys = JwkSet::parse(file->text, JwkSet::Origin::file);
    if (!keys) {
        value.context().other_errors.push_back({file->path, 0, 0, keys.error()});
        return nullptr;
    }
    for (const std::string& warning : (*keys)->warnings()) value.warn(warning);
    auto source = std::make_shared<KeySource>(*keys);
    known->second = source;
    return source;
}

bool has_key_for(const JwkSet& keys, JwsAlgorithm algorithm) {
    return !keys.candidates(std::nullopt, algorithm).keys().empty();
}

std::shared_ptr<KeySource> read_discovery(const Value& value, const std::string& ca,
                                          std::span<const JwsAlgorithm> algorithms,
                                          Declared& declared) {
    const auto issuer = value.text("the URL of an issuer such as `https://idp.example`");
    if (!issuer) return nullptr;
    return source_at(value, {*issuer, true, ca}, algorithms, declared);
}

std::shared_ptr<KeySource> read_jwks(const Value& value, const std::string& ca,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto text = value.text("a file such as `keys.json`, or an https:// URL");
    if (!text) return nullptr;
    if (text->find("://") != text->npos) {
        return source_at(value, {*text, false, ca}, algorithms, declared);
    }
    std::shared_ptr<KeySource> source = source_of_file(value, declared);
    if (source == nullptr || algorithms.empty()) return source;
    const auto keys = source->keys();
    std::string unused;
    for (const JwsAlgorithm algorithm : algorithms) {
        if (has_key_for(*keys, algorithm)) continue;
        unused += unused.empty() ? "" : ", ";
        unused += to_string(algorithm);
    }
    if (std::none_of(algorithms.begin(), algorithms.end(),
                     [&](JwsAlgorithm algorithm) { return has_key_for(*keys, algorithm); })) {
        value.fault("the file has no key for " + unused + ": Tidegate would refuse every token");
        return nullptr;
    }
    if (!unused.empty()) value.warn("the file has no key for " + unused);
    return source;
}

// The keys of a file, a URL or an issuer. Requires that `algorithms` have been read.
void read_keys(Section& section, identity::JwtMethod& jwt, Declared& declared) {
    const auto jwks = section.find("jwks");
    const auto discovery = section.find("discovery");
    const auto ca = section.find("ca");
    const std::string authorities = ca ? read_authorities(*ca) : std::string();
    const std::size_t faults_before = section.value().context().faults.size();
    std::string discovered;
    if (discovery) {
        auto keys = read_discovery(*discovery, authorities, jwt.algorithms, declared);
        if (keys) discovered = keys->url();
        if (!jwks) jwt.keys = std::move(keys);
    } else if (jwks) {
        jwt.keys = read_jwks(*jwks, authorities, jwt.algorithms, declared);
    }
    read_issuer(section, discovered, jwt);
    if (!ca || !jwt.keys || section.value().context().faults.size() != faults_before) return;
    const auto url = parse_key_url(jwt.keys->url());
    if (!url || !url->is_tls) {
        ca->fault(
            "is for keys that Tidegate fetches over TLS: remove it, or write an https:// URL");
    }
}

// In the order in which the identity room lists them.
std::vector<std::string_view> jws_algorithm_names() {
    return {"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256",
            "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"};
}

}  // namespace

const Rows& jwt_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("header", kind::type("field_name"),
                 {"`authorization`: after `Bearer`; any other field: alone", "`authorization`"})
            .key("cookie", kind::type("text"),
                 {"the token is in that cookie instead", "none", "not beside `header`"})
            .key("jwks", kind::type("text"),
                 {"the key set (RFC 7517): a file, an `https://` URL, or an `http://` URL of this "
                  "machine (127.0.0.0/8, ::1, `localhost`)",
                  "one of `jwks` and `discovery` is required", "1 MiB, 100 keys"})
            .key("discovery", kind::type("text"),
                 {"the issuer's URL; its metadata (OpenID Connect Discovery 1.0) says where the "
                  "keys are"})
            .key("algorithms", kind::one_or_more(kind::word(jws_algorithm_names()), {1, 32}),
                 {"of `HS`, `RS`, `PS`, `ES` with `256`, `384`, `512`, and `EdDSA`; Tidegate takes "
                  "no other",
                  "required", "1 to 32"})
            .required("`algorithms: [RS256]` with those that the issuer uses")
            .key("ca", kind::type("file"),
                 {"PEM: the authorities to trust for both fetches", "the system's"})
            .key("issuer", kind::type("text"),
                 {"what `iss` must be, to the letter; `check` warns without",
                  "that of `discovery`, else any"})
            .key("audience", kind::one_or_more(kind::type("text"), {1, 32}),
                 {"text or a list: `aud` must hold one of them; `check` warns without", "any",
                  "1 to 32"})
            .key("claim", kind::type("text"),
                 {"which claim names the user: text or a number. One name, no path into nested "
                  "claims",
                  "`sub`", "1,024 bytes"})
            .key("tier_claim", kind::type("text"),
                 {"which claim names the tier: text or a list. The first tier that some policy "
                  "knows counts",
                  "none", "1,024 bytes"})
            .key("leeway", kind::duration(kLeeway),
                 {"how far clocks may be apart", "`30s`", "0 to 5 min, whole seconds"})
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

FoundMethod read_jwt(Section& section, Declared& declared) {
    identity::JwtMethod jwt;
    FoundMethod found;
    found.place = read_place_of_token(section, jwt);
    check_place_of_keys(section);
    if (const auto algorithms = section.need("algorithms")) {
        jwt.algorithms = read_algorithms(*algorithms);
    }
    read_keys(section, jwt, declared);
    read_claims(section, jwt);
    found.complete = jwt.keys != nullptr && !jwt.algorithms.empty();
    found.how = std::make_shared<const identity::JwtMethod>(std::move(jwt));
    return found;
}

void warn_about_jwt(const identity::IdentityMethod& method, const Config&,
                    const MethodRow::Say& say) {
    const auto& jwt = static_cast<const identity::JwtMethod&>(method);
    const auto secrets = std::count_if(jwt.algorithms.begin(), jwt.algorithms.end(), is_secret);
    if (secrets != 0 && secrets != std::ssize(jwt.algorithms)) {
        say("this method takes shared secrets (HS) and public keys: every service that can check "
            "an HS token can sign one; use two methods");
    }
    if (jwt.issuer.empty()) {
        say("without `issuer`, Tidegate accepts tokens of every issuer that these keys signed");
    }
    if (jwt.audience.empty()) {
        say("without `audience`, Tidegate accepts tokens that were meant for other services");
    }
}

}  // namespace tidegate::config

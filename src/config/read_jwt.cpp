// `jwt` of `identity.user`: where a token is, and what must hold for it.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "identity/jwk.hpp"
#include "identity/jwt.hpp"
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

// The name of a claim, or a path to a nested one.
std::optional<std::string> read_claim_name(const Value& value, std::string_view wanted) {
    auto name = read_claim_text(value, wanted);
    if (!name) return std::nullopt;
    if (const std::string fault = identity::fault_of_claim_name(*name); !fault.empty()) {
        value.fault(quote(*name) + ": " + fault);
        return std::nullopt;
    }
    warn_about_claim_name(value, *name);
    return name;
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
    const auto name = [&](std::string_view key, std::string_view wanted, std::string& out) {
        const auto value = section.find(key);
        if (!value) return;
        if (auto found = read_claim_name(*value, wanted)) out = std::move(*found);
    };
    if (const auto audience = section.find("audience")) jwt.audience = read_audience(*audience);
    name("claim", "the name of a claim such as `sub`", jwt.claim);
    name("tier_claim", "the name of a claim such as `plan`", jwt.tier_claim);
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

// Reports another number than one of the keys that say where the keys of tokens are.
void check_place_of_keys(Section& section) {
    const auto jwks = section.find("jwks");
    const auto discovery = section.find("discovery");
    const auto public_key = section.find("public_key");
    const auto secret = section.find("secret");
    if (jwks && discovery) {
        discovery->fault(
            "write either `jwks` or `discovery`: the metadata of the issuer name the key set");
    } else if (public_key && secret) {
        secret->fault(
            "write either `public_key` or `secret`: a token is signed with a private key or with "
            "a shared secret; two methods take both");
    } else if (const auto& own = public_key ? public_key : secret; own && (jwks || discovery)) {
        own->fault("write it without " + quote(jwks ? "jwks" : "discovery") +
                   ", which says where the keys are, too");
    } else if (!jwks && !discovery && !public_key && !secret) {
        section.need("jwks",
                     "`jwks: keys.json`, or an https:// URL, or `discovery: https://issuer`, "
                     "`public_key: rsa.pem` or `secret: file:jwt.secret`");
    }
}

bool is_secret(JwsAlgorithm algorithm) {
    return identity::key_kind_of(algorithm) == identity::JwkKind::secret;
}

std::shared_ptr<KeySource> source_at(const Value& value, identity::KeyLocation location,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto parsed = location.is_issuer ? parse_issuer_url(location.url, location.is_insecure)
                                           : parse_key_url(location.url, location.is_insecure);
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
    name.append(location.is_insecure ? "\ninsecure\n" : "\n").append(location.ca);
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
    if (file->text.find(identity::kPemBegin) != std::string::npos) {
        value.fault("the file " + quote(file->path) +
                    " is PEM, and this takes a key set in JSON: write `public_key: " + file->path +
                    "`");
        return nullptr;
    }
    const auto keys = JwkSet::parse(file->text, JwkSet::Origin::file);
    if (!keys) {
        value.context().other_errors.push_back({file->path, 0, 0, keys.error()});
        return nullptr;
    }
    for (const std::string& warning : (*keys)->warnings()) value.warn(warning);
    auto source = std::make_shared<KeySource>(*keys, "jwks " + file->path);
    known->second = source;
    return source;
}

bool has_key_for(const JwkSet& keys, JwsAlgorithm algorithm) {
    return !keys.candidates(std::nullopt, algorithm).keys().empty();
}

// Which keys the set has: "RSA 2048 bits, EC P-256".
std::string in_words(const JwkSet& keys) {
    std::string words;
    for (const identity::Jwk& key : keys.keys()) {
        words.append(words.empty() ? "" : ", ").append(key.to_string());
    }
    return words;
}

// How keys are fetched.
struct Fetching {
    std::string ca;
    bool is_insecure = false;
};

std::shared_ptr<KeySource> read_discovery(const Value& value, const Fetching& how,
                                          std::span<const JwsAlgorithm> algorithms,
                                          Declared& declared) {
    const auto issuer = value.text("the URL of an issuer such as `https://idp.example`");
    if (!issuer) return nullptr;
    return source_at(value, {*issuer, true, how.ca, how.is_insecure}, algorithms, declared);
}

// ` (its longest secret has 12 bytes, and HS256 needs 32)`; empty: that is not the reason.
std::string why_no_secret(const JwkSet& keys, std::span<const JwsAlgorithm> algorithms) {
    std::size_t longest = 0;
    for (const identity::Jwk& key : keys.keys()) {
        if (key.kind == identity::JwkKind::secret) longest = std::max(longest, key.bytes);
    }
    const auto lacking =
        std::find_if(algorithms.begin(), algorithms.end(), [&](JwsAlgorithm algorithm) {
            return is_secret(algorithm) && identity::hash_bytes_of(algorithm) > longest;
        });
    if (longest == 0 || lacking == algorithms.end()) return {};
    return " (its longest secret has " + std::to_string(longest) + " bytes, and " +
           std::string(to_string(*lacking)) + " needs " +
           std::to_string(identity::hash_bytes_of(*lacking)) + ")";
}

std::shared_ptr<KeySource> read_jwks(const Value& value, const Fetching& how,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto text = value.text("a file such as `keys.json`, or an https:// URL");
    if (!text) return nullptr;
    if (text->find("://") != text->npos) {
        return source_at(value, {*text, false, how.ca, how.is_insecure}, algorithms, declared);
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
        value.fault("the file has no key for " + unused + why_no_secret(*keys, algorithms) +
                    ": Tidegate would refuse every token");
        return nullptr;
    }
    if (!unused.empty()) {
        value.warn("the file has no key for " + unused + why_no_secret(*keys, algorithms));
    }
    return source;
}

// `public_key`, `secret`: their keys have no names, and say which algorithms they are for.

std::string names_of_algorithms(std::span<const JwsAlgorithm> algorithms) {
    std::string names;
    for (const JwsAlgorithm algorithm : algorithms) {
        names.append(names.empty() ? "" : ", ").append(to_string(algorithm));
    }
    return names;
}

// What `algorithms` is where it is not written: of each kind of key the usual one.
std::vector<JwsAlgorithm> usual_algorithms(const JwkSet& keys) {
    using enum JwsAlgorithm;
    std::vector<JwsAlgorithm> usual;
    for (const JwsAlgorithm algorithm : {hs256, rs256, es256, es384, es512, eddsa}) {
        if (has_key_for(keys, algorithm)) usual.push_back(algorithm);
    }
    return usual;
}

// Reports what of the keys, or of `algorithms`, could never check a token.
bool check_public_keys(const Value& value, const JwkSet& keys,
                       std::span<const JwsAlgorithm> algorithms) {
    std::map<identity::JwkKind, std::size_t> of_kind;
    for (const identity::Jwk& key : keys.keys()) ++of_kind[key.kind];
    for (const identity::Jwk& key : keys.keys()) {
        if (of_kind[key.kind] <= JwkSet::Candidates::kMax) continue;
        value.fault("has " + std::to_string(of_kind[key.kind]) + " keys like " + key.to_string() +
                    ", and Tidegate tries at most " + std::to_string(JwkSet::Candidates::kMax) +
                    " for a token: remove some, or write a key set (`jwks`) whose keys have a "
                    "`kid`");
        return false;
    }
    std::vector<JwsAlgorithm> lacking;
    std::copy_if(algorithms.begin(), algorithms.end(), std::back_inserter(lacking),
                 [&](JwsAlgorithm algorithm) { return !has_key_for(keys, algorithm); });
    if (lacking.empty()) return true;
    const bool wants_secret = is_secret(lacking.front());
    value.fault("has no key for " + names_of_algorithms(lacking) + ": its keys are " +
                in_words(keys) +
                (wants_secret ? "; HS takes a `secret`, which is not a public key"
                              : "; remove what does not fit from `algorithms`"));
    return false;
}

// Null when a file or a key is broken, which has been reported.
std::shared_ptr<KeySource> read_public_keys(const Value& value, Declared& declared) {
    constexpr ListRule kFiles{"a file such as `rsa.pem`, or a list of them", "files", 16, kEmpty};
    std::vector<std::string> jwks;
    std::string paths;
    const std::size_t faults_before = value.context().faults.size();
    for (const Value& item : value.one_or_more(kFiles)) {
        const auto file = read_referenced_file(item, "rsa.pem");
        if (!file) continue;
        warn_if_world_writable(item, *file);
        auto found = identity::read_pem_keys(file->text, file->path);
        if (!found || !JwkSet::of_public_keys(*found)) {
            item.fault("the file " + quote(file->path) + " cannot be used: " +
                       (found ? JwkSet::of_public_keys(*found).error() : found.error()));
            continue;
        }
        jwks.insert(jwks.end(), found->begin(), found->end());
        paths.append(paths.empty() ? "" : ", ").append(file->path);
    }
    if (jwks.empty() || value.context().faults.size() != faults_before) return nullptr;
    std::shared_ptr<void>& known = declared.credentials["jwt\npem\n" + paths];
    if (known != nullptr) return std::static_pointer_cast<KeySource>(known);
    const auto keys = JwkSet::of_public_keys(jwks);
    if (!keys) {
        value.fault(keys.error());
        return nullptr;
    }
    auto source = std::make_shared<KeySource>(*keys, "public_key " + paths);
    known = source;
    return source;
}

// `needed`: the algorithm that needs most.
std::shared_ptr<KeySource> read_shared_secret(const Value& value, JwsAlgorithm needed,
                                              Declared& declared) {
    const auto secret = value.secret();
    if (!secret) return nullptr;
    const std::size_t bytes_min = identity::hash_bytes_of(needed);
    // HMAC fills a short key up with zeros (RFC 2104 section 2), so zeros at its end add nothing.
    const std::size_t bytes = secret->find_last_not_of('\0') + 1;
    if (secret->find(identity::kPemBegin) != secret->npos) {
        value.fault(
            "is a key as PEM, which is no shared secret: everyone who has the public key could "
            "sign tokens. Write `public_key` and the file of the public key");
    } else if (bytes < bytes_min) {
        value.fault(
            "has " + std::to_string(bytes) +
            (bytes < secret->size() ? " bytes before zeros at its end, and " : " bytes, and ") +
            std::string(to_string(needed)) + " needs " + std::to_string(bytes_min) +
            " or more (RFC 7518 section 3.2): `openssl rand -base64 " + std::to_string(bytes_min) +
            "` makes one");
    } else if (secret->size() > identity::kSigningSecretBytesMax) {
        value.fault("has more than " + std::to_string(identity::kSigningSecretBytesMax) + " bytes");
    } else {
        std::shared_ptr<void>& known = declared.credentials["jwt\nsecret\n" + *secret];
        if (known == nullptr) {
            known = std::make_shared<KeySource>(JwkSet::of_secret(*secret), "secret");
        }
        return std::static_pointer_cast<KeySource>(known);
    }
    return nullptr;
}

void read_public_key_method(const Value& value, identity::JwtMethod& jwt, Declared& declared) {
    jwt.keys = read_public_keys(value, declared);
    if (!jwt.keys) return;
    const auto keys = jwt.keys->keys();
    if (jwt.algorithms.empty()) jwt.algorithms = usual_algorithms(*keys);
    if (!check_public_keys(value, *keys, jwt.algorithms)) jwt.keys = nullptr;
}

void read_secret_method(const Value& value, identity::JwtMethod& jwt, Declared& declared) {
    if (jwt.algorithms.empty()) jwt.algorithms = {JwsAlgorithm::hs256};
    std::vector<JwsAlgorithm> others;
    std::copy_if(jwt.algorithms.begin(), jwt.algorithms.end(), std::back_inserter(others),
                 [](JwsAlgorithm algorithm) { return !is_secret(algorithm); });
    if (!others.empty()) {
        value.fault("a shared secret is for HS256, HS384 and HS512: remove " +
                    names_of_algorithms(others) + " from `algorithms`, or write `public_key`");
        return;
    }
    const auto needed = std::max_element(
        jwt.algorithms.begin(), jwt.algorithms.end(), [](JwsAlgorithm a, JwsAlgorithm b) {
            return identity::hash_bytes_of(a) < identity::hash_bytes_of(b);
        });
    jwt.keys = read_shared_secret(value, *needed, declared);
}

// Says where `insecure` has no effect, and what it means where it has.
void judge_insecure(const Value& insecure, const KeySource* keys) {
    if (!insecure.is_on()) return;
    const auto url = keys != nullptr && keys->is_fetched()
                         ? parse_key_url(keys->url(), true)
                         : Result<HttpsUrl, std::string>(std::string());
    if (!url || url->is_tls || names_this_machine(url->address.host)) {
        insecure.warn(
            "has no effect: it is for keys that Tidegate fetches over http:// from another "
            "machine");
        return;
    }
    insecure.warn("Tidegate fetches keys from " + quote(url->shown()) +
                  " without TLS: anyone on the network path can replace them, and so become any "
                  "user; write `https://` as soon as the server has a certificate");
}

// The keys of a file, a URL, an issuer, PEM files or a secret. Requires that `algorithms` have been
// read.
void read_keys(Section& section, identity::JwtMethod& jwt, Declared& declared) {
    const auto jwks = section.find("jwks");
    const auto discovery = section.find("discovery");
    const auto public_key = section.find("public_key");
    const auto secret = section.find("secret");
    const auto ca = section.find("ca");
    Fetching how;
    if (ca) how.ca = read_authorities(*ca);
    section.toggle("insecure", how.is_insecure);
    const std::size_t faults_before = section.value().context().faults.size();
    std::string discovered;
    if (discovery) {
        auto keys = read_discovery(*discovery, how, jwt.algorithms, declared);
        if (keys) discovered = keys->url();
        if (!jwks) jwt.keys = std::move(keys);
    } else if (jwks) {
        jwt.keys = read_jwks(*jwks, how, jwt.algorithms, declared);
    } else if (public_key) {
        read_public_key_method(*public_key, jwt, declared);
    } else if (secret) {
        read_secret_method(*secret, jwt, declared);
    }
    read_issuer(section, discovered, jwt);
    if (!jwt.keys || section.value().context().faults.size() != faults_before) return;
    if (const auto insecure = section.find("insecure")) judge_insecure(*insecure, jwt.keys.get());
    if (!ca) return;
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

void warn_about_claim_name(const Value& value, std::string_view name) {
    const std::string pointer = identity::likely_pointer(name);
    if (pointer.empty()) return;
    value.warn("Tidegate takes " + quote(name) +
               " as the name of one claim, dots included; the path to a nested claim is " +
               quote(pointer));
}

const Rows& jwt_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("header", kind::type("field_name"),
                 {"`authorization`: after `Bearer`; any other field: alone", "`authorization`"})
            .key("cookie", kind::type("text"),
                 {"the token is in that cookie instead", "none", "not beside `header`"})
            .key("jwks", kind::url(kind::type("text")),
                 {"the key set (RFC 7517): a file, an `https://` URL, or an `http://` URL of this "
                  "machine (127.0.0.0/8, ::1, `localhost`)",
                  "one of `jwks`, `discovery`, `public_key` and `secret` is required",
                  "1 MiB, 100 keys"})
            .key("discovery", kind::url(kind::type("text")),
                 {"the issuer's URL; its metadata (OpenID Connect Discovery 1.0) says where the "
                  "keys are"})
            .key("public_key", kind::one_or_more(kind::type("file"), {1, 16}),
                 {"[public keys as PEM](identity.md#keys-as-pem): a file or a list of files, each "
                  "with one key or several; RSA, EC (P-256, P-384, P-521), Ed25519",
                  "none", "1 MiB, 4 keys of a kind"})
            .key("secret", kind::secret(),
                 {"the [shared secret](identity.md#a-shared-secret) of HS256, HS384 or HS512: "
                  "`file:` and a path, or a variable",
                  "none", "32, 48 or 64 bytes at least"})
            .key("algorithms", kind::one_or_more(kind::word(jws_algorithm_names()), {1, 32}),
                 {"of `HS`, `RS`, `PS`, `ES` with `256`, `384`, `512`, and `EdDSA`; Tidegate takes "
                  "no other",
                  "required with `jwks` and `discovery`; else `RS256`, `EdDSA`, `HS256` or that "
                  "of the curve",
                  "1 to 32"})
            .key("ca", kind::type("file"),
                 {"PEM: the authorities to trust for both fetches", "the system's"})
            .key("insecure", kind::toggle(),
                 {"`on`: take an `http://` URL of another machine in `jwks` or `discovery`, inside "
                  "a network that you trust; `check` and the log warn",
                  "`off`"})
            .key("issuer", kind::url(kind::type("text")),
                 {"what `iss` must be, to the letter; `check` warns without",
                  "that of `discovery`, else any"})
            .key("audience", kind::one_or_more(kind::type("text"), {1, 32}),
                 {"text or a list: `aud` must hold one of them; `check` warns without", "any",
                  "1 to 32"})
            .key("claim", kind::type("text"),
                 {"which claim names the user: text or a number. A name with a slash first is a "
                  "[path](identity.md#nested-claims): `/user/id`",
                  "`sub`", "1,024 bytes"})
            .key("tier_claim", kind::type("text"),
                 {"which claim names the tier, or the path to it: text or a list. The first tier "
                  "that some policy knows counts",
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
    // Keys without a file of their own say nothing of algorithms.
    const bool has_own_keys = section.find("public_key") || section.find("secret");
    const auto algorithms =
        has_own_keys
            ? section.find("algorithms")
            : section.need("algorithms", "`algorithms: [RS256]` with those that the issuer uses");
    if (algorithms) jwt.algorithms = read_algorithms(*algorithms);
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

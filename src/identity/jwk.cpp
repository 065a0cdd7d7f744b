#include "identity/jwk.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "base/base64.hpp"
#include "base/described_enum.hpp"
#include "base/utf8.hpp"

namespace tidegate::identity {

namespace {

struct Traits {
    std::string_view name;
    JwkKind kind;
    std::size_t hash_bytes;
};

constexpr EnumTable<JwsAlgorithm, Traits> kTraits(
    {{JwsAlgorithm::hs256, {"HS256", JwkKind::secret, 32}},
     {JwsAlgorithm::hs384, {"HS384", JwkKind::secret, 48}},
     {JwsAlgorithm::hs512, {"HS512", JwkKind::secret, 64}},
     {JwsAlgorithm::rs256, {"RS256", JwkKind::rsa, 32}},
     {JwsAlgorithm::rs384, {"RS384", JwkKind::rsa, 48}},
     {JwsAlgorithm::rs512, {"RS512", JwkKind::rsa, 64}},
     {JwsAlgorithm::ps256, {"PS256", JwkKind::rsa, 32}},
     {JwsAlgorithm::ps384, {"PS384", JwkKind::rsa, 48}},
     {JwsAlgorithm::ps512, {"PS512", JwkKind::rsa, 64}},
     {JwsAlgorithm::es256, {"ES256", JwkKind::p256, 32}},
     {JwsAlgorithm::es384, {"ES384", JwkKind::p384, 48}},
     {JwsAlgorithm::es512, {"ES512", JwkKind::p521, 64}},
     {JwsAlgorithm::eddsa, {"EdDSA", JwkKind::ed25519, 64}}});

}  // namespace

std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name) {
    for (const JwsAlgorithm algorithm : kEnumerators<JwsAlgorithm>) {
        if (kTraits[algorithm].name == name) return algorithm;
    }
    return std::nullopt;
}

std::string_view to_string(JwsAlgorithm algorithm) {
    return kTraits[algorithm].name;
}

JwkKind key_kind_of(JwsAlgorithm algorithm) {
    return kTraits[algorithm].kind;
}

std::size_t hash_bytes_of(JwsAlgorithm algorithm) {
    return kTraits[algorithm].hash_bytes;
}

namespace {

using Number = Owned<BIGNUM, BN_free>;

// p = 2^255 - 19, and d of the curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032 section 5.1).
constexpr const char* kPrime = "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed";
constexpr const char* kCurveD = "52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3";
// y of the points whose order is 1, 2, 4 and 8 (two of them), big-endian.
constexpr std::array<const char*, 5> kSmallOrder{
    "01", "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec", "00",
    "05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826",
    "7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7"};

void require(bool good) {
    if (!good) throw std::bad_alloc();  // numbers fail only for want of memory
}

Number number_of(const char* hex) {
    BIGNUM* number = nullptr;
    require(BN_hex2bn(&number, hex) != 0);
    return Number(number);
}

Number new_number() {
    Number number(BN_new());
    require(number != nullptr);
    return number;
}

bool has_small_order(const BIGNUM& y) {
    return std::any_of(kSmallOrder.begin(), kSmallOrder.end(),
                       [&](const char* known) { return BN_cmp(&y, number_of(known).get()) == 0; });
}

// Whether some x makes (x, y) a point: x^2 = (y^2 - 1) / (d y^2 + 1) has to be a square, and by
// Euler's criterion it is one if (y^2 - 1) * (d y^2 + 1), raised to (p - 1) / 2, is 1. Requires
// y < p; the divisor is never 0, and the numerator only where the order is small.
bool is_on_curve(const BIGNUM& y, const BIGNUM& prime) {
    const Owned<BN_CTX, BN_CTX_free> context(BN_CTX_new());
    require(context != nullptr);
    const Number square = new_number();
    const Number numerator = new_number();
    const Number divisor = new_number();
    const Number exponent = new_number();
    const Number d = number_of(kCurveD);
    require(BN_mod_sqr(square.get(), &y, &prime, context.get()) == 1 &&
            BN_mod_sub(numerator.get(), square.get(), BN_value_one(), &prime, context.get()) == 1 &&
            BN_mod_mul(divisor.get(), square.get(), d.get(), &prime, context.get()) == 1 &&
            BN_mod_add(divisor.get(), divisor.get(), BN_value_one(), &prime, context.get()) == 1 &&
            BN_mod_mul(square.get(), numerator.get(), divisor.get(), &prime, context.get()) == 1 &&
            BN_rshift1(exponent.get(), &prime) == 1 &&
            BN_mod_exp(square.get(), square.get(), exponent.get(), &prime, context.get()) == 1);
    return BN_is_one(square.get());
}

// The key is y in little-endian order, with the sign of x in the highest bit.
bool is_safe_point(std::string_view bytes) {
    std::string y_bytes(bytes);
    y_bytes.back() = static_cast<char>(static_cast<unsigned char>(y_bytes.back()) & 0x7fU);
    const Number y(BN_lebin2bn(reinterpret_cast<const unsigned char*>(y_bytes.data()),
                               static_cast<int>(y_bytes.size()), nullptr));
    require(y != nullptr);
    const Number prime = number_of(kPrime);
    return BN_cmp(y.get(), prime.get()) < 0 && !has_small_order(*y) && is_on_curve(*y, *prime);
}

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

PublicKey read_ed25519_key(std::string_view bytes) {
    if (bytes.size() != kEd25519KeyBytes || !is_safe_point(bytes)) return nullptr;
    PublicKey key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(bytes), bytes.size()));
    require(key != nullptr);
    return key;
}

// OpenSSL refuses a signature whose second half is not below the order of the group, so each
// signature has one form (RFC 8032 section 5.1.7).
bool is_signed_with_ed25519(EVP_PKEY& key, std::string_view message, std::string_view signature) {
    if (signature.size() != kEd25519SignatureBytes) return false;
    const Owned<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
    return context != nullptr &&
           EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, &key) == 1 &&
           EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                            message.size()) == 1;
}

namespace {

// RFC 7518 section 3.3 asks for 2,048; what is above the other would be an attack on our time.
constexpr std::size_t kRsaBitsMin = 2048;
constexpr std::size_t kRsaBitsMax = 8192;
// The largest in use is 65537.
constexpr std::size_t kRsaExponentBytesMax = 8;

struct Curve {
    std::string_view name;
    JwkKind kind;
    cjose_jwk_ec_curve id;
    std::size_t bytes;  // of a coordinate
};
constexpr std::array<Curve, 3> kCurves{{
    {"P-256", JwkKind::p256, CJOSE_JWK_EC_P_256, 32},
    {"P-384", JwkKind::p384, CJOSE_JWK_EC_P_384, 48},
    {"P-521", JwkKind::p521, CJOSE_JWK_EC_P_521, 66},
}};

// Why a key is refused. The text has no part of the key's secrets.
struct NotForUs {
    std::string why;
};
struct Malformed {
    std::string why;
};
using KeyOrFault = std::variant<Jwk, NotForUs, Malformed>;

// Bytes that this wipes from memory when it ends.
class Wiped {
  public:
    explicit Wiped(std::string bytes) : bytes_(std::move(bytes)) {}
    Wiped(const Wiped&) = delete;
    Wiped& operator=(const Wiped&) = delete;
    ~Wiped() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

const std::uint8_t* octets_of(std::string_view text) {
    return reinterpret_cast<const std::uint8_t*>(text.data());
}

// cjose's structures lack the const that its functions keep to.
std::uint8_t* unchanged(std::string& text) {
    return reinterpret_cast<std::uint8_t*>(text.data());
}

// SHA-256 of the parts, each with its length before it.
std::string digest_of(std::initializer_list<std::string_view> parts) {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          &EVP_MD_CTX_free);
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned size = 0;
    bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
    for (const std::string_view part : parts) {
        const std::string length = std::to_string(part.size()) + ':';
        good = good && EVP_DigestUpdate(context.get(), length.data(), length.size()) == 1 &&
               EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1;
    }
    good = good && EVP_DigestFinal_ex(context.get(), unchanged(digest), &size) == 1;
    // A digest of bytes in memory fails only for want of memory.
    if (!good) throw std::bad_alloc();
    digest.resize(size);
    return digest;
}

// n of the curve, big-endian in `bytes`.
std::string order_of(const Curve& curve) {
    const std::unique_ptr<EC_GROUP, decltype(&EC_GROUP_free)> group(
        EC_GROUP_new_by_curve_name(curve.id), &EC_GROUP_free);
    std::string order(curve.bytes, '\0');
    if (!group || BN_bn2binpad(EC_GROUP_get0_order(group.get()), unchanged(order),
                               static_cast<int>(order.size())) < 0)
        throw std::bad_alloc();
    return order;
}

// The member as bytes; nothing if it is missing, empty, or no base64url.
std::optional<std::string> bytes_member(const JsonValue& object, std::string_view name) {
    const auto text = string_member(object, name);
    if (!text || text->empty()) return std::nullopt;
    return decode_base64url(*text);
}

Jwk key_of_secret(std::string_view bytes) {
    Jwk key;
    key.kind = JwkKind::secret;
    // HMAC fills a short key up with zeros (RFC 2104 section 2), so zeros at its end add nothing.
    key.bytes = bytes.find_last_not_of('\0') + 1;
    key.handle.reset(cjose_jwk_create_oct_spec(octets_of(bytes), bytes.size(), nullptr));
    if (!key.handle) throw std::bad_alloc();
    key.digest = digest_of({"oct", bytes});
    return key;
}

KeyOrFault read_secret(const JsonValue& object) {
    auto decoded = bytes_member(object, "k");
    if (!decoded) return Malformed{"`k` is not base64url"};
    const Wiped secret(*std::move(decoded));
    if (secret.bytes().size() > kSigningSecretBytesMax) {
        return Malformed{"`k` has more than " + std::to_string(kSigningSecretBytesMax) + " bytes"};
    }
    return key_of_secret(secret.bytes());
}

// The number without zeros before it; some issuers write one (RFC 7518 section 6.3.1.1 warns).
std::string_view without_leading_zeros(std::string_view number) {
    const auto first = number.find_first_not_of('\0');
    return first == number.npos ? std::string_view{} : number.substr(first);
}

std::size_t bits_of(std::string_view number) {
    if (number.empty()) return 0;
    std::size_t bits = number.size() * 8;
    for (unsigned first = octets_of(number)[0]; (first & 0x80U) == 0; first <<= 1) --bits;
    return bits;
}

bool is_odd(std::string_view number) {
    return !number.empty() && (number.back() & 1) != 0;
}

// Why the public numbers are no RSA key; empty if they are.
std::string fault_of_rsa(std::string_view modulus, std::string_view exponent) {
    const std::size_t bits = bits_of(modulus);
    if (bits < kRsaBitsMin) {
        return "an RSA key of " + std::to_string(bits) + " bits; at least " +
               std::to_string(kRsaBitsMin) + " are safe";
    }
    if (bits > kRsaBitsMax) {
        return "an RSA key of " + std::to_string(bits) + " bits; at most " +
               std::to_string(kRsaBitsMax) + " are taken";
    }
    if (!is_odd(modulus)) return "`n` is even";
    // With 1 every message is its own signature.
    if (!is_odd(exponent) || exponent.size() > kRsaExponentBytesMax || exponent == "\x01")
        return "`e` is not an odd number from 3 to 2^64 - 1";
    return {};
}

KeyOrFault read_rsa(const JsonValue& object) {
    const auto n = bytes_member(object, "n");
    if (!n) return Malformed{"`n` is not base64url"};
    const auto e = bytes_member(object, "e");
    if (!e) return Malformed{"`e` is not base64url"};
    std::string modulus(without_leading_zeros(*n));
    std::string exponent(without_leading_zeros(*e));
    if (std::string fault = fault_of_rsa(modulus, exponent); !fault.empty())
        return Malformed{std::move(fault)};

    cjose_jwk_rsa_keyspec spec{};
    spec.n = unchanged(modulus);
    spec.nlen = modulus.size();
    spec.e = unchanged(exponent);
    spec.elen = exponent.size();
    Jwk key;
    key.kind = JwkKind::rsa;
    key.bytes = modulus.size();
    key.bits = bits_of(modulus);
    key.handle.reset(cjose_jwk_create_RSA_spec(&spec, nullptr));
    if (!key.handle) throw std::bad_alloc();
    key.digest = digest_of({"RSA", modulus, exponent});
    return key;
}

KeyOrFault read_curve(const JsonValue& object) {
    const auto name = string_member(object, "crv");
    if (!name) return Malformed{"`crv` is missing or not a string"};
    const auto* curve = std::find_if(kCurves.begin(), kCurves.end(),
                                     [&](const Curve& known) { return known.name == *name; });
    if (curve == kCurves.end()) return NotForUs{"the curve " + quote(*name) + " is not known"};
    auto x = bytes_member(object, "x");
    auto y = bytes_member(object, "y");
    // RFC 7518 section 6.2.1.2: the full size, zeros in front included.
    if (!x || !y || x->size() != curve->bytes || y->size() != curve->bytes) {
        return Malformed{"`x` and `y` are not base64url of " + std::to_string(curve->bytes) +
                         " bytes each"};
    }

    cjose_jwk_ec_keyspec spec{};
    spec.crv = curve->id;
    spec.x = unchanged(*x);
    spec.xlen = x->size();
    spec.y = unchanged(*y);
    spec.ylen = y->size();
    Jwk key;
    key.kind = curve->kind;
    key.bytes = curve->bytes;
    key.order = order_of(*curve);
    key.handle.reset(cjose_jwk_create_EC_spec(&spec, nullptr));
    if (!key.handle) return Malformed{"`x` and `y` are not a point of " + std::string(*name)};
    key.digest = digest_of({*name, *x, *y});
    return key;
}

// RFC 8037 section 2.
KeyOrFault read_octet_pair(const JsonValue& object) {
    const auto name = string_member(object, "crv");
    if (!name) return Malformed{"`crv` is missing or not a string"};
    if (*name != "Ed25519") return NotForUs{"the curve " + quote(*name) + " is not known"};
    const auto x = bytes_member(object, "x");
    if (!x || x->size() != kEd25519KeyBytes) {
        return Malformed{"`x` is not base64url of " + std::to_string(kEd25519KeyBytes) + " bytes"};
    }
    Jwk key;
    key.kind = JwkKind::ed25519;
    key.bytes = x->size();
    key.ed25519 = read_ed25519_key(*x);
    if (!key.ed25519) return Malformed{"`x` is not a point of Ed25519 that can be a key"};
    key.digest = digest_of({"OKP", *name, *x});
    return key;
}

// Why a key is not for checking what others signed (RFC 7517 sections 4.2 and 4.3).
std::variant<std::monostate, NotForUs, Malformed> check_use(const JsonValue& object) {
    if (const JsonValue* use = find_member(object, "use")) {
        if (!use->is_string()) return Malformed{"`use` is not a string"};
        if (text_of(*use) != "sig") return NotForUs{"its `use` is " + quote(text_of(*use))};
    }
    const JsonValue* operations = find_member(object, "key_ops");
    if (operations == nullptr) return {};
    if (!operations->is_array()) return Malformed{"`key_ops` is not a list"};
    bool verifies = false;
    for (const JsonValue& operation : *operations) {
        if (!operation.is_string()) return Malformed{"`key_ops` has an entry that is not a string"};
        verifies = verifies || text_of(operation) == "verify";
    }
    if (!verifies) return NotForUs{"its `key_ops` do not have `verify`"};
    return {};
}

// The parameters by their kind, without what names and restricts the key.
KeyOrFault read_parameters(const JsonValue& object) {
    const auto kind = string_member(object, "kty");
    if (!kind) return Malformed{"`kty` is missing or not a string"};
    if (*kind == "oct") return read_secret(object);
    if (*kind == "RSA") return read_rsa(object);
    if (*kind == "EC") return read_curve(object);
    if (*kind == "OKP") return read_octet_pair(object);
    return NotForUs{"the `kty` " + quote(*kind) + " is not known"};
}

// The facts that `kid` and `alg` add. Nothing if both are good.
std::variant<std::monostate, NotForUs, Malformed> read_restrictions(const JsonValue& object,
                                                                    Jwk& key) {
    if (object.contains("kid")) {
        const auto kid = string_member(object, "kid");
        if (!kid || kid->size() > kKeyIdBytesMax) {
            return Malformed{"`kid` is not a string of at most " + std::to_string(kKeyIdBytesMax) +
                             " bytes"};
        }
        key.kid = std::string(*kid);
    }
    const JsonValue* algorithm = find_member(object, "alg");
    if (algorithm == nullptr) return {};
    if (!algorithm->is_string()) return Malformed{"`alg` is not a string"};
    key.algorithm = parse_jws_algorithm(text_of(*algorithm));
    if (!key.algorithm)
        return NotForUs{"its `alg` " + quote(text_of(*algorithm)) + " signs no token"};
    if (!key.fits(*key.algorithm))
        return Malformed{"it cannot be used with its `alg` " + quote(text_of(*algorithm))};
    return {};
}

bool has_private_part(const JsonValue& object) {
    constexpr std::array<std::string_view, 7> kPrivate{"d", "p", "q", "dp", "dq", "qi", "oth"};
    return std::any_of(kPrivate.begin(), kPrivate.end(),
                       [&](std::string_view name) { return object.contains(name); });
}

// A reading without a key, if the variant holds a fault.
template <class Variant>
std::optional<JwkReading> fault_in(const Variant& outcome) {
    if (const auto* other = std::get_if<NotForUs>(&outcome))
        return JwkReading{std::nullopt, false, other->why};
    if (const auto* wrong = std::get_if<Malformed>(&outcome))
        return JwkReading{std::nullopt, true, wrong->why};
    return std::nullopt;
}

}  // namespace

void JwkRelease::operator()(cjose_jwk_t* key) const {
    cjose_jwk_release(key);
}

bool Jwk::fits(JwsAlgorithm wanted) const {
    if (kind != key_kind_of(wanted) || (algorithm && *algorithm != wanted)) return false;
    return kind != JwkKind::secret || bytes >= hash_bytes_of(wanted);
}

bool Jwk::may_have_signed(std::string_view signature, JwsAlgorithm wanted) const {
    if (kind == JwkKind::secret) return signature.size() == hash_bytes_of(wanted);
    if (kind == JwkKind::rsa) return signature.size() == bytes;
    if (kind == JwkKind::ed25519) return signature.size() == kEd25519SignatureBytes;
    if (signature.size() != 2 * bytes) return false;
    const auto in_range = [this](std::string_view number) {
        return number.find_first_not_of('\0') != number.npos && number < order;
    };
    return in_range(signature.substr(0, bytes)) && in_range(signature.substr(bytes));
}

std::string Jwk::to_string() const {
    if (kind == JwkKind::rsa) return "RSA " + std::to_string(bits) + " bits";
    if (kind == JwkKind::ed25519) return "Ed25519";
    if (kind == JwkKind::secret) return "a secret of " + std::to_string(bytes) + " bytes";
    const auto* curve = std::find_if(kCurves.begin(), kCurves.end(),
                                     [this](const Curve& known) { return known.kind == kind; });
    return "EC " + std::string(curve->name);
}

JwkReading read_jwk(const JsonValue& value) {
    if (!value.is_object()) return {std::nullopt, true, "it is not an object"};
    if (auto fault = fault_in(check_use(value))) return *std::move(fault);
    KeyOrFault outcome = read_parameters(value);
    if (auto fault = fault_in(outcome)) return *std::move(fault);
    Jwk key = std::get<Jwk>(std::move(outcome));
    if (auto fault = fault_in(read_restrictions(value, key))) return *std::move(fault);

    key.digest = digest_of({key.digest, key.kid ? "kid" : "", key.kid.value_or(""),
                            key.algorithm ? to_string(*key.algorithm) : ""});
    JwkReading reading{std::move(key), false, {}};
    if (reading.key->kind != JwkKind::secret && has_private_part(value))
        reading.remark = "it has private parts, which only the issuer should have";
    return reading;
}

namespace {

// `key 3 (kid `2026-a`)`: how a sentence calls a member of the set.
std::string name_of(const JsonValue& member, std::size_t number) {
    std::string name = "key " + std::to_string(number);
    if (!member.is_object()) return name;
    if (const auto kid = string_member(member, "kid")) name += " (kid " + quote(*kid) + ")";
    return name;
}

}  // namespace

Result<std::shared_ptr<const JwkSet>, std::string> JwkSet::parse(std::string_view json,
                                                                 Origin origin) {
    if (json.size() > kJwkSetBytesMax) return std::string("more than 1 MiB");
    auto document = parse_json_object(json);
    if (!document) return document.error();
    const JsonValue* keys = find_member(*document, "keys");
    if (keys == nullptr || !keys->is_array())
        return std::string("no `keys`, or no list: `{\"keys\": [...]}`");
    const std::size_t count = keys->size();
    if (count > kJwkSetKeysMax)
        return "more than " + std::to_string(kJwkSetKeysMax) + " keys: " + std::to_string(count);

    // A key that cannot be made leaves its reason with OpenSSL, where TLS would find it.
    ERR_set_mark();
    std::shared_ptr<JwkSet> set(new JwkSet);
    std::optional<std::string> fault;
    for (std::size_t i = 0; i < count && !fault; ++i) fault = set->take((*keys)[i], i + 1, origin);
    ERR_pop_to_mark();
    if (fault) return *std::move(fault);
    if (set->keys_.empty() && origin == Origin::file)
        return std::string("no key in it can check a token");
    return std::shared_ptr<const JwkSet>(std::move(set));
}

Result<std::shared_ptr<const JwkSet>, std::string> JwkSet::of_public_keys(
    std::span<const std::string> jwks) {
    std::string text = R"({"keys":[)";
    for (std::size_t i = 0; i < jwks.size(); ++i) text.append(i == 0 ? "" : ",").append(jwks[i]);
    auto parsed = parse(text + "]}", Origin::file);
    if (!parsed) return parsed;
    // Nothing else has this set yet.
    const auto set = std::const_pointer_cast<JwkSet>(*parsed);
    set->has_names_ = false;
    return std::shared_ptr<const JwkSet>(set);
}

std::shared_ptr<const JwkSet> JwkSet::of_secret(std::string_view bytes) {
    std::shared_ptr<JwkSet> set(new JwkSet);
    set->has_names_ = false;
    set->keys_.push_back(key_of_secret(bytes));
    return set;
}

std::optional<std::string> JwkSet::take(const JsonValue& member, std::size_t number,
                                        Origin origin) {
    JwkReading reading = read_jwk(member);
    const std::string name = name_of(member, number);
    if (!reading.key) {
        if (reading.malformed && origin == Origin::file) return name + ": " + reading.remark;
        warnings_.push_back(name + " is left out: " + reading.remark);
        return std::nullopt;
    }
    const bool twice = std::any_of(keys_.begin(), keys_.end(), [&](const Jwk& other) {
        return other.kid && other.kid == reading.key->kid && other.kind == reading.key->kind;
    });
    if (twice) {
        // RFC 7517 section 4.5: only keys of different kinds may share one.
        if (origin == Origin::file) return name + ": another key of its kind has the same `kid`";
        warnings_.push_back(name + ": another key of its kind has the same `kid`");
    }
    if (reading.key->kind == JwkKind::secret && origin == Origin::fetched)
        warnings_.push_back(name + " is a secret: everyone who can fetch it can sign tokens");
    if (!reading.remark.empty()) warnings_.push_back(name + ": " + reading.remark);
    keys_.push_back(*std::move(reading.key));
    return std::nullopt;
}

bool JwkSet::operator==(const JwkSet& other) const {
    return has_names_ == other.has_names_ &&
           std::equal(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end(),
                      [](const Jwk& a, const Jwk& b) { return a.digest == b.digest; });
}

JwkSet::Candidates JwkSet::candidates(const std::optional<std::string>& kid,
                                      JwsAlgorithm algorithm) const {
    Candidates found;
    for (const Jwk& key : keys_) {
        if (kid && has_names_ && key.kid != kid) continue;
        found.kid_is_known_ = found.kid_is_known_ || (kid && has_names_);
        if (found.count_ < Candidates::kMax && key.fits(algorithm))
            found.keys_[found.count_++] = &key;
    }
    return found;
}

}  // namespace tidegate::identity

// The ways in which a request may say who its user is, as configured (`identity.user`): a class
// each, whose functions are in the file of its name, or in user_methods.cpp. Immutable once read;
// any thread.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/described_enum.hpp"
#include "http/field.hpp"
#include "identity/credentials.hpp"

namespace tidegate {
struct ClientCertificate;
}

namespace tidegate::identity {

class ApiKeys;
class Htpasswd;
class KeySource;
struct Authentication;
struct Peer;

// Where in a request a method looks for its credential.
struct CredentialPlace {
    enum class In : std::uint8_t { bearer, basic, field, cookie, certificate };
    In in = In::field;
    std::string name{};  // of the field, in lower case, or of the cookie

    // The place of a token or a key in that field: in Authorization it has its scheme before it.
    static CredentialPlace of_secret(const std::string& field);

    // The field that holds the credential, in lower case; empty: it is in none of its own.
    std::string field() const;
    // Whether both are the same to some reader of fields: `x_user` is `x-user`.
    bool operator==(const CredentialPlace& other) const;
    std::string to_string() const;  // "the field `x-user`"
};

// Holds the parts of a request that methods may read.
struct Presented {
    const Peer& peer;
    const ClientCertificate* certificate;  // that the peer has proven; null: none
    const http::Fields& fields;
};

// Describes a method for all code that has to treat methods differently.
struct MethodTraits {
    std::string_view name;           // as the configuration has it: `api_key`
    bool authenticates = true;       // false: clients can make up their user
    bool checks_credentials = true;  // a credential can be wrong
    bool costs_effort = false;       // to check a made-up credential takes a computation
    bool reads_claims = false;       // its credential has claims that policies can count by
    bool believes_peers = false;     // only what trusted peers send counts
};

class IdentityMethod {
  public:
    using Time = std::chrono::system_clock::time_point;

    virtual ~IdentityMethod() = default;

    virtual const MethodTraits& traits() const = 0;
    virtual CredentialPlace place() const = 0;
    // The method and the place of its credential, in the words of the configuration: "jwt in
    // authorization".
    virtual std::string to_string() const = 0;

    // Looks for the credential. Sets `found` by Authentication::name(), refuse() or present();
    // leaves it as it is if there is no credential.
    virtual void look(const Presented& request, Authentication& found) const = 0;

    // Appends the line WWW-Authenticate that asks a client for this credential, if there is one.
    // `detail`: what was wrong with the credential; empty: another method refused.
    virtual void append_challenge(std::string_view detail, std::string& out) const;

    // The fields in which a trusted peer names the user, and perhaps the tier.
    virtual std::vector<std::string> trusted_fields() const { return {}; }
    virtual bool gives_tiers() const { return false; }
    // Whether a user that both methods name is meant to be the same: the same keys show it.
    virtual bool is_same_authority(const IdentityMethod& other) const;
    // The method that keeps of its credentials what policies look at: claims, and tiers in order.
    // Null where credentials have neither, so that this method will do.
    virtual std::shared_ptr<const IdentityMethod> keeping(std::span<const std::string> claims,
                                                          std::span<const std::string> tiers) const;

    // Where look() presents a credential that has to be checked, the method has either a file of
    // passwords, which the caller asks beside the event loop, or check().
    virtual const std::shared_ptr<const Htpasswd>& passwords() const;  // null: none

    static constexpr std::uint64_t kFixedVersion = 1;  // of keys that only a reload changes
    struct Checked {
        Time expires{};  // until when a credential that is valid is remembered
        std::uint64_t version = kFixedVersion;  // of the keys that it was checked with
    };
    // Checks `found.credential`: sets `found` by Authentication::name() or refuse(), or says that
    // its key is missing. `space`: the namespace of the method.
    virtual Checked check(std::string_view space, Time now, Authentication& found) const;
    // The keys that check() uses, if they can change while requests run; null: they cannot.
    virtual const std::shared_ptr<KeySource>& key_source() const;
    // Whether the key of `found.credential` may be fetched yet; then `found` says that it is
    // missing. Computes no signature.
    virtual bool lacks_key(Authentication& found) const;

  protected:
    IdentityMethod() = default;
    IdentityMethod(const IdentityMethod&) = default;
    IdentityMethod& operator=(const IdentityMethod&) = default;
};

// An item of `identity.user`.
struct UserMethod {
    UserMethod(std::string its_space, std::shared_ptr<const IdentityMethod> its_how)
        : space(std::move(its_space)), how(std::move(its_how)) {}
    template <std::derived_from<IdentityMethod> Method>
    UserMethod(std::string its_space, Method method)
        : UserMethod(std::move(its_space), std::make_shared<const Method>(std::move(method))) {}

    // Comes before every user the method names, with a colon; empty: nothing does. Letters, digits,
    // `-`, `_`, `.`.
    std::string space;
    std::shared_ptr<const IdentityMethod> how;  // never null
};

// JWS algorithms (RFC 7518 section 3.1, RFC 8037 section 3.1) that a token may be signed with.
BOOST_DEFINE_FIXED_ENUM_CLASS(JwsAlgorithm, std::uint8_t, hs256, hs384, hs512, rs256, rs384, rs512,
                              ps256, ps384, ps512, es256, es384, es512,
                              eddsa)  // with Ed25519

// `jwt`: a signed token (RFC 7519).
class JwtMethod final : public IdentityMethod {
  public:
    static constexpr MethodTraits kTraits{
        .name = "jwt", .costs_effort = true, .reads_claims = true};

    std::string field = "authorization";   // lower case; in this one after `Bearer`, else alone
    std::string cookie;                    // set: the token is in that cookie, and in no field
    std::shared_ptr<KeySource> keys;       // never null
    std::vector<JwsAlgorithm> algorithms;  // not empty
    std::string issuer;                    // empty: any
    std::vector<std::string> audience;     // one of them is wanted; empty: any
    std::string claim = "sub";             // holds the user
    std::string tier_claim;                // empty: the token names no tier
    std::vector<std::string> known_tiers;  // of policies, in order: which of a list of tiers counts
    std::vector<std::string> claims;       // that policies count by: only these are kept of a token
    std::chrono::seconds leeway{30};       // 0..5 min

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
    void append_challenge(std::string_view detail, std::string& out) const override;
    bool gives_tiers() const override { return !tier_claim.empty(); }
    bool is_same_authority(const IdentityMethod& other) const override;
    std::shared_ptr<const IdentityMethod> keeping(
        std::span<const std::string> counted, std::span<const std::string> tiers) const override;
    Checked check(std::string_view space, Time now, Authentication& found) const override;
    const std::shared_ptr<KeySource>& key_source() const override { return keys; }
    bool lacks_key(Authentication& found) const override;
};

// `api_key`: a secret in a field, known by its digest.
class ApiKeyMethod final : public IdentityMethod {
  public:
    static constexpr MethodTraits kTraits{.name = "api_key"};

    ApiKeyMethod() = default;
    ApiKeyMethod(std::string its_field, std::shared_ptr<const ApiKeys> its_keys)
        : field(std::move(its_field)), keys(std::move(its_keys)) {}

    std::string field = "x-api-key";      // lower case; `authorization`: after `Bearer`
    std::shared_ptr<const ApiKeys> keys;  // never null

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
    void append_challenge(std::string_view detail, std::string& out) const override;
    bool is_same_authority(const IdentityMethod& other) const override;
};

// `basic`: HTTP Basic (RFC 7617) against an htpasswd file.
class BasicMethod final : public IdentityMethod {
  public:
    static constexpr MethodTraits kTraits{.name = "basic", .costs_effort = true};

    BasicMethod() = default;
    explicit BasicMethod(std::shared_ptr<const Htpasswd> its_users) : users(std::move(its_users)) {}

    std::shared_ptr<const Htpasswd> users;  // never null

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
    void append_challenge(std::string_view detail, std::string& out) const override;
    const std::shared_ptr<const Htpasswd>& passwords() const override { return users; }
};

// `cookie`: an opaque value that the client chose or got from the upstream; the user is its hash.
class CookieMethod final : public IdentityMethod {
  public:
    static constexpr MethodTraits kTraits{
        .name = "cookie", .authenticates = false, .checks_credentials = false};

    explicit CookieMethod(std::string its_name) : name(std::move(its_name)) {}

    std::string name;

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
    void append_challenge(std::string_view detail, std::string& out) const override;
};

// `header`: a field that a trusted peer sets. No challenge asks for it, as clients do not send it.
class HeaderMethod final : public IdentityMethod {
  public:
    static constexpr MethodTraits kTraits{
        .name = "header", .checks_credentials = false, .believes_peers = true};

    HeaderMethod() = default;
    HeaderMethod(std::string its_field, std::string its_tier_field)
        : field(std::move(its_field)), tier_field(std::move(its_tier_field)) {}

    std::string field;       // lower case
    std::string tier_field;  // lower case; empty: none

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
    std::vector<std::string> trusted_fields() const override { return {field, tier_field}; }
    bool gives_tiers() const override { return !tier_field.empty(); }
    bool is_same_authority(const IdentityMethod& other) const override;
};

// Names the part of a certificate that names its user.
BOOST_DEFINE_FIXED_ENUM_CLASS(CertificateSubject, std::uint8_t, common_name, uri, dns, email,
                              sha256)
// As the configuration has it: `san_uri`.
std::string_view to_string(CertificateSubject subject);

// `client_certificate`: what a certificate that the client has proven says of it.
// No challenge asks for it: a client that has no certificate, or another one, can only begin a new
// connection.
class CertificateMethod final : public IdentityMethod {
  public:
    using Subject = CertificateSubject;

    static constexpr MethodTraits kTraits{.name = "client_certificate"};

    CertificateMethod() = default;
    CertificateMethod(Subject its_subject, std::string its_prefix)
        : subject(its_subject), prefix(std::move(its_prefix)) {}

    Subject subject = Subject::common_name;
    std::string prefix;  // that the value must have; it stays part of the user

    const MethodTraits& traits() const override { return kTraits; }
    CredentialPlace place() const override;
    std::string to_string() const override;
    void look(const Presented& request, Authentication& found) const override;
};

// Which of the names in a client's certificate is its user. Pure.
struct CertificateUser {
    CredentialFault fault = CredentialFault::none;
    std::string_view name;  // goes into the certificate
};

// The only name of the method's kind that has its prefix. No name, or two that differ, is a fault:
// Tidegate cannot tell which one the authority meant. So is a name that the certificate's reader
// left out, as it could have been a second one.
CertificateUser user_of(const CertificateMethod& method, const ClientCertificate& certificate);

}  // namespace tidegate::identity

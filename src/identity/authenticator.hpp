// Finds out whose request it is: tries the configured methods in their order, knows the credentials
// it has checked before, and checks those it has not seen. Pure: the caller supplies time, and runs
// what takes long (password hashes) elsewhere.
//
// One a worker and configuration; one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/field.hpp"
#include "identity/client_ip.hpp"
#include "identity/credential_cache.hpp"
#include "identity/credentials.hpp"
#include "identity/key_source.hpp"
#include "identity/user_methods.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::identity {

struct TokenClaims;

// What a request's credentials came to. Reused from request to request: strings keep their room.
struct Authentication {
    enum class Result : std::uint8_t {
        anonymous,    // no method found anything
        user,         // somebody: `user`, and perhaps a `tier`
        unchecked,    // a credential that takes effort: see is_token()
        refused,      // a credential that is not valid: `fault`
        ambiguous,    // a field twice where there can be only one: which user is meant is unknown
        key_missing,  // a token whose key may be fetched yet: see `fetches`
        unavailable,  // it cannot be checked at the moment
    };

    Result result = Result::anonymous;
    CredentialFault fault = CredentialFault::none;
    std::uint32_t method = 0;  // which one found it; meant unless anonymous
    std::string user;          // its namespace included
    std::string tier;          // as the credential has it; empty: none
    std::string claims;        // of its token, as pack_claims() returns them

    // Of one that is unchecked.
    std::string_view credential;  // goes into the request's fields
    CredentialCache::Key key{};   // what it is remembered by

    // Of a missing key: from before the keys were read.
    KeyFetches fetches;
    std::chrono::seconds retry_after{1};  // when the caller gives up; reset() leaves both

    void reset();
};

class Authenticator {
  public:
    using Time = std::chrono::system_clock::time_point;

    // `methods` outlives it. `shared`: of all threads that serve this configuration; null: what
    // other threads have checked is not known.
    explicit Authenticator(const std::vector<UserMethod>& methods,
                           std::shared_ptr<SharedCredentialCache> shared = nullptr,
                           const CredentialCache::Options& remembered = {});

    // The first method that finds a credential decides. Allocates nothing when nothing is found,
    // or a credential that is remembered, and the authentication has had room for it.
    // `certificate`: that the peer has proven; null: none. A gateway's is not its client's.
    void look(const Peer& peer, const ClientCertificate* certificate, const http::Fields& fields,
              Time now, Authentication& authentication);

    // Looks once more whether an unchecked credential is known by now, to any thread. If so it is
    // no longer unchecked: it is valid, or refused for what its signature proved.
    bool recall(Authentication& authentication, Time now);
    // Whether an unchecked credential is a token; else it is a password.
    bool is_token(const Authentication& authentication) const;
    // Checks it here and now: a signature takes up to some hundred microseconds. Afterwards it is
    // no longer unchecked. If its key is missing, the caller waits for keys and checks it again, or
    // refuses it; see MissingKey.
    void check_token(Authentication& authentication, Time now);
    // Whether an unchecked credential is a token whose key may be fetched yet; then it is no longer
    // unchecked, but its key is missing. Computes no signature.
    bool lacks_key(Authentication& authentication) const;
    // Where the keys of an unchecked token are, or of one whose key is missing.
    KeySource& key_source(const Authentication& authentication) const;
    // There is no such key.
    static void refuse_missing_key(Authentication& authentication);
    // Whom to ask about an unchecked password.
    const BasicMethod& password_method(const Authentication& authentication) const;
    // What Htpasswd::verify() said of `user`. Afterwards the authentication is no longer unchecked.
    void conclude_password(Authentication& authentication, std::string_view user, bool is_right,
                           Time now);

    const std::vector<UserMethod>& methods() const { return *methods_; }

  private:
    void look_with(const JwtMethod& method, const http::Fields& fields, Time now,
                   Authentication& authentication);
    void look_with(const ApiKeyMethod& method, const http::Fields& fields, Time now,
                   Authentication& authentication);
    void look_with(const BasicMethod& method, const http::Fields& fields, Time now,
                   Authentication& authentication);
    void look_with(const CookieMethod& method, const http::Fields& fields, Time now,
                   Authentication& authentication);
    void remember(const Authentication& authentication, Time expires, std::uint64_t version);
    void remembered_or_unchecked(std::string_view credential, Time now,
                                 Authentication& authentication);
    std::uint64_t version_of(const Authentication& authentication) const;
    void look_with(const HeaderMethod& method, const Peer& peer, const http::Fields& fields,
                   Authentication& authentication) const;
    void look_with(const CertificateMethod& method, const Peer& peer,
                   const ClientCertificate* certificate, Authentication& authentication) const;
    void name(std::string_view user, std::string_view tier, Authentication& authentication) const;
    void name_bearer(const TokenClaims& claims, Authentication& authentication) const;

    const std::vector<UserMethod>* methods_;
    bool reads_authorization_;
    std::shared_ptr<SharedCredentialCache> shared_;  // null: none
    CredentialCache remembered_;
};

}  // namespace tidegate::identity

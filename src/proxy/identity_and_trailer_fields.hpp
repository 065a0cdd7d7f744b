// IdentityFields lists the header fields that name a client or its user. RefusedTrailers lists the
// fields that the proxy takes in heads only and removes from trailers. A function writes
// X-Forwarded-Client-Cert.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ask/decision.hpp"
#include "config/config.hpp"
#include "tls/client_auth.hpp"

namespace tidegate::proxy {

// Header fields that name a request's client or user: those that trusted peers may set, and those
// that the proxy sets for the upstream. Immutable; any thread.
class IdentityFields {
  public:
    explicit IdentityFields(const config::Config& config);

    // Whether a server could take a field of this name for one of them, ignoring case and with `_`
    // and `-` alike.
    bool include(std::string_view name) const;
    // Whether the proxy believes a field of this name from a trusted peer: only case may differ.
    bool is_believed(std::string_view name) const;
    // Whether a server could take a field of this name for one that holds a credential. The proxy
    // checks no credential in trailers, so such a trailer goes no further (RFC 9110 section 6.5.1).
    bool is_credential(std::string_view name) const;

  private:
    std::vector<std::string> believed_;  // trusted peers may set them; the proxy passes them on
    std::vector<std::string> ours_;      // only the proxy sets them
    std::uint64_t lengths_ = 0;  // a bit for each length of theirs: most fields have another
    std::vector<std::string> credentials_;
};

// Fields that decide how the proxy handles a request. The proxy reads them in the head only and
// removes them from trailers (RFC 9110 section 6.5.1): a server that takes trailers for fields
// would act upon what no limit has counted. Immutable; any thread.
class RefusedTrailers {
  public:
    explicit RefusedTrailers(const config::Config& config);

    // Whether a server could take a trailer of this name for a field that directs how a request is
    // handled, chooses its route, its cost or its moment, overrides its method or target, or is
    // counted by a policy.
    bool include(std::string_view name) const;

  private:
    std::vector<std::string> names_;
};

// Appends what Tidegate says to the upstream about the certificate of the client, in the format of
// Envoy: the line `X-Forwarded-Client-Cert: Hash=...;Subject="...";URI=...;DNS=...`, with every
// URI and every DNS name in the certificate's order.
//
// The subject is always quoted, other values where they have `,`, `;` or `=`. No value has `"` or
// `\"`, so that all readers agree on where it ends, however they treat escapes.
void append_client_certificate(const ClientCertificate& certificate, std::string& out);

}  // namespace tidegate::proxy

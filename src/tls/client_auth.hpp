// Client certificates on a listener: what one says of the client, the listener's authorities, what
// it refuses, and which sessions resume.
//
// A certificate that is not valid ends the handshake, also where certificates are optional: the
// client learns of it, and does not become anonymous.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/certificate.hpp"
#include "tls/openssl.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate {

// Holds what a client's certificate says of the client. A plain value.
struct ClientCertificate {
    std::string sha256;  // of its DER form, in lower-case hex
    std::string
        subject;  // RFC 4514 in ASCII; what is special there is escaped in hex alone (`\2C`)

    // Names of one kind, in the certificate's order.
    struct Names {
        std::vector<std::string> values;
        // Some name is left out, as a reader might take it for another: it holds a NUL or another
        // character that is not seen, is empty, or cannot be read. Then the others are not all.
        bool is_incomplete = false;
    };
    Names common_names;  // UTF-8
    // Its subject alternative names: printable ASCII without space, `"` and `\`.
    Names uris;
    Names dns_names;  // in lower case
    Names emails;
};

// Reads the certificate that the client at the other end of `tls` has shown and proven, in this
// handshake or in the one that it resumes; nothing when it has shown none, or none that was
// accepted.
std::optional<ClientCertificate> client_certificate_of(const SSL* tls);

// Reads what `certificate` states; it need not be a connection's.
ClientCertificate read_client_certificate(const X509& certificate);

// Lists of revoked certificates (CRL, RFC 5280 section 5) as PEM. Pure.
using RevocationListPtr = OpensslPtr<X509_CRL>;

// All lists of `pem`, at least one, or why not: a clause that continues the name of a file.
Result<std::vector<RevocationListPtr>, std::string> parse_revocation_lists(std::string_view pem);

struct RevocationListFacts {
    enum class Signature : std::uint8_t { good, bad, of_stranger };

    std::string issuer;  // shown_name()
    std::chrono::system_clock::time_point from;
    std::optional<std::chrono::system_clock::time_point> until;  // when the next one is due
    Signature signature = Signature::of_stranger;  // as `authorities` tell: by one of its name
};
RevocationListFacts facts_of(X509_CRL& list, std::span<const CertificatePtr> authorities);

// When the first of the lists goes stale: nextUpdate, of several by one issuer with one key that of
// the latest. Nothing: never.
std::optional<std::chrono::system_clock::time_point> next_update(
    const std::vector<RevocationListPtr>& lists);

class ParsedClientAuth;  // immutable, any thread

// Authorities and lists, read once for all workers; also of ClientAuth::off. Or what is wrong, as a
// sentence that begins with the key of the configuration: `client_ca holds no certificate`.
Result<std::shared_ptr<const ParsedClientAuth>, std::string> parse_client_auth(
    const ClientAuthSettings& settings);

// Has connections of `context` ask for certificates as `auth` says, which the context keeps. Throws
// std::bad_alloc when OpenSSL has no memory.
//
// - An authority is each certificate of client_ca, but where one stands there without its issuer:
//   then it is an authority itself, and intermediates that stand beside their issuers are none.
// - With a CRL, each certificate below the authority must be covered by a current one: a client is
//   refused whose issuer, or the issuer of whose intermediate, has none (nginx and HAProxy do the
//   same). The authority itself needs none.
// - The session id context is a hash of authorities, lists, mode and depth: a ticket from before a
//   change does not resume.
// - A ticket holds until the first certificate of the client's chain expires, or the first CRL is
//   stale. Afterwards the client needs a full handshake, which checks it anew. Until then the
//   lists are those that the full handshake knew: others have another session id context.
//
// Takes the context's own certificate store for verification, its callback for verification and
// SSL_CTX_set_session_ticket_cb(); the keys of tickets (SSL_CTX_set_tlsext_ticket_key_evp_cb()) are
// the caller's. Requires tickets without state: no session cache, no SSL_OP_NO_TICKET.
void prepare_client_auth(SSL_CTX* context, std::shared_ptr<const ParsedClientAuth> auth);

// Whether the client of `session`, from a context that was prepared like this one, may resume it at
// `now`. Tickets are asked about by themselves.
bool may_resume(const SSL_SESSION* session, ClientAuth mode,
                std::chrono::system_clock::time_point now);

// Why the client's certificate was not accepted: `certificate revoked`. Empty when it was accepted,
// or there was none. For a handshake that failed; the text is static.
std::string_view client_certificate_fault(const SSL* tls);

}  // namespace tidegate

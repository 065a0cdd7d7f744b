// What a client's certificate says of the client. A plain value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <openssl/types.h>

namespace tidegate {

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
    // Of its subject alternative names: printable ASCII without space, `"` and `\`.
    Names uris;
    Names dns_names;  // in lower case
    Names emails;
};

// Of the certificate that the client at the other end of `tls` has shown and proven, in this
// handshake or in the one that it resumes; nothing: it has shown none, or none that was accepted.
std::optional<ClientCertificate> client_certificate_of(const SSL* tls);

// What `certificate` states; it need not be a connection's.
ClientCertificate read_client_certificate(const X509& certificate);

}  // namespace tidegate

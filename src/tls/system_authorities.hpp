// The authorities of the system, and what clients that believe them think of a certificate.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <openssl/types.h>

#include "base/result.hpp"
#include "tls/certificate.hpp"

namespace tidegate {

// Any thread.
class SystemAuthorities {
  public:
    // Reads them (SSL_CERT_FILE and SSL_CERT_DIR replace them). Or why they cannot be read: a
    // system may have none. Blocks.
    static Result<std::shared_ptr<const SystemAuthorities>, std::string> read();

    // Whether the issuer of `certificate` is one of them. Reads files. Blocks.
    bool have_issuer_of(const X509& certificate) const;

    struct Doubt {
        std::string why;  // OpenSSL's words, a clause
        // No authority of the system has issued the last certificate of the chain...
        bool is_unknown_issuer = false;
        // ...and a certificate says where its issuer's is to be had, as those do that public
        // authorities issue by an intermediate one: the server ought to show that.
        bool is_incomplete = false;
        std::string issuer{};  // of the last certificate of the chain
    };
    // Why they do not vouch for `chain`, whatever its names. Requires one certificate at least.
    std::optional<Doubt> doubt(std::span<const SharedCertificate> chain) const;

  private:
    struct FreeStore {
        void operator()(X509_STORE* store) const;
    };
    using StorePtr = std::unique_ptr<X509_STORE, FreeStore>;

    explicit SystemAuthorities(StorePtr store) : store_(std::move(store)) {}

    StorePtr store_;
};

}  // namespace tidegate

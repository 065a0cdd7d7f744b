#include <chrono>
#include <string>

#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "tls/certificate.hpp"
#include "tls/throwaway_certificate.hpp"

namespace tidegate::tls_throwaway_certificate_test {

using std::chrono::hours;
using std::chrono::system_clock;

namespace {

// A time on a whole second, as certificates have them.
const system_clock::time_point kNow{std::chrono::seconds{1'750'000'000}};

struct Throwaway {
    Throwaway() : made(make_throwaway_certificate(kNow)) {
        REQUIRE(made.has_value());
        auto chain = parse_certificates(made->certificate);
        REQUIRE(chain.has_value());
        REQUIRE(chain->size() == 1);
        certificate = std::move(chain->front());
        auto parsed = parse_private_key(made->key);
        REQUIRE(parsed.has_value());
        key = std::move(*parsed);
    }

    // What a client that trusts `believed` says at `when`; X509_V_OK: it goes on.
    int verdict(const X509* believed, system_clock::time_point when, const char* name) const {
        X509_STORE* const store = X509_STORE_new();
        X509_STORE_add_cert(store, const_cast<X509*>(believed));
        X509_STORE_CTX* const context = X509_STORE_CTX_new();
        X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
        X509_STORE_CTX_set_default(context, "ssl_server");
        X509_VERIFY_PARAM* const wanted = X509_STORE_CTX_get0_param(context);
        X509_VERIFY_PARAM_set_time(wanted, system_clock::to_time_t(when));
        X509_VERIFY_PARAM_set1_host(wanted, name, 0);
        X509_verify_cert(context);
        const int result = X509_STORE_CTX_get_error(context);
        X509_STORE_CTX_free(context);
        X509_STORE_free(store);
        return result;
    }

    Result<ThrowawayCertificate, std::string> made;
    CertificatePtr certificate;
    PrivateKeyPtr key;
};

}  // namespace

TEST_CASE("throwaway_certificate: a client that trusts it accepts it for this machine alone") {
    const Throwaway made;
    const X509* const self = made.certificate.get();
    CHECK(made.verdict(self, kNow, "localhost") == X509_V_OK);
    CHECK(made.verdict(self, kNow, "example.com") == X509_V_ERR_HOSTNAME_MISMATCH);
    for (const char* const address : {"127.0.0.1", "::1"}) {
        CHECK(X509_check_ip_asc(made.certificate.get(), address, 0) == 1);
    }
    CHECK(X509_check_ip_asc(made.certificate.get(), "127.0.0.2", 0) == 0);
    CHECK(made.verdict(Throwaway().certificate.get(), kNow, "localhost") != X509_V_OK);
}

TEST_CASE("throwaway_certificate: it is valid at once, and for 90 days") {
    const Throwaway made;
    CHECK(valid_from(*made.certificate) <= kNow);
    CHECK(valid_from(*made.certificate) >= kNow - hours{1});
    CHECK(valid_until(*made.certificate) == kNow + kThrowawayValidity);
    const X509* const self = made.certificate.get();
    CHECK(made.verdict(self, kNow + kThrowawayValidity + hours{1}, "localhost") ==
          X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_CASE("throwaway_certificate: its key is a new one of P-256, and it is no authority") {
    const Throwaway made;
    CHECK(belong_together(*made.certificate, *made.key));
    CHECK(EVP_PKEY_get_bits(made.key.get()) == 256);
    CHECK(EVP_PKEY_is_a(made.key.get(), "EC") == 1);
    CHECK(X509_check_ca(made.certificate.get()) == 0);
    const Throwaway other;
    CHECK_FALSE(belong_together(*other.certificate, *made.key));
    CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(made.certificate.get()),
                           X509_get0_serialNumber(other.certificate.get())) != 0);
}

}  // namespace tidegate::tls_throwaway_certificate_test

// The certificates that a configuration has Tidegate show, when they expire, and which of two
// configurations has the newer ones. Pure.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/metrics.hpp"
#include "config/config.hpp"
#include "tls/certificate.hpp"

namespace tidegate::app {

using std::chrono::system_clock;

struct ListedCertificate {
    std::string place;  // `listen 0.0.0.0:443`, `upstreams.api.tls`
    std::string file;   // empty: `place` says where it is configured
    // Its own first; then those that a listener has beside.
    std::vector<std::string> names;
    std::string key;  // `ECDSA P-256`, `RSA 2048`
    Validity validity;
    bool is_of_listener = true;  // else of Tidegate as a client

    // The first name, or the file, or the place.
    const std::string& name() const;
    // `for a.example, b.example and 3 more`
    std::string names_text() const;
    // `41 days left (until 2026-11-21)`, `expired on 2026-11-21`
    std::string time_left_text(system_clock::time_point now) const;
    // Whole days; below 0 once it has expired.
    long days_left(system_clock::time_point now) const;
};

// Lists those of listeners in their order, then those that Tidegate shows to upstreams and Redis.
// The same certificate in two places is listed for each.
std::vector<ListedCertificate> listed_certificates(const config::Config& config);

// The one to renew first: of those that end soon, if there are any, the one that expires first.
std::optional<ListedCertificate> first_to_renew(const config::Config& config,
                                                system_clock::time_point now);

// A configuration, and the files that its certificates, keys and authorities were read from.
struct CertifiedConfig {
    std::shared_ptr<const config::Config> config;
    std::vector<config::FileRead> files;
};

// The settings of `former` with what `newer` has read from the same files: a certificate only with
// its key, as `newer` has the two. The result has no more of a configuration than listeners,
// upstreams, the store and tracing.
CertifiedConfig with_newer_certificates(const CertifiedConfig& former,
                                        const CertifiedConfig& newer);

// For /metrics: by name the one of that name that expires first. Certificates are parsed once for
// each configuration. One thread.
class CertificateExpiries {
  public:
    void fill_in(const std::shared_ptr<const config::Config>& config, Gauges& gauges);

  private:
    std::weak_ptr<const config::Config> of_;
    std::vector<Gauges::CertificateExpiry> expiry_;
};

}  // namespace tidegate::app

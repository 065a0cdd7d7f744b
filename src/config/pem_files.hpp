// Certificates and private keys, which the configuration names by files (PEM). Each file that is
// read is noted for Config::files.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.hpp"
#include "tls/certificate.hpp"

namespace tidegate::config {

struct CertificateFile {
    std::string path;  // as the process opens it
    std::string pem;
    std::vector<CertificatePtr> certificates;  // at least one
};

struct KeyFile {
    std::string path;
    std::string pem;
    PrivateKeyPtr key;
};

// Nothing when it is broken, which has been reported. `example`: a name such a file could have.
std::optional<CertificateFile> read_certificate_file(const Value& value, std::string_view example);
// Warns when every user of the machine may read it.
std::optional<KeyFile> read_key_file(const Value& value, std::string_view example);
// Warns when every user of the machine may read the secret in `path`: `what` is `private key`.
void warn_if_world_readable(const Value& value, const std::string& path, std::string_view what);
// Warns of a certificate that has expired or is not valid yet. That is for others to judge: a clock
// may be wrong, and an authority that has run out may not be the one that is needed.
void warn_about_time(const Value& value, const std::string& path, const X509& certificate);

// For a message: `2026-11-21T10:00:00Z`.
std::string shown_moment(std::chrono::system_clock::time_point moment);

}  // namespace tidegate::config

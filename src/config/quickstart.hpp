// The configuration of `tidegate quickstart`.
#pragma once

#include <string_view>

#include "config/config.hpp"

namespace tidegate::config {

// The text of config/quickstart.yaml: a limit low enough to meet by hand, in front of the built-in
// echo upstream on 127.0.0.1:9000.
std::string_view quickstart_text();

// The same for a face: a limit low enough to meet by hand, on 127.0.0.1:8181.
std::string_view quickstart_text(Face face);

// quickstart_text() read; never has errors.
Loaded quickstart(Face face = Face::proxy);

// What `quickstart --tls` shows to clients, in the working directory.
inline constexpr const char* kQuickstartCertificate = "tidegate-quickstart.pem";
inline constexpr const char* kQuickstartKey = "tidegate-quickstart.key";

// The proxy of quickstart_text() over TLS, on 127.0.0.1:8443; 8080 sends requests there.
std::string_view quickstart_tls_text();

// quickstart_tls_text() read. Has errors when the two files cannot be used.
Loaded quickstart_tls();

}  // namespace tidegate::config

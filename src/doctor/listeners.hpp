// What clients of the listeners see, held to the configuration. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/trial.hpp"
#include "tls/certificate.hpp"

namespace tidegate::doctor {

// A handshake with a listener with `tls`, by a client that offers both versions.
void judge_negotiated(const config::Listen& listen, const TlsAnswer& answer, Findings& findings);

// What a listener in the clear with `h2` sent to a client that begins with HTTP/2.
void judge_prior_knowledge(const Http2Answer& answer, Findings& findings);

// Names that clients may ask a listener for: those of its certificates, once each, in their order.
// Of a wildcard, one that fits it.
std::vector<std::string> names_to_ask_for(const TlsServerSettings& settings);

struct NameTrial {
    std::string name;
    TlsAnswer answer;
};

// `trials`: handshakes with a Tidegate that accepts connections. `authorities`: those of the
// system; null when they cannot be read.
void judge_listener_tls(const TlsServerSettings& settings, std::span<const NameTrial> trials,
                        const SystemAuthorities* authorities,
                        std::chrono::system_clock::time_point now, Findings& findings);

// One handshake with a listener that has no `tls`.
void judge_plain_listener(const TlsAnswer& answer, Findings& findings);

// The first bytes that a listener with `redirect: https` sent to a request for `name`. `config`:
// which listeners there are.
void judge_redirect(const std::string& answer, const std::string& name,
                    const config::Config& config, Findings& findings);

}  // namespace tidegate::doctor

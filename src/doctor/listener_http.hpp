// Which version of HTTP clients of a listener get, held to `http` of its configuration. Pure.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/http2_trial.hpp"
#include "doctor/tls_trial.hpp"

namespace tidegate::doctor {

// A handshake with a listener with `tls`, by a client that offers both versions.
void judge_negotiated(const config::Listen& listen, const TlsAnswer& answer, Findings& findings);

// What a listener in the clear with `h2` sent to a client that begins with HTTP/2.
void judge_prior_knowledge(const Http2Answer& answer, Findings& findings);

}  // namespace tidegate::doctor

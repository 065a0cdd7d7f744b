// What Caddy asks with `forward_auth`, or with a `reverse_proxy` that does the same. Pure.
#pragma once

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/gateway_text.hpp"

namespace tidegate::doctor {

// Looks at each question of a Caddyfile to a listener of `config`. False: there is none.
bool check_caddy_questions(const Directives& file, const config::Config& config,
                           Findings& findings);

}  // namespace tidegate::doctor

// What a configuration's reader found, in words for a terminal. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "app/certificate_list.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

// Every fault, then every warning, a line each: `file:line:column: error: message`, as compilers
// and editors have it.
std::string report(const config::Loaded& loaded);

// `ok: 3 routes, 2 policies, 1 upstream`, or how many faults there are; without newline.
std::string summary(const config::Loaded& loaded);

// A line for each certificate: `listen 0.0.0.0:443: a.pem: ECDSA P-256, 41 days left (until
// 2026-11-21), for a.example`. And one for each listener whose certificates are all RSA.
std::string certificate_lines(std::span<const app::ListedCertificate> certificates,
                              std::chrono::system_clock::time_point now);

// All for programs: {"ok":true,"routes":3,"policies":2,"upstreams":1,"certificates":[{"place":
// "listen 0.0.0.0:443","file":"a.pem","names":["a.example"],"key":"ECDSA P-256","days_left":41,
// "until":"2026-11-21T10:00:00Z"}],"errors":[...],"warnings":[{"file":"t.yaml","line":7,
// "column":12,"message":"..."}]}. Without the counts and certificates where there is no
// configuration, and without `line` and `column` where there is no place. `is_right` is `ok`.
std::string report_json(const config::Loaded& loaded, bool is_right,
                        std::chrono::system_clock::time_point now);

}  // namespace tidegate::cli

// Errors of a Redis that are about the server, not about the doctor's user. Pure.
#pragma once

#include "doctor/finding.hpp"
#include "redis/resp_reader.hpp"

namespace tidegate::doctor {

// True: `reply` is such an error (the server is loading, busy, full and the like), and now a
// finding.
bool report_server_error(const redis::RespValue& reply, Findings& findings);

}  // namespace tidegate::doctor

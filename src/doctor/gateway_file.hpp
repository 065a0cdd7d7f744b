// Mistakes in the configuration of a gateway that asks Tidegate: nginx with `auth_request`, Caddy
// with `forward_auth`. Only what is certain is a fault or a warning. Pure.
#pragma once

#include <span>
#include <string>

#include "config/config.hpp"
#include "doctor/finding.hpp"

namespace tidegate::doctor {

struct GatewayFile {
    std::string name;
    std::string text;
};

// What is wrong in `files`, which are of one gateway, in the places that ask a listener of
// `config`; what they ask of others is not looked at. A part that is not understood is a note.
Findings check_gateway_files(std::span<const GatewayFile> files, const config::Config& config);

// Of `config`, the listener at which a gateway arrives that asks `server`, a host and port or a
// Unix socket as parse_server_url() takes it. The name of a host may be that of any machine, so
// then the port decides. Null: none.
const config::Listen* listener_asked(const std::string& server, const config::Config& config);

}  // namespace tidegate::doctor

#include "doctor/gateway_file.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "config/address.hpp"
#include "doctor/caddy_question.hpp"
#include "doctor/faces.hpp"
#include "doctor/gateway_text.hpp"
#include "doctor/nginx_question.hpp"

namespace tidegate::doctor {

namespace {

// Beyond what leads_to() knows: a listener that other machines reach, by a name or an address of
// this one that the configuration does not have.
bool may_lead_to(const config::Address& server, const config::Address& listener) {
    if (server.is_unix() || listener.is_unix() || server.port != listener.port) return false;
    const auto at = parse_ip(listener.host);
    if (!at || is_loopback(*at) || server.host == "localhost") return false;
    return at->is_unspecified() || !parse_ip(server.host);
}

void note_that_nothing_asks(Findings& findings) {
    findings.note("gateway.questions",
                  "no question to a listener of this configuration was found: `auth_request` "
                  "(nginx) or `forward_auth` (Caddy)",
                  "name the file that has it, and that of the location or upstream it asks; files "
                  "that it includes are not read");
}

}  // namespace

const config::Listen* listener_asked(const std::string& server, const config::Config& config) {
    const auto url =
        config::parse_server_url(server.starts_with("unix:") ? server : "http://" + server);
    if (!url) return nullptr;
    for (const config::Listen& listen : config.listen) {
        if (config::leads_to(url->address, listen.address)) return &listen;
    }
    for (const config::Listen& listen : config.listen) {
        if (may_lead_to(url->address, listen.address)) return &listen;
    }
    return nullptr;
}

Findings check_gateway_files(std::span<const GatewayFile> files, const config::Config& config) {
    struct Read {
        const GatewayFile* file;
        std::optional<Directives> nginx;
        std::optional<Directives> caddy;
    };
    std::vector<Read> all;
    NginxNames names;
    for (const GatewayFile& file : files) {
        Read read{&file, read_nginx(file.text), {}};
        if (!read.nginx) read.caddy = read_caddyfile(file.text);
        all.push_back(std::move(read));
    }
    // They may refer to each other.
    for (const Read& read : all) {
        if (read.nginx) names.add(*read.nginx);
    }
    Findings findings;
    for (const Read& read : all) {
        Findings of_file("gateway " + read.file->name);
        bool asks = true;
        if (read.nginx) {
            asks = check_nginx_questions(*read.nginx, names, config, of_file);
        } else if (read.caddy) {
            asks = check_caddy_questions(*read.caddy, config, of_file);
        } else {
            of_file.note("gateway.file",
                         "not looked at: it is no configuration of nginx and no Caddyfile, or has "
                         "a part that `doctor` does not understand",
                         "compare it with docs/faces.md");
        }
        if (!asks && of_file.list().empty()) note_that_nothing_asks(of_file);
        findings.append(std::move(of_file));
    }
    return findings;
}

}  // namespace tidegate::doctor

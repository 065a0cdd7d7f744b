// The configuration of a command: which one it is (`-c FILE`, `FILE`, or tidegate.yaml of the
// current folder), and what its reader found, in words for a terminal and as JSON.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "app/certificate_list.hpp"
#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate {
class Doc;
}  // namespace tidegate

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

inline constexpr const char* kDefaultFile = "tidegate.yaml";

struct ConfigArguments {
    std::string option;    // what follows -c; empty: -c is not given
    std::string argument;  // the file without -c; empty: it is not given
};

// Adds `-c FILE` and `FILE` to `command`; `arguments` lives as long.
void add_config_file(CLI::App& command, ConfigArguments& arguments);

// Says whether there is a tidegate.yaml, or something of that name that cannot be looked at: its
// reader reports that.
bool has_default_file();

struct ConfigFile {
    std::string path;  // `-`: standard input
};

// The error says what to write. `command` is the command's name, for that.
Result<ConfigFile, std::string> find_config_file(const ConfigArguments& arguments,
                                                 std::string_view command);

// config::load_file() for a command. Standard error tells of a path that does not answer.
config::Loaded load_config(const std::string& path);

// Every fault, then every warning, a line each: `file:line:column: error: message`, as compilers
// and editors have it.
std::string report(const config::Loaded& loaded);

// `ok: 3 routes, 2 policies, 1 upstream, hash 0123456789abcdef`, or how many faults there are;
// without newline.
std::string summary(const config::Loaded& loaded);

// Null: it has a fault, which is complained of.
std::shared_ptr<const config::Config> load_or_complain(const std::string& path);

// A line for each certificate: `listen 0.0.0.0:443: a.pem: ECDSA P-256, 41 days left (until
// 2026-11-21), for a.example`. And one for each listener whose certificates are all RSA. In JSON
// `certificates`: [{"place":"listen 0.0.0.0:443","file":"a.pem","names":["a.example"],
// "key":"ECDSA P-256","days_left":41,"until":"2026-11-21T10:00:00Z"}].
void add_certificates(std::span<const app::ListedCertificate> certificates,
                      std::chrono::system_clock::time_point now, Doc& doc);

// Returns what `check` prints behind report(): certificates and the summary. For programs all of
// it:
// {"ok":true,"routes":3,"policies":2,"upstreams":1,"hash":"0123456789abcdef","certificates":[...],"errors":[...],
// "warnings":[{"file":"t.yaml","line":7,"column":12,"message":"..."}]}. Without the counts and
// certificates where there is no configuration.
Doc check_result(const config::Loaded& loaded, bool is_strict,
                 std::chrono::system_clock::time_point now);

}  // namespace tidegate::cli

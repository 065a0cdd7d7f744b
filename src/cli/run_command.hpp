// `tidegate run` and `tidegate quickstart`: their part of the command line.
#pragma once

#include <string>

#include "cli/config_file.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

// Where the echo upstream of `run --echo` and of the quickstart listens.
inline constexpr const char* kEchoAddress = "127.0.0.1:9000";

struct RunArguments {
    ConfigArguments config;
    bool with_echo = false;
    bool is_watched = false;
};

struct QuickstartArguments {
    std::string face;  // a name of base/face.hpp; empty: the proxy
    bool with_tls = false;
};

// Each adds the command to `app`; `arguments` lives as long.
CLI::App* describe_run(CLI::App& app, RunArguments& arguments);
CLI::App* describe_quickstart(CLI::App& app, QuickstartArguments& arguments);

// Run the proxy until it is stopped. Return the exit code: 0, 1 when it could not start, 2 when
// there is no configuration. Throw std::system_error when the echo upstream cannot listen.
int run_proxy(const RunArguments& arguments);
int run_quickstart(const QuickstartArguments& arguments);

}  // namespace tidegate::cli

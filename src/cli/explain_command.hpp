// `tidegate explain`: its part of the command line.
#pragma once

#include <string>

#include "cli/explain.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct ExplainArguments {
    std::string file;  // the default when none is given
    Question question;
    std::string face{};         // empty: that of `listen`, or proxy
    std::string listen{};       // the address of a listener; empty: the only one of the face
    std::string body{};         // a file with the call of the check API; empty: none
    std::string certificate{};  // a file with that of the client; empty: it has none
    std::string host;           // empty: none given
    std::string from;           // empty: the Unix socket
    bool trusted_socket = false;
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_explain(CLI::App& app, const std::string& default_file,
                           ExplainArguments& arguments);

// Prints the explanation. Returns the exit code: 1 when the configuration has a fault. What the
// proxy would refuse is explained like anything else.
int run_explain(const ExplainArguments& arguments);

}  // namespace tidegate::cli

// `tidegate explain`: its part of the command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/explain.hpp"

namespace tidegate::cli {

struct ExplainArguments {
    std::string file;  // the default when none is given
    Question question;
    std::string face{};  // empty: proxy
    std::string host;    // empty: none given
    std::string from;    // empty: the Unix socket
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

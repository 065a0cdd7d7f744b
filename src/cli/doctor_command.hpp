// `tidegate doctor`: its part of the command line.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct DoctorArguments {
    std::string file;  // the default when none is given
    std::string time;  // a duration
    std::vector<std::string> gateway_files;
    bool as_json = false;
};

// Adds the command to `app`; `arguments` lives as long.
CLI::App* describe_doctor(CLI::App& app, const std::string& default_file,
                          DoctorArguments& arguments);

// Looks at everything and prints what was found. Returns the exit code: 0 when all is well, 1 with
// warnings, 3 with faults or when it cannot look. Throws nothing.
int run_doctor(const DoctorArguments& arguments);

}  // namespace tidegate::cli

#include <filesystem>

#include <doctest/doctest.h>

#include "cli/inspect_command.hpp"

namespace tidegate::cli::inspect_command_test {

TEST_CASE("inspect command: a fault of the token file never means that nothing is counted") {
    InspectArguments arguments;
    arguments.identifier = "user:alice";
    arguments.admin = "127.0.0.1:1";
    // A folder can be opened, but not read.
    arguments.token_file = std::filesystem::temp_directory_path().string();
    CHECK(run_inspect(arguments) == 2);
    CHECK(run_reset(arguments) == 2);
}

}  // namespace tidegate::cli::inspect_command_test

#include <filesystem>

#include <doctest/doctest.h>

#include "cli/inspect_command.hpp"

namespace tidegate::cli {

TEST_CASE("counts command: an exception is no answer, and never means that nothing is counted") {
    InspectArguments arguments;
    arguments.identifier = "user:alice";
    arguments.admin = "127.0.0.1:1";
    // A folder can be opened, and then throws when it is read.
    arguments.token_file = std::filesystem::temp_directory_path().string();
    CHECK(run_inspect(arguments) == 3);
    CHECK(run_reset(arguments) == 3);
}

}  // namespace tidegate::cli

#include "cli/exit_code.hpp"

#include <fmt/core.h>

namespace tidegate::cli {

int complain(int code, std::string_view what) {
    fmt::print(stderr, "{}\n", what);
    return code;
}

}  // namespace tidegate::cli

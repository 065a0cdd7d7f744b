#include "places.hpp"

namespace tidegate::test {

std::string source_folder() {
    return TIDEGATE_SOURCE_DIR;
}

std::string built_program() {
    return TIDEGATE_PROGRAM;
}

}  // namespace tidegate::test

// One cell of the matrix: two Tidegates under load while something happens to their Redis.
#pragma once

#include <string>
#include <vector>

#include "matrix/way_in.hpp"

namespace tidegate::test {

struct Cell {
    double away_s = 0;      // from the fault until Redis could decide again
    double back_s = 0;      // from then until the last decision without it
    double longest_ms = 0;  // of all decisions
    int admitted = 0;       // by Redis
    int admitted_locally = 0;
    int quota = 0;  // of all users together
    std::string failures;
    std::vector<std::string> broken;  // the expectations that failed
};

// `servers` are of no use afterwards. Throws std::runtime_error when a necessary event, such as the
// return of Redis, does not come.
Cell run_cell(WayIn& servers, Fault fault);

}  // namespace tidegate::test

// What Tidegate does when its Redis fails, measured: each way in, each fault. Driven by
// scripts/matrix, for which it prints a line of JSON for each cell; TIDEGATE_MATRIX_FILTER chooses
// those whose `way: fault` contains it.
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "matrix/cell.hpp"
#include "matrix/way_in.hpp"

namespace tidegate::test::fault_matrix {

namespace {

bool is_chosen(const std::string& cell) {
    const char* const filter = std::getenv("TIDEGATE_MATRIX_FILTER");
    return filter == nullptr || cell.find(filter) != std::string::npos;
}

// Two figures are enough.
double rounded(double value) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2) << value;
    return std::stod(text.str());
}

void record(std::string_view way, Fault fault, const nlohmann::json& cell) {
    const nlohmann::json line{{"way", way}, {"fault", name_of(fault)}, {"cell", cell}};
    std::cout << line.dump() << std::endl;
}

nlohmann::json as_json(const Cell& cell) {
    return {{"away_s", rounded(cell.away_s)},
            {"back_s", rounded(cell.back_s)},
            {"longest_ms", rounded(cell.longest_ms)},
            {"admitted", cell.admitted},
            {"locally", cell.admitted_locally},
            {"quota", cell.quota},
            {"failures", cell.failures},
            {"broken", cell.broken}};
}

void run(std::string_view way, Fault fault) {
    const std::string name = std::string(way) + ": " + name_of(fault);
    if (!is_chosen(name)) return;
    if (!can_suffer(way, fault)) {
        record(way, fault, nullptr);
        return;
    }
    Cell cell;
    try {
        cell = run_cell(*make_way(way, fault), fault);
    } catch (const std::exception& failed) {
        cell.broken.emplace_back(failed.what());
    }
    record(way, fault, as_json(cell));
    for (const std::string& what : cell.broken) FAIL_CHECK(name << ": " << what);
}

void run_all(std::string_view way) {
    for (const Fault fault : kFaults) run(way, fault);
}

}  // namespace

TEST_CASE("fault matrix: one Redis") {
    run_all("redis");
}

TEST_CASE("fault matrix: one Redis over TLS") {
    run_all("tls");
}

TEST_CASE("fault matrix: a user with the rights that are needed, and no more") {
    run_all("acl");
}

TEST_CASE("fault matrix: three sentinels, a master, two replicas") {
    run_all("sentinel");
}

TEST_CASE("fault matrix: a cluster of three masters with a replica each") {
    run_all("cluster");
}

}  // namespace tidegate::test::fault_matrix

// Replays a log as `tidegate simulate` does, and says how fast: simulate_speed CONFIGURATION LOG...
// The program itself reads the same lines with the same code; this one needs fewer rooms to build.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "simulate/replay.hpp"
#include "simulate/report.hpp"
#include "simulate/simulation.hpp"

int main(int argc, char** argv) {
    using namespace tidegate;
    if (argc < 3) return 2;
    const auto loaded = config::load_file(argv[1]);
    if (!loaded.config) return 1;
    simulate::LogLayout layout;
    simulate::add_wanted(*loaded.config, layout.wanted);
    auto opened = simulate::Replay::open({argv + 2, argv + argc}, layout, std::nullopt);
    if (!opened) {
        std::fprintf(stderr, "%s\n", opened.error().c_str());
        return 1;
    }
    simulate::Replay& replay = **opened;
    const auto began = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    simulate::Simulation simulation(loaded.config, replay.facts(), layout.wanted);
    replay.run(
        [&](std::span<const simulate::LoggedRequest> requests) { simulation.decide(requests); });
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    const Doc doc = simulate::report(replay, simulation, nullptr, nullptr, {});
    std::fputs(doc.text().c_str(), stdout);
    const auto lines = static_cast<double>(replay.lines());
    std::fprintf(stderr, "%.0f lines, %.2f s, %.0f lines/s; of a core %.0f lines/s\n", lines, took,
                 lines / took, lines / used);
    return doc.exit_code;
}

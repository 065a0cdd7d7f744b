// A configuration, logs in files of a test's own, and their simulation.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "simulate/replay.hpp"
#include "simulate/report.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::simulate {

inline std::shared_ptr<const config::Config> load(const std::string& yaml) {
    auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

// A file with `text`, which goes with the object.
class LogOnDisk {
  public:
    explicit LogOnDisk(const std::string& text) {
        static std::atomic<int> count{0};
        path_ =
            (std::filesystem::temp_directory_path() /
             ("tidegate-simulate-" + std::to_string(::getpid()) + "-" + std::to_string(++count)))
                .string();
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~LogOnDisk() { std::filesystem::remove(path_); }
    LogOnDisk(const LogOnDisk&) = delete;
    LogOnDisk& operator=(const LogOnDisk&) = delete;

    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

struct Options {
    std::vector<std::string> map{};
    std::optional<LogFormat> format{};
    std::string candidate{};
    std::optional<std::int64_t> suggest_share{};
    std::string host{};
    std::shared_ptr<const limit::TimeZone> zone{};
    std::int64_t order_seconds = kOrderSeconds;
};

// A simulation that has run.
struct Ran {
    Ran(const std::string& yaml, const std::vector<std::string>& logs,
        const Options& options = {}) {
        const auto live = load(yaml);
        LogLayout layout;
        add_wanted(*live, layout.wanted);
        const auto next = options.candidate.empty() ? nullptr : load(options.candidate);
        if (next) add_wanted(*next, layout.wanted);
        for (const std::string& one : options.map) layout.map.push_back(*parse_mapping(one));
        layout.host = options.host;
        layout.zone = options.zone;
        layout.order_seconds = options.order_seconds;
        layout.needs_address = needs_address(*live) || (next && needs_address(*next));
        std::vector<std::string> paths;
        for (const std::string& log : logs) {
            files.push_back(std::make_unique<LogOnDisk>(log));
            paths.push_back(files.back()->path());
        }
        auto opened = Replay::open(paths, layout, options.format);
        if (!opened) FAIL(opened.error());
        replay = std::move(*opened);
        simulation = std::make_unique<Simulation>(live, replay->facts(), layout.wanted);
        if (next) candidate = std::make_unique<Simulation>(next, replay->facts(), layout.wanted);
        Comparison comparison(1'000);
        replay->run([&](std::span<const LoggedRequest> requests) {
            const auto by_live = simulation->decide(requests);
            for (const LoggedRequest& request : requests) times.push_back(request.time);
            for (const Simulation::Decided& one : by_live) verdicts.push_back(one.verdict);
            if (!candidate) return;
            const auto by_candidate = candidate->decide(requests);
            for (std::size_t i = 0; i < requests.size(); ++i) {
                comparison.add(by_live[i], by_candidate[i]);
            }
        });
        doc = report(*replay, *simulation, candidate.get(), candidate ? &comparison : nullptr,
                     {options.suggest_share});
    }

    const Doc::Json& limit(std::size_t policy = 0, std::size_t limit = 0) const {
        return doc.json["policies"][policy]["limits"][limit];
    }
    bool says(const std::string& text) const { return doc.text().find(text) != std::string::npos; }

    std::vector<std::unique_ptr<LogOnDisk>> files;
    std::unique_ptr<Replay> replay;
    std::unique_ptr<Simulation> simulation;
    std::unique_ptr<Simulation> candidate;
    std::vector<Micros> times;
    std::vector<Simulation::Verdict> verdicts;
    Doc doc;
};

}  // namespace tidegate::simulate

// examine() finds out what is wrong with all that a configuration depends on, and says what to do:
// Redis, sentinels, clusters, upstreams, keys, certificates, listeners with TLS, clocks, the
// collector of spans, gateways that ask. The doctor changes nothing and leaves no key behind. The
// scripts stay in Redis's cache of scripts, where Tidegate would have put them, and Redis's ACL LOG
// has what it refused (INFO and CONFIG GET, if nothing else). An upstream gets no request but its
// health check.
//
// A Finding says what the doctor looked at, what it is like, and what to do about it. Findings
// become text for people and JSON for programs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate {
class Doc;
}  // namespace tidegate

namespace tidegate::doctor {

// In the order of how bad it is.
BOOST_DEFINE_FIXED_ENUM_CLASS(Severity, std::uint8_t, ok,
                              note,     // worth knowing, or not to be found out
                              warning,  // works, but will not do so for ever or not as meant
                              fault)    // does not work

// Texts are fit for a terminal and hold no secret.
struct Finding {
    Severity severity = Severity::ok;
    std::string_view check;  // for programs, does not change: `redis.version`; a constant
    std::string about;       // `redis 10.0.0.1:6379`
    std::string what;        // a clause
    std::string advice{};    // an instruction; empty where there is nothing to do
};

// Findings about one thing, in the order they were made. One thread.
class Findings {
  public:
    explicit Findings(std::string about = {}) : about_(std::move(about)) {}

    void ok(std::string_view check, std::string what) {
        add(Severity::ok, check, std::move(what), {});
    }
    void note(std::string_view check, std::string what, std::string advice) {
        add(Severity::note, check, std::move(what), std::move(advice));
    }
    void warning(std::string_view check, std::string what, std::string advice) {
        add(Severity::warning, check, std::move(what), std::move(advice));
    }
    void fault(std::string_view check, std::string what, std::string advice) {
        add(Severity::fault, check, std::move(what), std::move(advice));
    }
    void add(Severity severity, std::string_view check, std::string what, std::string advice) {
        list_.push_back({severity, check, about_, std::move(what), std::move(advice)});
    }
    // Adds those about other things.
    void append(Findings&& others) {
        list_.insert(list_.end(), std::make_move_iterator(others.list_.begin()),
                     std::make_move_iterator(others.list_.end()));
    }

    // The same, where nothing is worse than `worst`: of things that others make up for.
    Findings at_most(Severity worst) && {
        for (Finding& finding : list_) finding.severity = std::min(finding.severity, worst);
        return std::move(*this);
    }
    // The same without what is well.
    Findings only_wrong() && {
        std::erase_if(list_, [](const Finding& one) { return one.severity <= Severity::note; });
        return std::move(*this);
    }

    const std::vector<Finding>& list() const { return list_; }

  private:
    std::string about_;
    std::vector<Finding> list_;
};

inline constexpr int kExitFaults = 3;

// A line for each finding, with what to do below it, and how many of each severity there are. The
// exit code is 0 if all is well, notes aside; 1: warnings; 3: faults. 2 is for a wrong command
// line.
Doc doc_of(std::span<const Finding> findings);

inline constexpr std::chrono::milliseconds kDefaultTime{10'000};

// A type of its own, as Result<std::string, std::string> would be ambiguous.
struct MetricsText {
    std::string text;
};

// The Tidegate that may be running with the configuration.
struct RunningProxy {
    // Asks the running Tidegate for /metrics, within a time; else says why there are none. Called
    // by several threads at once. Empty: it cannot be asked.
    std::function<Result<MetricsText, std::string>(std::chrono::milliseconds)> metrics{};
};

// Looks at everything, at once where things do not depend on each other. Blocks for at most `time`
// and a little. A configuration with faults is all that is looked at then.
Findings examine(const config::Loaded& loaded, const std::string& summary,
                 const RunningProxy& beside, std::chrono::milliseconds time = kDefaultTime);

}  // namespace tidegate::doctor

// Findings about a gateway's file: each says the line of the question that is looked at.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "doctor/finding.hpp"

namespace tidegate::doctor {

class LineFindings {
  public:
    // `findings` outlives this.
    explicit LineFindings(Findings& findings) : findings_(findings) {}

    // From now on the findings are about line `line`. Nothing was found there yet.
    void begin(int line) {
        line_ = line;
        before_ = findings_.list().size();
    }
    bool are_none() const { return findings_.list().size() == before_; }

    void ok(std::string_view check, const std::string& what) { findings_.ok(check, placed(what)); }
    void warning(std::string_view check, const std::string& what, std::string advice) {
        findings_.warning(check, placed(what), std::move(advice));
    }
    void fault(std::string_view check, const std::string& what, std::string advice) {
        findings_.fault(check, placed(what), std::move(advice));
    }
    // The doctor cannot look at `what`.
    void skip(const std::string& what) {
        findings_.note("gateway.file", placed("not looked at: " + what), {});
    }

  private:
    std::string placed(const std::string& what) const {
        return fmt::format("line {}: {}", line_, what);
    }

    Findings& findings_;
    int line_ = 0;
    std::size_t before_ = 0;
};

}  // namespace tidegate::doctor

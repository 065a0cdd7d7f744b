// Explains what a call of the check API would be charged. Nothing is. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"
#include "cli/explain.hpp"
#include "config/config.hpp"
#include "faces/check_call.hpp"

namespace tidegate::cli {

struct CallQuestion {
    const config::Listen& listen;     // where it arrives
    std::optional<IpAddress> from{};  // the peer; none: it may ask
    bool reserves = false;            // POST /v1/reserve, else /v1/check
    std::string_view body{};
};

struct CallExplanation {
    faces::CheckCall::Form form = faces::CheckCall::Form::one;
    std::vector<Explanation> items;  // as far as they were looked at
    // Of all items that are one charge.
    std::size_t identifiers = 0;
    std::size_t limits = 0;

    int refusal = 0;  // of the whole call; 0: each item has a result
    std::string refusal_reason;
};

// The token of the listener is not looked at. Blocks as explain() does.
CallExplanation explain_call(const std::shared_ptr<const config::Config>& config,
                             const CallQuestion& question, const FetchKeys& fetch_keys);

std::string explanation_text(const CallExplanation& explanation);
std::string explanation_json(const CallExplanation& explanation);

}  // namespace tidegate::cli

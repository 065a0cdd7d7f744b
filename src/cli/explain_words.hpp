// The words of an explanation: reasons for people, and names for programs that do not change. Pure.
#pragma once

#include <string>
#include <string_view>

#include "cli/explain.hpp"

namespace tidegate::cli {

struct Words {
    std::string_view name;    // `trusted`, for programs
    std::string_view reason;  // a clause, for people
};

Words words_of(identity::Hop::Kind kind);
Words words_of(Explanation::Method::Outcome outcome);
Words words_of(routing::Mismatch mismatch);
Words words_of(ask::ChargeNotes::Outcome outcome);
Words words_of(ask::ChargeNotes::KeyOutcome outcome);

// `10 in 1s, sliding_window, burst 20`
std::string described(const limit::Limit& limit);

}  // namespace tidegate::cli

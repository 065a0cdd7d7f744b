#include "telemetry/outcome.hpp"

namespace tidegate::telemetry {

std::string_view to_string(Outcome outcome) {
    switch (outcome) {
        case Outcome::forwarded:
            return "forwarded";
        case Outcome::answered:
            return "answered";
        case Outcome::redirected:
            return "redirected";
        case Outcome::limited:
            return "limited";
        case Outcome::rejected:
            return "rejected";
        case Outcome::failed:
            return "failed";
        case Outcome::unavailable:
            return "unavailable";
        case Outcome::aborted:
            return "aborted";
    }
    return "";
}

}  // namespace tidegate::telemetry

// `telemetry`: the data about clients that Tidegate keeps for operators.
#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

void read_telemetry(const Value& value, Config& config) {
    Section section(value);
    if (const auto top = section.find("top")) {
        constexpr auto kMin = static_cast<std::int64_t>(Telemetry::kTopMin);
        constexpr auto kMax = static_cast<std::int64_t>(Telemetry::kTopMax);
        if (top->is_off()) {
            config.telemetry.top = 0;
        } else if (const auto text = top->text("a number of names such as `1024`, or `off`")) {
            const auto names = parse_decimal(*text);
            if (names && *names >= kMin && *names <= kMax) {
                config.telemetry.top = static_cast<std::size_t>(*names);
            } else {
                top->fault(quote(*text) + " is not a number of names: write " +
                           std::to_string(kMin) + " to " + std::to_string(kMax) + ", or `off`");
            }
        }
    }
    section.refuse_others();
}

}  // namespace tidegate::config

// Settings that no listener uses, as none forwards requests.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "config/read_sections.hpp"

namespace tidegate::config {

// One warning for all: routes are often shared with a Tidegate that is a proxy.
void warn_about_faces(const Config& config, const Declared& declared, Context& context) {
    if (config.has_face(Face::proxy) || declared.forwarding.empty()) return;
    const auto& first = *std::min_element(
        declared.forwarding.begin(), declared.forwarding.end(), [](const auto& a, const auto& b) {
            return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
        });
    std::string message =
        first.name + ": has no effect: no listener has `face: proxy`, so Tidegate forwards nothing";
    if (const std::size_t more = declared.forwarding.size() - 1; more != 0) {
        message += "; the same holds for " +
                   (more == 1 ? "another setting" : std::to_string(more) + " other settings");
    }
    context.warnings.push_back({first.place, std::move(message)});
}

}  // namespace tidegate::config

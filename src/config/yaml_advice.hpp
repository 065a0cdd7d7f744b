// What to write where yaml-cpp finds that a text is not YAML. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "config/yaml_document.hpp"

namespace tidegate::config {

// The fault for yaml-cpp's `message` about `place` of `text`: in words that say what to write, at
// the place where to write it. Where the cause is not known, `message` itself.
Fault explain_yaml_error(std::string_view text, Place place, std::string_view message);

// A text by lines, for what yaml-cpp lets pass: it ends a quoted value at the end of the text, and
// takes all that follows the quote for the value.
class YamlSource {
  public:
    // `text` outlives this.
    explicit YamlSource(std::string_view text);

    // The fault if a quote begins at `place` and nothing closes it.
    std::optional<Fault> unclosed_quote(Place place) const;

  private:
    std::string_view text_;
    std::vector<std::size_t> lines_;  // where each begins
};

}  // namespace tidegate::config

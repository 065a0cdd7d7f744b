// The configuration of a gateway as directives: of nginx, or a Caddyfile. Read leniently: what a
// directive means is not known here. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::doctor {

struct Directive {
    std::vector<std::string> words;  // the name and its arguments, without quotes; not empty
    std::vector<Directive> block{};
    int line = 0;  // where the name is

    const std::string& name() const { return words.front(); }
};
using Directives = std::vector<Directive>;

// Nothing: `text` is not such a configuration, or has a part that is not understood.
std::optional<Directives> read_nginx(std::string_view text);
std::optional<Directives> read_caddyfile(std::string_view text);

}  // namespace tidegate::doctor

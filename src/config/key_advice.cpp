#include "config/key_advice.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "config/misplaced_keys.hpp"

namespace tidegate::config {

namespace {

// The section without the names that the user chose: `routes[3].match` is `routes[].match`, and a
// policy is `policies.*`, also on a route.
std::string section_kind(std::string_view section) {
    std::string kind;
    for (std::size_t i = 0; i < section.size(); ++i) {
        kind += section[i];
        if (section[i] == '[') i = std::min(section.find(']', i), section.size()) - 1;
    }
    if (kind.ends_with(".policies[]")) return "policies.*";
    // A single listener need not be in a list, nor its only certificate.
    for (const std::string_view list : {"listen", "listen[].tls.certificates"}) {
        if (kind == list || kind.starts_with(std::string(list) + '.'))
            kind.insert(list.size(), "[]");
    }
    for (const std::string_view named : {"policies.", "upstreams."}) {
        if (!kind.starts_with(named)) continue;
        const std::size_t end = std::min(kind.find('.', named.size()), kind.size());
        kind.replace(named.size(), end - named.size(), "*");
    }
    return kind;
}

}  // namespace

std::string_view advice_for_key(std::string_view section, std::string_view key) {
    const std::string kind = section_kind(section);
    // Lists of limits occur in several sections.
    const std::string_view last = kind.ends_with(".limits[]") ? std::string_view("limits[]") : kind;
    const auto is_meant = [&](const MisplacedKey& one) {
        return one.key == key && one.section == last;
    };
    for (const std::span<const MisplacedKey> keys : {misplaced_keys(), misplaced_tls_keys()}) {
        const auto found = std::find_if(keys.begin(), keys.end(), is_meant);
        if (found != keys.end()) return found->advice;
    }
    return {};
}

}  // namespace tidegate::config

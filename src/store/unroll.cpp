#include "store/unroll.hpp"

#include <algorithm>

namespace tidegate::store {
namespace {

void replace_all(std::string& text, std::string_view name, std::string_view value) {
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size())) {
        text.replace(at, name.size(), value);
    }
}

std::string with_number(std::string_view text, std::string_view number) {
    std::string out(text);
    replace_all(out, "$", number);
    return out;
}

// The text before the next `begin`, between `begin` and the `end` after it, and after that.
struct Part {
    std::string_view before;
    std::string_view inside;
    std::string_view after;
    bool found = false;
};

Part next_part(std::string_view text, std::string_view begin, std::string_view end) {
    const std::size_t from = text.find(begin);
    const std::size_t to = from == std::string_view::npos ? from : text.find(end, from);
    if (to == std::string_view::npos) return {text, {}, {}, false};
    const std::size_t inside = from + begin.size();
    return {text.substr(0, from), text.substr(inside, to - inside), text.substr(to + end.size()),
            true};
}

// A directive has no space behind its dashes.
std::string without_comments(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::string_view line =
            text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
        text.remove_prefix(line.size());
        const std::string_view words =
            line.substr(std::min(line.find_first_not_of(' '), line.size()));
        if (!words.starts_with("-- ") && words != "--\n") out += line;
    }
    return out;
}

std::string list_of(std::string_view item, std::size_t limits) {
    const bool is_format = item.find('$') == std::string_view::npos;
    std::string out;
    for (std::size_t number = 1; number <= limits; ++number) {
        if (number > 1 && !is_format) out += ", ";
        out += with_number(item, std::to_string(number));
    }
    return out;
}

std::string with_lists(std::string_view text, std::size_t limits) {
    std::string out;
    for (Part part = next_part(text, "{{", "}}"); part.found; part = next_part(text, "{{", "}}")) {
        out.append(part.before).append(list_of(part.inside, limits));
        text = part.after;
    }
    out += text;
    replace_all(out, "LIMITS", std::to_string(limits));
    return out;
}

std::string branch_for(std::string_view branch, std::string_view window, std::size_t limits) {
    std::string windows;
    for (std::size_t number = limits; number >= 1; --number) {
        windows += with_number(window, std::to_string(number));
    }
    std::string out = with_lists(branch, limits);
    replace_all(out, "--each window\n", windows);
    return out;
}

}  // namespace

std::string unroll(std::string_view text, std::string_view window, std::size_t most) {
    const std::string code = without_comments(text);
    const std::string window_code = without_comments(window);
    const Part part = next_part(code, "--each number of limits\n", "--end\n");
    std::string out = with_lists(part.before, most);
    replace_all(out, "--window\n", with_number(window_code, ""));
    for (std::size_t limits = 1; part.found && limits <= most; ++limits) {
        out += branch_for(part.inside, window_code, limits);
    }
    return out += with_lists(part.after, most);
}

}  // namespace tidegate::store

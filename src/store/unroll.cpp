#include "store/unroll.hpp"

#include <utility>

namespace tidegate::store {
namespace {

constexpr std::size_t kHeadBytes = 16;
constexpr std::size_t kRecordBytes = 28;

void replace_all(std::string& text, std::string_view name, const std::string& value) {
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size())) {
        text.replace(at, name.size(), value);
    }
}

std::string with_number(std::string_view text, const std::string& number) {
    std::string out(text);
    replace_all(out, "$", number);
    return out;
}

std::string numbered(std::string_view text, std::size_t number) {
    return with_number(text, std::to_string(number));
}

// What stands before the next `begin`, between it and the `end` after it, and behind that.
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

std::string list_of(std::string_view item, std::size_t limits) {
    const bool is_format = item.find('$') == std::string_view::npos;
    std::string out;
    for (std::size_t number = 1; number <= limits; ++number) {
        if (number > 1 && !is_format) out += ", ";
        out += numbered(item, number);
    }
    return out;
}

std::string with_lists(std::string_view text, std::size_t limits) {
    std::string out;
    for (;;) {
        const Part part = next_part(text, "{{", "}}");
        out += part.before;
        if (!part.found) return out;
        out += list_of(part.inside, limits);
        text = part.after;
    }
}

std::string with_blocks(std::string_view text, std::size_t limits) {
    std::string out;
    for (;;) {
        const Part part = next_part(text, "--each limit", "--end\n");
        out += part.before;
        if (!part.found) return out;
        const std::string_view lines = part.inside.substr(part.inside.find('\n') + 1);
        for (std::size_t number = limits; number >= 1; --number) out += numbered(lines, number);
        text = part.after;
    }
}

}  // namespace

std::string unroll(std::string_view text, std::size_t limits) {
    std::string out = with_blocks(with_lists(text, limits), limits);
    replace_all(out, "LIMITS", std::to_string(limits));
    replace_all(out, "HEAD", std::to_string(kHeadBytes + kRecordBytes * limits));
    return out;
}

std::string with_lines(std::string_view text, std::string_view mark, std::string_view lines) {
    const Part part = next_part(text, mark, "\n");
    std::string out(part.before);
    // The lines have an indentation of their own.
    while (part.found && out.ends_with(' ')) out.pop_back();
    if (part.found) out += lines;
    return out.append(part.after);
}

std::string in_loop(std::string_view lines) {
    return with_number(lines, "");
}

}  // namespace tidegate::store

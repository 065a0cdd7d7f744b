#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kNotYaml = "this is not YAML: ";

// Line `number`, from 1, without its end; empty behind the last one.
std::string_view line_of(std::string_view text, int number) {
    for (; number > 1 && !text.empty(); --number) {
        const std::size_t end = text.find('\n');
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    const std::string_view line = text.substr(0, text.find('\n'));
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

std::string_view without_indent(std::string_view line) {
    return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

bool indented_by_tab(std::string_view line) {
    return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
}

// What is wrong may be a secret, so messages repeat no more than the sign that it begins with.
std::string quoted_from(char first) {
    return quote("\"" + std::string(1, first) + "...\"");
}

int column_of(std::size_t position) {
    return static_cast<int>(position) + 1;
}

// `*` begins an alias.
std::optional<ConfigFault> explain_star(std::string_view line, Place place) {
    const auto before = static_cast<std::size_t>(std::max(place.column - 1, 0));
    const std::size_t star = line.rfind('*', before);
    if (star == std::string_view::npos) return std::nullopt;
    return ConfigFault{
        {place.line, column_of(star)},
        "YAML takes a value that begins with `*` for an alias: quote it, " + quoted_from('*')};
}

// `{` in the middle of a value inside `{...}` or `[...]` begins a map there.
std::optional<ConfigFault> explain_brace(std::string_view line, Place place) {
    const auto brace = static_cast<std::size_t>(std::max(place.column - 1, 0));
    if (brace == 0 || brace >= line.size() || line[brace] != '{') return std::nullopt;
    if (std::string_view(" ,[{:").find(line[brace - 1]) != std::string_view::npos) {
        return std::nullopt;
    }
    const std::size_t begin = line.find_last_of(" ,[{", brace - 1) + 1;
    return ConfigFault{{place.line, column_of(begin)},
                       "`{` begins a map inside `{...}` and `[...]`: quote the whole value"};
}

// Whether, in a value in quotes `mark`, `c` makes the character `next` behind it a part of the
// value. A line end is none: lines are counted.
bool is_escape(char mark, char c, char next) {
    if (next == '\n') return false;
    return mark == '"' ? c == '\\' : c == mark && next == mark;
}

// Follows brackets and quotes through a text, to find those that are never closed. Knows less than
// YAML: asked only once the text is known to be wrong.
class BracketScanner {
  public:
    struct Opened {
        char mark;
        Place place;
    };

    explicit BracketScanner(std::string_view text) : text_(text) {
        for (; at_ < text_.size(); ++at_) step();
    }

    // The quote that is open at the end, or else the innermost bracket.
    std::optional<Opened> left_open() const {
        if (quote_) return quote_;
        if (!open_.empty()) return open_.back();
        return std::nullopt;
    }

  private:
    char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }
    bool next_is_space() const { return next() == ' ' || next() == '\n' || next() == '\r'; }
    Place place() const { return {line_, column_of(at_ - line_begin_)}; }

    void step() {
        const char c = text_[at_];
        if (c == '\n') {
            ++line_;
            line_begin_ = at_ + 1;
            if (!quote_) in_plain_ = false;
            return;
        }
        if (quote_) {
            step_in_quotes(c);
        } else if (c == '#' && (at_ == line_begin_ || text_[at_ - 1] == ' ')) {
            at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
        } else if (c == ':' && (next_is_space() || is_closing(next()))) {
            in_plain_ = false;
        } else if (!open_.empty() && (c == ',' || is_closing(c))) {
            in_plain_ = false;
            if (c != ',') open_.pop_back();
        } else if (!in_plain_ && c != ' ' && !(c == '-' && next_is_space())) {
            begin_value(c);
        }
    }

    void step_in_quotes(char c) {
        if (is_escape(quote_->mark, c, next())) {
            ++at_;
        } else if (c == quote_->mark) {
            quote_.reset();
        }
    }

    void begin_value(char c) {
        if (c == '"' || c == '\'') {
            quote_ = Opened{c, place()};
        } else if (c == '[' || c == '{') {
            open_.push_back({c, place()});
        } else {
            in_plain_ = true;
        }
    }

    static bool is_closing(char c) { return c == ']' || c == '}'; }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t line_begin_ = 0;
    int line_ = 1;
    bool in_plain_ = false;  // in a value without quotes
    std::optional<Opened> quote_;
    std::vector<Opened> open_;
};

ConfigFault not_closed(char mark, Place place) {
    const char closing = mark == '[' ? ']' : mark == '{' ? '}' : mark;
    return {place, "nothing closes this " + quote(std::string(1, mark)) + ": write " +
                       quote(std::string(1, closing)) + " where it ends"};
}

std::optional<ConfigFault> explain_unclosed(std::string_view text) {
    const auto open = BracketScanner(text).left_open();
    if (!open) return std::nullopt;
    return not_closed(open->mark, open->place);
}

// Whether the quoted value that begins `text` ends in it.
bool is_closed(std::string_view text) {
    const char mark = text.front();
    for (std::size_t at = 1; at < text.size(); ++at) {
        const char next = at + 1 < text.size() ? text[at + 1] : '\n';
        if (is_escape(mark, text[at], next)) {
            ++at;
        } else if (text[at] == mark) {
            return true;
        }
    }
    return false;
}

// `@`, `%` and backquotes begin no value.
std::optional<ConfigFault> explain_reserved(std::string_view line, Place place) {
    const auto at = static_cast<std::size_t>(std::max(place.column - 1, 0));
    if (at >= line.size() || std::string_view("@%`").find(line[at]) == std::string_view::npos) {
        return std::nullopt;
    }
    return ConfigFault{place,
                       std::string("no value begins with this character unless it is quoted: ") +
                           quoted_from(line[at])};
}

// A line such as `listen:8080`, which is one word to YAML.
std::optional<ConfigFault> explain_missing_space(std::string_view line, int number) {
    const std::string_view words = without_indent(line);
    const std::size_t end = words.find_first_not_of("abcdefghijklmnopqrstuvwxyz_-");
    if (end == 0 || end == std::string_view::npos || words[end] != ':' || end + 1 == words.size() ||
        words[end + 1] == ' ' || words.substr(end).starts_with("://")) {
        return std::nullopt;
    }
    const std::string right = std::string(words.substr(0, end + 1)) + " ...";
    return ConfigFault{{number, column_of(line.size() - words.size() + end)},
                       "write a space behind the colon: " + quote(right)};
}

ConfigFault explain_map_value(std::string_view text, Place place) {
    for (int number = place.line - 1; number > 0; --number) {
        const std::string_view line = line_of(text, number);
        const std::string_view words = without_indent(line);
        if (words.empty() || words.front() == '#') continue;
        if (auto fault = explain_missing_space(line, number)) return *std::move(fault);
        break;
    }
    const std::string_view line = line_of(text, place.line);
    const std::size_t at = std::min(static_cast<std::size_t>(place.column - 1), line.size());
    if (line.substr(0, at).find(": ") != std::string_view::npos) {
        return {place, "a value that holds `: ` must be in quotes"};
    }
    return {place,
            "this line is indented deeper than the keys before it, which have their values "
            "already: indent it as they are"};
}

ConfigFault explain_map_end(std::string_view text, Place place) {
    const std::string_view line = line_of(text, place.line);
    const auto column = static_cast<std::size_t>(std::max(place.column - 1, 0));
    const std::string_view before = line.substr(0, std::min(column, line.size()));
    const std::size_t last = before.find_last_not_of(' ');
    if (last != std::string_view::npos &&
        std::string_view("}]\"'").find(before[last]) != std::string_view::npos) {
        return {place, "text goes on behind a closing " + quote(std::string(1, before[last])) +
                           ": quote the whole value"};
    }
    if (auto fault = explain_missing_space(line, place.line)) return *std::move(fault);
    return {place,
            "this line does not belong to the map before it: indent it like the other keys, and "
            "write `key: value`"};
}

std::optional<ConfigFault> explain(std::string_view text, Place place, std::string_view message) {
    const std::string_view line = line_of(text, place.line);
    const auto says = [&](std::string_view part) { return message.find(part) != message.npos; };
    if (indented_by_tab(line)) return ConfigFault{place, "a tab indents this line; use spaces"};
    if (says("alias not found") || says("anchor is not defined")) {
        auto star = explain_star(line, place);
        return star ? star : ConfigFault{place, "no anchor has the name of this alias"};
    }
    if (says("flow not found")) {
        auto brace = explain_brace(line, place);
        return brace ? brace : explain_unclosed(text);
    }
    if (says("EOF")) return explain_unclosed(text);
    if (says("unknown token")) return explain_reserved(line, place);
    if (says("illegal map value")) return explain_map_value(text, place);
    if (says("end of map not found")) return explain_map_end(text, place);
    if (says("illegal flow end")) {
        return ConfigFault{place,
                           "nothing that is open closes here: remove this bracket, or write the "
                           "one that opens it"};
    }
    if (says("illegal block entry")) {
        return ConfigFault{place, "an item of a list, `- `, begins on a line of its own"};
    }
    return std::nullopt;
}

}  // namespace

YamlSource::YamlSource(std::string_view text) : text_(text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    lines_.push_back(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string_view::npos;) {
        lines_.push_back(++at);
    }
}

std::optional<ConfigFault> YamlSource::unclosed_quote(Place place) const {
    const auto line = static_cast<std::size_t>(place.line) - 1;
    if (line >= lines_.size()) return std::nullopt;
    const std::size_t at = lines_[line] + static_cast<std::size_t>(place.column) - 1;
    if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) return std::nullopt;
    if (is_closed(text_.substr(at))) return std::nullopt;
    ConfigFault fault = not_closed(text_[at], place);
    fault.message.insert(0, kNotYaml);
    return fault;
}

ConfigFault explain_yaml_error(std::string_view text, Place place, std::string_view message) {
    ConfigFault fault =
        explain(text, place, message).value_or(ConfigFault{place, std::string(message)});
    fault.message.insert(0, kNotYaml);
    return fault;
}

}  // namespace tidegate::config

#include "config/yaml_document.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/utf8.hpp"

namespace tidegate::config {

namespace {

Place place_of(const YAML::Mark& mark) {
    return {mark.line + 1, mark.column + 1};
}

// Nothing after this point can be read: the fault has been recorded.
struct Abandoned {};

std::size_t nodes_in(const TreeNode& node) {
    std::size_t nodes = 1;
    for (const TreeNode& item : node.items) nodes += nodes_in(item);
    for (const TreeEntry& entry : node.entries) nodes += nodes_in(entry.value);
    return nodes;
}

std::size_t depth_of(const TreeNode& node) {
    if (node.kind != TreeNode::Kind::sequence && node.kind != TreeNode::Kind::map) return 0;
    std::size_t below = 0;
    for (const TreeNode& item : node.items) below = std::max(below, depth_of(item));
    for (const TreeEntry& entry : node.entries) below = std::max(below, depth_of(entry.value));
    return below + 1;
}

// Builds the tree from events: yaml-cpp's own tree would hide duplicate keys, merge keys,
// aliases, and the places of what is missing.
class TreeBuilder : public YAML::EventHandler {
  public:
    TreeBuilder(std::string_view text, std::vector<ConfigFault>& faults,
                const DocumentSettings& settings)
        : source_(text), faults_(faults), settings_(settings) {}

    TreeNode take() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        add(TreeNode::Kind::null, mark, "", anchor);
    }

    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        if (reads_anchors()) return add_alias(mark, anchor);
        fault(mark, "aliases (`*name`) are not supported: write the value out");
        add(TreeNode::Kind::broken, mark, "");
    }

    // The name may be the beginning of a secret: the message does not repeat it.
    void OnAnchor(const YAML::Mark& mark, const std::string&) override {
        if (reads_anchors()) return;
        fault(mark,
              "anchors (`&name`) are not supported: write the value out, or quote it if it begins "
              "with `&`");
    }

    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_tag(mark, tag);
        if (const auto fault = source_.unclosed_quote(place_of(mark))) {
            faults_.push_back(*fault);
            throw Abandoned{};
        }
        add(TreeNode::Kind::scalar, mark, value, anchor);
    }

    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open(TreeNode::Kind::sequence, mark, anchor);
    }
    void OnSequenceEnd() override { close(); }

    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        check_tag(mark, tag);
        open(TreeNode::Kind::map, mark, anchor);
    }
    void OnMapEnd() override { close(); }

  private:
    // A collection being filled.
    struct Frame {
        TreeNode node;
        // Of a map, between a key and its value: the key, unless it was refused.
        bool has_key = false;
        std::optional<TreeEntry> key;
        std::map<std::string, int> lines;  // where each key of the map is
        bool stands_for_key = false;       // where plain text is required: thrown away
        YAML::anchor_t anchor = YAML::NullAnchor;
        // Of a map: the next value is that of a merge key, and the maps that came so.
        bool is_merging = false;
        std::vector<TreeNode> merged;
    };

    bool reads_anchors() const { return settings_.anchors == Anchors::read; }

    void fault(const YAML::Mark& mark, std::string message) {
        faults_.push_back({place_of(mark), std::move(message)});
    }

    void note_repeated(const TreeNode& node) {
        repeated_nodes_ += nodes_in(node);
        if (repeated_nodes_ <= kRepeatedNodesMax) return;
        faults_.push_back({node.place, "anchors and aliases repeat more than " +
                                           std::to_string(kRepeatedNodesMax) + " values"});
        throw Abandoned{};
    }

    // A value is whole: from here on aliases repeat it.
    void keep(YAML::anchor_t anchor, const TreeNode& node) {
        if (anchor == YAML::NullAnchor || !reads_anchors()) return;
        note_repeated(node);
        anchors_[anchor] = node;
    }

    void add_alias(const YAML::Mark& mark, YAML::anchor_t anchor) {
        const auto named = anchors_.find(anchor);
        if (named == anchors_.end()) {
            fault(mark, "an alias cannot stand inside the value that it repeats");
            return add(TreeNode::Kind::broken, mark, "");
        }
        const TreeNode& node = named->second;
        if (wants_key()) {
            const bool is_text = node.kind == TreeNode::Kind::scalar;
            if (!is_text) fault(mark, "a key must be plain text");
            return add_key(is_text ? node.kind : TreeNode::Kind::broken, mark, node.text);
        }
        note_repeated(node);
        if (stack_.size() + depth_of(node) > kDepthMax) refuse_depth(mark);
        attach(TreeNode(node));
    }

    void refuse_depth(const YAML::Mark& mark) {
        forget_keys_around();
        fault(mark, "nested more than " + std::to_string(kDepthMax) + " levels deep");
        throw Abandoned{};
    }

    // "?" is a plain value, "!" a quoted one.
    void check_tag(const YAML::Mark& mark, const std::string& tag) {
        if (tag.empty() || tag == "?" || tag == "!") return;
        fault(mark, "tags (`!...`) are not supported: write the value without one");
    }

    bool wants_key() const {
        return !stack_.empty() && stack_.back().node.kind == TreeNode::Kind::map &&
               !stack_.back().has_key;
    }

    void open(TreeNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
        if (stack_.size() >= kDepthMax) refuse_depth(mark);
        Frame frame;
        frame.anchor = anchor;
        frame.stands_for_key = wants_key();
        if (frame.stands_for_key) fault(mark, "a key must be plain text");
        frame.node.kind = kind;
        frame.node.place = place_of(mark);
        stack_.push_back(std::move(frame));
    }

    // What is nested too deep is the fault; each level may have been reported as an unknown key.
    void forget_keys_around() {
        for (const Frame& frame : stack_) {
            if (!frame.stands_for_key) continue;
            std::erase_if(faults_, [&](const ConfigFault& reported) {
                return reported.place.line == frame.node.place.line &&
                       reported.place.column == frame.node.place.column;
            });
        }
    }

    void close() {
        Frame frame = std::move(stack_.back());
        stack_.pop_back();
        merge(frame);
        keep(frame.anchor, frame.node);
        if (frame.stands_for_key) {
            stack_.back().has_key = true;
        } else {
            attach(std::move(frame.node));
        }
    }

    // The map's own keys win, and of the merged maps the first that has a key.
    static void merge(Frame& frame) {
        for (TreeNode& map : frame.merged) {
            for (TreeEntry& entry : map.entries) {
                if (!frame.lines.emplace(entry.key, entry.place.line).second) continue;
                frame.node.entries.push_back(std::move(entry));
            }
        }
    }

    void take_merged(Frame& map, TreeNode&& node) {
        using Kind = TreeNode::Kind;
        map.has_key = map.is_merging = false;
        const bool is_list = node.kind == Kind::sequence &&
                             std::all_of(node.items.begin(), node.items.end(),
                                         [](const auto& item) { return item.kind == Kind::map; });
        if (node.kind == Kind::map) {
            map.merged.push_back(std::move(node));
        } else if (is_list) {
            for (TreeNode& item : node.items) map.merged.push_back(std::move(item));
        } else if (node.kind != Kind::broken) {
            faults_.push_back({node.place, "a merge key (`<<`) takes a map or a list of maps"});
        }
    }

    void add(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& text,
             YAML::anchor_t anchor = YAML::NullAnchor) {
        TreeNode node;
        node.kind = kind;
        node.place = place_of(mark);
        node.text = text;
        keep(anchor, node);
        if (wants_key()) {
            add_key(kind, mark, text);
        } else {
            attach(std::move(node));
        }
    }

    void add_key(TreeNode::Kind kind, const YAML::Mark& mark, const std::string& text) {
        Frame& map = stack_.back();
        map.has_key = true;
        if (kind == TreeNode::Kind::broken) return;
        if (kind == TreeNode::Kind::null) {
            fault(mark, "a key is missing");
            return;
        }
        if (text == "<<" && !reads_anchors()) {
            fault(mark, "merge keys (`<<`) are not supported: write the keys out");
            return;
        }
        const auto [seen, added] = map.lines.emplace(text, place_of(mark).line);
        if (!added) {
            const std::string shown = settings_.keys == MapKeys::shown ? " " + quote(text) : "";
            fault(mark, "duplicate key" + shown + ": it is already on line " +
                            std::to_string(seen->second));
            return;
        }
        map.is_merging = text == "<<";
        if (!map.is_merging) map.key = TreeEntry{text, place_of(mark), {}};
    }

    void attach(TreeNode&& node) {
        if (stack_.empty()) {
            root_ = std::move(node);
            return;
        }
        Frame& parent = stack_.back();
        if (parent.node.kind == TreeNode::Kind::sequence) {
            parent.node.items.push_back(std::move(node));
            return;
        }
        if (parent.is_merging) return take_merged(parent, std::move(node));
        if (parent.key) {
            parent.key->value = std::move(node);
            parent.node.entries.push_back(std::move(*parent.key));
            parent.key.reset();
        }
        parent.has_key = false;
    }

    YamlSource source_;
    std::vector<ConfigFault>& faults_;
    const DocumentSettings& settings_;
    std::vector<Frame> stack_;
    std::map<YAML::anchor_t, TreeNode> anchors_;
    std::size_t repeated_nodes_ = 0;
    TreeNode root_;
};

// The mark that Windows programs put before UTF-16.
bool is_utf16(std::string_view text) {
    return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

// Control characters end yaml-cpp's stream (0x04 silently, with all that follows) and bytes that
// are not UTF-8 are replaced by it: both are refused before it sees them.
std::optional<ConfigFault> check_characters(std::string_view text) {
    Place place{1, 1};
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const auto byte = static_cast<unsigned char>(text.front());
        if (length == 0 && is_utf16(text) && place.line == 1 && place.column == 1) {
            return ConfigFault{place, "this is UTF-16 text: save the file as UTF-8"};
        }
        if (length == 0) return ConfigFault{place, "this is not UTF-8 text"};
        if (byte == 0x7F || (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')) {
            return ConfigFault{place, "remove the control character " + quote(text.substr(0, 1))};
        }
        if (byte == '\n') {
            place = {place.line + 1, 1};
        } else {
            ++place.column;
        }
        text.remove_prefix(length);
    }
    return std::nullopt;
}

TreeNode broken() {
    TreeNode node;
    node.kind = TreeNode::Kind::broken;
    return node;
}

// The handler for what comes after the first document.
class SecondDocument : public YAML::EventHandler {
  public:
    explicit SecondDocument(std::vector<ConfigFault>& faults) : faults_(faults) {}

    void OnDocumentStart(const YAML::Mark& mark) override {
        faults_.push_back(
            {place_of(mark), "found a second document (`---`): a file holds one configuration"});
        throw Abandoned{};
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  const std::string&) override {}
    void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}

  private:
    std::vector<ConfigFault>& faults_;
};

void refuse_second_document(YAML::Parser& parser, std::vector<ConfigFault>& faults) {
    SecondDocument second(faults);
    try {
        parser.HandleNextDocument(second);
    } catch (const Abandoned&) {
        return;  // the first document is whole: its faults are worth a report, too
    }
}

}  // namespace

TreeNode parse_document(std::string_view text, std::vector<ConfigFault>& faults,
                        const DocumentSettings& settings) {
    if (text.size() > settings.bytes_max) {
        faults.push_back({{},
                          "the file is larger than " +
                              std::to_string(settings.bytes_max / kFileBytesMax) + " MiB"});
        return broken();
    }
    if (std::optional<ConfigFault> fault = check_characters(text)) {
        faults.push_back(std::move(*fault));
        return broken();
    }
    TreeBuilder builder(text, faults, settings);
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        if (!parser.HandleNextDocument(builder)) return {};
        refuse_second_document(parser, faults);
    } catch (const Abandoned&) {
        return broken();
    } catch (const YAML::Exception& error) {
        faults.push_back(explain_yaml_error(text, place_of(error.mark), error.msg));
        return broken();
    }
    return builder.take();
}

// What a mistake in YAML means, and what to write instead.
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

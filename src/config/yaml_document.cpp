#include "config/yaml_document.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

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

}  // namespace tidegate::config

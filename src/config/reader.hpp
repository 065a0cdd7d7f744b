// Walks a parsed configuration: each value knows its place and its name, and every fault is
// gathered instead of ending the reading. A section's code then reads like its documentation.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/document.hpp"

namespace tidegate::config {

// What the reading of one file gathers and needs. Outlives every Value.
struct Context {
    std::string file;    // as messages name it
    std::string folder;  // paths in the file are relative to it; empty: the working directory
    Environment environment = process_environment;
    std::vector<Fault> faults;
    std::vector<Fault> warnings;
    // Of files that this one names, in the order they were read.
    std::vector<Diagnostic> other_errors;

    // `path` as the process must open it.
    std::string resolve(const std::string& path) const;
};

struct IntegerRange {
    std::int64_t min = 0;
    std::int64_t max = 0;
};

struct DurationRange {
    milliseconds min{1};
    milliseconds max{std::chrono::hours{24}};
};

class Section;

// A value somewhere in the tree. Cheap to copy. Every reading function reports what is wrong and
// then returns nothing (or an empty list): the caller keeps its default and goes on.
class Value {
  public:
    Value(Context& context, const TreeNode& node, std::string name, Place place)
        : context_(&context), node_(&node), name_(std::move(name)), place_(place) {}

    bool is_scalar() const { return node_->kind == TreeNode::Kind::scalar; }
    bool is_sequence() const { return node_->kind == TreeNode::Kind::sequence; }
    bool is_map() const { return node_->kind == TreeNode::Kind::map; }
    bool is_broken() const { return node_->kind == TreeNode::Kind::broken; }
    // A list without items, a map without keys.
    bool is_empty() const { return node_->items.empty() && node_->entries.empty(); }
    // A plain `off` or `false`.
    bool is_off() const;
    // A scalar with exactly this text, before expansion.
    bool is(std::string_view text) const { return is_scalar() && node_->text == text; }

    const std::string& name() const { return name_; }
    Place place() const { return place_; }
    Context& context() const { return *context_; }

    // `what` continues the value's name: `limits[0].quota` + " must be ...".
    void fault(const std::string& what) const;
    void warn(const std::string& what) const;
    // Of the documentation, but not built.
    void not_available() const;
    // The value is not of the kind `wanted` names ("a list", "a duration such as ...").
    void wrong_kind(std::string_view wanted) const;

    // Environment variables are expanded. Never empty.
    std::optional<std::string> text(std::string_view wanted = "text") const;
    // Text that may be empty.
    std::optional<std::string> any_text(std::string_view wanted = "text") const;
    // A name for metrics, logs, keys and header fields: letters, digits, `-`, `_`, `.`; at most 64.
    std::optional<std::string> identifier() const;
    // Text or, after `file:`, the content of that file without its last line end. Messages never
    // show it.
    std::optional<std::string> secret() const;
    std::optional<std::int64_t> integer(IntegerRange range) const;
    // From 0 to 1, millionths.
    std::optional<double> fraction() const;
    std::optional<bool> toggle() const;
    // `may_be_off`: only for what faults say would be right.
    std::optional<milliseconds> duration(DurationRange range, bool may_be_off = false) const;
    // Bytes; `unlimited` only where `may_be_unlimited`.
    std::optional<std::uint64_t> size(IntegerRange range, bool may_be_unlimited = false) const;

    // One of the names in `choices`; `later` are of the documentation, but not built.
    template <class T, class Choices = std::initializer_list<std::pair<std::string_view, T>>>
    std::optional<T> choice(const Choices& choices,
                            std::initializer_list<std::string_view> later = {}) const {
        std::vector<std::string_view> names;
        for (const auto& [choice_name, value] : choices) names.push_back(choice_name);
        const std::optional<std::size_t> position = choose(names, later);
        if (!position) return std::nullopt;
        return (choices.begin() + *position)->second;
    }

    // The items of a list; `wanted` says of what.
    std::vector<Value> items(std::string_view wanted) const;
    // The same, but a value alone is a list of itself.
    std::vector<Value> one_or_more(std::string_view wanted) const;
    // The values of a map whose keys are names of the user's, with those names. Names that no
    // identifier() would be are refused when `identifiers`.
    std::vector<std::pair<std::string, Value>> named(std::string_view wanted,
                                                     bool identifiers = true) const;

  private:
    friend class Section;

    std::optional<std::size_t> choose(const std::vector<std::string_view>& names,
                                      const std::vector<std::string_view>& later) const;
    std::optional<std::string> scalar(std::string_view wanted) const;
    Value item(std::size_t index) const;
    Value child(const Entry& entry) const;

    Context* context_;
    const TreeNode* node_;
    std::string name_;  // `upstreams.api.servers[0]`; empty for the whole file
    Place place_;
};

// A map with keys of ours. Ask for every key that may be there, then call refuse_others(): the
// keys that were asked for are those that a message lists.
class Section {
  public:
    // Reports when `value` is not a map; then every key is missing, silently.
    explicit Section(const Value& value, std::string_view wanted = "a map");

    const Value& value() const { return value_; }
    std::optional<Value> find(std::string_view key);
    // Reports when it is missing; `hint` says what would be right.
    std::optional<Value> need(std::string_view key, std::string_view hint);
    // Refuses keys of the documentation that are not built.
    void not_available(std::initializer_list<std::string_view> keys);
    void refuse_others() const;

    // Each sets `out` if the key is there and right.
    void toggle(std::string_view key, bool& out);
    void duration(std::string_view key, milliseconds& out, DurationRange range = {});
    void size(std::string_view key, std::size_t& out, IntegerRange range);

    template <class T>
    void integer(std::string_view key, T& out, IntegerRange range) {
        if (const auto value = find(key)) {
            if (const auto number = value->integer(range)) out = static_cast<T>(*number);
        }
    }

    template <class T, class Choices = std::initializer_list<std::pair<std::string_view, T>>>
    void choice(std::string_view key, T& out, const Choices& choices,
                std::initializer_list<std::string_view> later = {}) {
        if (const auto value = find(key)) {
            if (const auto chosen = value->choice<T>(choices, later)) out = *chosen;
        }
    }

  private:
    Value value_;
    std::vector<std::string_view> known_;  // keys asked for; they outlive us, being literals
    std::vector<std::string_view> later_;
};

// Whether `text` would pass Value::identifier().
bool is_identifier(std::string_view text);

}  // namespace tidegate::config

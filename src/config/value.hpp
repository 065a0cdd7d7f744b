// A value of a parsed configuration, which knows its place and its name, and a section, a map whose
// keys Tidegate defines. A fault does not end the reading: the context collects all of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

// The word of `known` nearest to `word`, if it is near enough to be what was meant; else empty.
// Near: few letters changed, added, left out or swapped with their neighbour; else one of the two
// is the beginning of the other (`warning`, `warn`).
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

// `a`, `b` or `c`; each in backquotes.
std::string one_of(const std::vector<std::string_view>& words);

// `${NAME}` in scalars: the environment of the process in a configuration. Pure.

// A type of its own, as Result<std::string, std::string> would be ambiguous.
struct Expanded {
    std::string text;
};

// Replaces `${NAME}` by the variable, `${NAME:-default}` by the default when the variable is unset
// or empty, `$$` by a dollar; any other dollar stays. What comes in is never expanded again. An
// error is a sentence that never shows a value.
Result<Expanded, std::string> expand(std::string_view text, Environment environment);

struct IdleRule;

// `tidegate config` shows this in place of a secret, and a configuration cannot have it as one.
inline constexpr std::string_view kBlanked = "***";
inline constexpr std::string_view kWriteTheSecret =
    "`***` stands for a secret where `tidegate config` shows a configuration: write the secret, "
    "`file:` and a path, or a variable";

class KeyRows;

// Holds what the reader of one file needs and collects. Outlives every Value.
struct Context {
    std::string file;    // as messages name it
    std::string folder;  // paths in the file are relative to it; empty: the working directory
    Environment environment = process_environment;
    bool expands_variables = true;  // false: a dollar is a dollar
    Occasion occasion = Occasion::start;
    std::vector<ConfigFault> faults;
    std::vector<ConfigFault> warnings;
    // Keys that are written and may have no effect.
    struct MaybeIdle {
        ConfigFault key;  // its name is the message
        const IdleRule* rule;
    };
    std::vector<MaybeIdle> maybe_idle;
    const KeyRows* top_keys = nullptr;  // of the whole file, for a section that has one of them
    std::vector<std::string> files;     // for Config::files, in the order they were read
    std::vector<FileRead> files_read;
    std::vector<std::string> included;     // paths, see Place::file
    std::vector<const TreeNode*> secrets;  // the values that rows of secrets read
    std::vector<TreeNode> rls_files;       // the files of `rls`, in the order the process read them
    std::optional<TreeNode> price_file;    // that of `prices`
    // The errors of files that this one names, in the order in which the process read them.
    std::vector<Diagnostic> other_errors;

    // `path` as the process must open it, where it is written at `place`: relative to the folder
    // of that file.
    std::string resolve(const std::string& path, const Place& place = {}) const;
    // As messages name it.
    const std::string& file_of(const Place& place) const;
    // `FILE:LINE:COLUMN`, quoted: for a fault that another place has a part in.
    std::string shown(const Place& place) const;
};

struct IntegerRange {
    std::int64_t min = 0;
    std::int64_t max = 0;
};

struct DurationRange {
    milliseconds min{1};
    milliseconds max{std::chrono::hours{24}};
};

// Says how a list or a map of names must look.
struct ListRule {
    std::string_view wanted;    // "a list of methods: `[GET, POST]`"
    std::string_view plural{};  // "methods", for "more than 32 methods"
    std::size_t max = std::numeric_limits<std::size_t>::max();
    std::string_view if_empty{};  // the fault of an empty list; none: a list may be empty
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
    // `off` or `false`; quoted, too, as JSON has no bare words.
    bool is_off() const;
    // `on` or `true`, likewise.
    bool is_on() const;
    // A scalar that is exactly this text once environment variables are expanded.
    bool is(std::string_view text) const;

    const std::string& name() const { return name_; }
    Place place() const { return place_; }
    Context& context() const { return *context_; }

    // `what` continues the value's name: `limits[0].quota` + " must be ...".
    void fault(const std::string& what) const;
    void warn(const std::string& what) const;
    // Documented for a later version.
    void not_available() const;
    // The value is not of the kind `wanted` names ("a list", "a duration such as ...").
    void wrong_kind(std::string_view wanted) const;

    // Environment variables are expanded, where the context says so. Never empty.
    std::optional<std::string> text(std::string_view wanted = "text") const;
    // Text that may be empty.
    std::optional<std::string> any_text(std::string_view wanted = "text") const;
    // Returns what `parse` makes of the text; its error is the fault.
    template <class Parse,
              class T = typename std::invoke_result_t<Parse, std::string_view>::value_type>
    std::optional<T> parsed(std::string_view wanted, Parse parse) const {
        const std::optional<std::string> found = text(wanted);
        if (!found) return std::nullopt;
        auto result = parse(std::string_view(*found));
        if (result) return std::move(*result);
        fault(result.error());
        return std::nullopt;
    }
    // A name for metrics, logs, keys and header fields: letters, digits, `-`, `_`, `.`; at most 64.
    std::optional<std::string> identifier() const;
    // Text or, after `file:`, the content of that file without its last line end. Messages never
    // show it.
    std::optional<std::string> secret() const;
    std::optional<std::int64_t> integer(IntegerRange range) const;
    // A number of decimal digits alone, before variables are expanded; reports nothing.
    std::optional<std::int64_t> whole_number() const;
    // From 0 to 1, millionths.
    std::optional<double> fraction() const;
    std::optional<bool> toggle() const;
    // `may_be_off`: messages mention `off`.
    std::optional<milliseconds> duration(DurationRange range, bool may_be_off = false) const;
    // Bytes; `unlimited` only where `may_be_unlimited`.
    std::optional<std::uint64_t> size(IntegerRange range, bool may_be_unlimited = false) const;

    // One of the names in `choices`; `later` are documented for a later version.
    template <class T, class Choices = std::initializer_list<std::pair<std::string_view, T>>>
    std::optional<T> choice(const Choices& choices,
                            std::initializer_list<std::string_view> later = {}) const {
        std::vector<std::string_view> names;
        names.reserve(choices.size());
        for (const auto& [choice_name, value] : choices) names.push_back(choice_name);
        const std::optional<std::size_t> position = choose(names, later);
        if (!position) return std::nullopt;
        return (choices.begin() + *position)->second;
    }

    // The items of a list; none after a fault.
    std::vector<Value> items(const ListRule& rule) const;
    // The same, but a single value counts as a list of one item.
    std::vector<Value> one_or_more(const ListRule& rule) const;
    // The values of a map whose keys the user chooses, with these keys. With `identifiers`, each
    // key must be an identifier().
    std::vector<std::pair<std::string, Value>> named(const ListRule& rule,
                                                     bool identifiers = true) const;

  private:
    friend class Section;

    std::optional<std::size_t> choose(const std::vector<std::string_view>& names,
                                      const std::vector<std::string_view>& later) const;
    Result<Expanded, std::string> expanded_text() const;
    std::optional<std::string> scalar(std::string_view wanted) const;
    bool keeps(const ListRule& rule, std::size_t size) const;
    Value item(std::size_t index) const;
    Value child(const TreeEntry& entry) const;

    Context* context_;
    const TreeNode* node_;
    std::string name_;  // `upstreams.api.servers[0]`; empty for the whole file
    Place place_;
};

// Appends `found` to `list`, or reports that the list has it already. `shown`: for the message.
template <class T>
void add_once(const Value& item, const std::string& shown, T found, std::vector<T>& list) {
    if (std::find(list.begin(), list.end(), found) != list.end()) {
        item.fault(shown + " is listed twice");
    } else {
        list.push_back(std::move(found));
    }
}

// Whether `text` would pass Value::identifier().
bool is_identifier(std::string_view text);

// A map whose keys Tidegate defines, such as `identity` or one upstream. The code that reads a
// section lists its keys like the documentation.
// Call find() or need() for every allowed key, then refuse_others(): its message lists these keys.
class Section {
  public:
    // Reports when `value` is not a map; then every key is missing, silently.
    Section(const Value& value, const KeyRows& keys);
    // The same of a section without rows, whose keys are those that find() and need() name: of
    // files beside the configuration.
    explicit Section(const Value& value, std::string_view wanted = "a map");

    const Value& value() const { return value_; }
    std::optional<Value> find(std::string_view key);
    // Reports when it is missing: its row says what to write.
    std::optional<Value> need(std::string_view key);
    // The same, where that depends on other keys.
    std::optional<Value> need(std::string_view key, std::string_view hint);
    // Refuses documented keys that a later version supports.
    void not_available(std::initializer_list<std::string_view> keys);
    void refuse_others() const;

    // Each sets `out` if the key is there and valid.
    void toggle(std::string_view key, bool& out);
    template <class T, class Choices = std::initializer_list<std::pair<std::string_view, T>>>
    void choice(std::string_view key, T& out, const Choices& choices) {
        if (const auto value = find(key)) out = value->choice<T>(choices).value_or(out);
    }

  private:
    Value value_;
    const KeyRows* rows_ = nullptr;
    std::vector<std::string_view> known_;  // in the order of messages; literals
    std::vector<std::string_view> later_;
};

// Header fields and methods in a configuration.

// The longest name of a field that the configuration takes.
inline constexpr std::size_t kFieldNameBytesMax = 128;

// A token of RFC 9110 section 5.6.2.
bool is_token(std::string_view text);

// Says whether `text` may be a field value (RFC 9110 section 5.5): no controls, no white space
// around it.
bool is_field_value(std::string_view text);

// A field name, in lower case.
std::optional<std::string> read_field_name(const Value& value);
// A map of fields, each with its value, to be added to a head. Reports a name that is not like
// `example`, one that is listed twice in different case, and one for which `why_not` has a reason.
std::vector<std::pair<std::string, Value>> read_added_fields(
    const Value& value, const ListRule& rule, std::string_view example,
    std::string_view (*why_not)(std::string_view name));

// Says what to write instead of the unknown key `key` in the section named `section`
// (`routes[0].match`; empty: the whole file). Empty: not known.
std::string_view advice_for_key(std::string_view section, std::string_view key);

}  // namespace tidegate::config

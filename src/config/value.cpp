#include "config/value.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kWordBytesMax = 48;  // a longer word is no misspelling of a key

char folded(char c) {
    return c == '-' ? '_' : to_lower(c);
}

// Optimal string alignment: Levenshtein with swaps of neighbours. Case, and `-` for `_`, are free.
std::size_t distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, kWordBytesMax + 1>;
    Row before{};
    Row above{};
    Row row{};
    for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool same = folded(a[i - 1]) == folded(b[j - 1]);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1])) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before = above;
        above = row;
    }
    return above[b.size()];
}

// The longest of `known` that begins like `word`, or that `word` begins with.
std::string_view of_one_stem(std::string_view word, const std::vector<std::string_view>& known) {
    constexpr std::size_t kStemBytesMin = 3;
    std::string_view best;
    for (const std::string_view candidate : known) {
        if (std::min(word.size(), candidate.size()) < kStemBytesMin) continue;
        if (!word.starts_with(candidate) && !candidate.starts_with(word)) continue;
        if (candidate.size() > best.size()) best = candidate;
    }
    return best;
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
    if (word.size() > kWordBytesMax) return {};
    std::string_view best;
    // A third of the word may be wrong, but one letter always may.
    std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 1) + 1;
    for (const std::string_view candidate : known) {
        if (candidate.size() > kWordBytesMax) continue;
        const std::size_t away = distance(word, candidate);
        if (away < best_distance && away < candidate.size()) {
            best = candidate;
            best_distance = away;
        }
    }
    return best.empty() ? of_one_stem(word, known) : best;
}

std::string one_of(const std::vector<std::string_view>& words) {
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
        out += '`';
        out += words[i];
        out += '`';
    }
    return out;
}

namespace {

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_variable_name(std::string_view name) {
    if (name.empty() || !is_letter(name.front())) return false;
    for (const char c : name) {
        if (!is_letter(c) && !(c >= '0' && c <= '9')) return false;
    }
    return true;
}

// `reference` is the text between `${` and `}`.
Result<Expanded, std::string> look_up(std::string_view reference, Environment environment) {
    const std::size_t colon = reference.find(":-");
    const std::string_view name = reference.substr(0, colon);
    const bool has_default = colon != std::string_view::npos;
    if (!is_variable_name(name)) {
        // Without the text, which may be a secret.
        return ErrorMessage{
            "`${...}` is not `${NAME}` or `${NAME:-default}` here: write `$$` for a dollar"};
    }
    std::optional<std::string> value = environment(name);
    if (has_default && (!value || value->empty())) {
        return Expanded{std::string(reference.substr(colon + 2))};
    }
    if (!value) {
        return ErrorMessage{"the environment variable " + quote(name) +
                            " is not set; set it, or write a default: " +
                            quote("${" + std::string(name) + ":-...}")};
    }
    return Expanded{std::move(*value)};
}

}  // namespace

std::optional<std::string> process_environment(std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

Result<Expanded, std::string> expand(std::string_view text, Environment environment) {
    Expanded out;
    while (!text.empty()) {
        const std::size_t dollar = text.find('$');
        out.text += text.substr(0, dollar);
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        if (text.starts_with("$$")) {
            out.text += '$';
            text.remove_prefix(2);
        } else if (text.starts_with("${")) {
            const std::size_t end = text.find('}');
            if (end == std::string_view::npos) {
                return ErrorMessage{"`${` without `}`; write `$$` for a dollar"};
            }
            auto value = look_up(text.substr(2, end - 2), environment);
            if (!value) return value;
            out.text += value->text;
            text.remove_prefix(end + 1);
        } else {
            out.text += '$';
            text.remove_prefix(1);
        }
    }
    return out;
}

namespace {

constexpr std::size_t kIdentifierBytesMax = 64;
constexpr std::size_t kSecretBytesMax = 65'536;
constexpr int kFractionDigits = 6;
constexpr double kFractionScale = 1e6;

bool is_identifier_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

// `$PORT`, which shells expand and a configuration does not.
bool is_shell_variable(std::string_view text) {
    return text.size() > 1 && text.front() == '$' && !is_digit(text[1]) &&
           std::all_of(text.begin() + 1, text.end(),
                       [](char c) { return is_identifier_character(c) && c != '-' && c != '.'; });
}

std::string_view kind_name(TreeNode::Kind kind) {
    switch (kind) {
        case TreeNode::Kind::null:
            return "no value";
        case TreeNode::Kind::scalar:
            return "a single value";
        case TreeNode::Kind::sequence:
            return "a list";
        case TreeNode::Kind::map:
            return "a map";
        case TreeNode::Kind::broken:
            return "a broken value";
    }
    return "";
}

}  // namespace

std::string Context::resolve(const std::string& path, const Place& place) const {
    const std::string base =
        place.file == 0 ? folder : std::filesystem::path(file_of(place)).parent_path().string();
    if (base.empty() || path.starts_with('/')) return path;
    return (std::filesystem::path(base) / path).string();
}

const std::string& Context::file_of(const Place& place) const {
    return place.file == 0 ? file : included[static_cast<std::size_t>(place.file) - 1];
}

std::string Context::shown(const Place& place) const {
    return quote(file_of(place) + ":" + std::to_string(place.line) + ":" +
                 std::to_string(place.column));
}

bool is_identifier(std::string_view text) {
    return !text.empty() && text.size() <= kIdentifierBytesMax &&
           std::all_of(text.begin(), text.end(), is_identifier_character);
}

bool Value::is_off() const {
    return is("off") || is("false");
}

bool Value::is_on() const {
    return is("on") || is("true");
}

bool Value::is(std::string_view text) const {
    if (!is_scalar()) return false;
    const auto expanded = expanded_text();
    return expanded && expanded->text == text;
}

void Value::fault(const std::string& what) const {
    std::string message = name_.empty() ? what : name_ + ": " + what;
    // Without the text, which may be a secret.
    if (is_scalar() && context_->expands_variables && is_shell_variable(node_->text)) {
        message += "; an environment variable is written `${NAME}`";
    }
    context_->faults.push_back({place_, std::move(message)});
}

void Value::warn(const std::string& what) const {
    context_->warnings.push_back({place_, name_.empty() ? what : name_ + ": " + what});
}

void Value::not_available() const {
    std::string what = "not available yet";
    if (is_scalar()) what = quote(node_->text) + " is " + what;
    fault(what);
}

void Value::wrong_kind(std::string_view wanted) const {
    if (is_broken()) return;
    if (node_->kind == TreeNode::Kind::null) {
        fault("found no value; expected " + std::string(wanted));
        return;
    }
    fault("found " + std::string(kind_name(node_->kind)) + "; expected " + std::string(wanted));
}

Result<Expanded, std::string> Value::expanded_text() const {
    if (!context_->expands_variables) return Expanded{node_->text};
    return expand(node_->text, context_->environment);
}

std::optional<std::string> Value::scalar(std::string_view wanted) const {
    if (!is_scalar()) {
        wrong_kind(wanted);
        return std::nullopt;
    }
    auto expanded = expanded_text();
    if (!expanded) {
        fault(expanded.error());
        return std::nullopt;
    }
    return std::move(expanded->text);
}

std::optional<std::string> Value::any_text(std::string_view wanted) const {
    return scalar(wanted);
}

std::optional<std::string> Value::text(std::string_view wanted) const {
    std::optional<std::string> found = scalar(wanted);
    if (found && found->empty()) {
        fault("found an empty text; expected " + std::string(wanted));
        return std::nullopt;
    }
    return found;
}

std::optional<std::string> Value::identifier() const {
    std::optional<std::string> found = text("a name");
    if (found && !is_identifier(*found)) {
        fault(quote(*found) +
              " is not a valid name: use letters, digits, `-`, `_` and `.`, at most 64 characters");
        return std::nullopt;
    }
    return found;
}

std::optional<std::string> Value::secret() const {
    constexpr std::string_view kFile = "file:";
    context_->secrets.push_back(node_);
    std::optional<std::string> found = text("text, or `file:` and a path");
    if (found == kBlanked) {
        fault(std::string(kWriteTheSecret));
        return std::nullopt;
    }
    if (!found || !found->starts_with(kFile)) return found;

    const std::string path = found->substr(kFile.size());
    const std::string opened = context_->resolve(path, place_);
    auto file = read_file_text(opened, kSecretBytesMax, FileKind::any);
    note_file(opened, file ? std::optional<std::string_view>(file->text) : std::nullopt,
              context_->files_read);
    if (!file) {
        fault("the file " + quote(path) + " cannot be read: " + file.error());
        return std::nullopt;
    }
    std::string& content = file->text;
    if (file->is_larger) {
        fault("the file " + quote(path) + " is larger than 64 KiB");
        return std::nullopt;
    }
    if (content.ends_with('\n')) content.pop_back();
    if (content.ends_with('\r')) content.pop_back();
    if (content.empty()) {
        fault("the file " + quote(path) + " is empty");
        return std::nullopt;
    }
    if (content.starts_with("\xef\xbb\xbf") || content.ends_with('\n')) {
        warn(
            "the secret in " + quote(path) +
            " begins with a byte order mark or ends with an empty line, which belong to it: remove "
            "them unless they are meant");
    }
    return std::move(content);
}

std::optional<std::int64_t> Value::integer(IntegerRange range) const {
    const std::string wanted =
        "a whole number from " + std::to_string(range.min) + " to " + std::to_string(range.max);
    const std::optional<std::string> found = text(wanted);
    if (!found) return std::nullopt;
    const std::optional<std::int64_t> number = parse_decimal(*found);
    if (!number || *number < range.min || *number > range.max) {
        fault(quote(*found) + " is not " + wanted);
        return std::nullopt;
    }
    return number;
}

std::optional<std::int64_t> Value::whole_number() const {
    return is_scalar() ? parse_decimal(node_->text) : std::nullopt;
}

std::optional<double> Value::fraction() const {
    constexpr std::string_view kWanted = "a number from 0 to 1";
    const std::optional<std::string> found = text(kWanted);
    if (!found) return std::nullopt;
    const std::optional<std::int64_t> millionths = parse_fixed(*found, kFractionDigits);
    if (!millionths || static_cast<double>(*millionths) > kFractionScale) {
        fault(quote(*found) + " is not " + std::string(kWanted) + " with at most six decimals");
        return std::nullopt;
    }
    return static_cast<double>(*millionths) / kFractionScale;
}

std::optional<bool> Value::toggle() const {
    return choice<bool>({{"on", true}, {"off", false}, {"true", true}, {"false", false}});
}

std::optional<milliseconds> Value::duration(DurationRange range, bool may_be_off) const {
    const std::string_view or_off = may_be_off ? ", or `off`" : "";
    const std::optional<std::string> found = text("a duration such as `100ms`, `1.5s` or `1h`");
    if (!found) return std::nullopt;
    const auto parsed = parse_duration(*found);
    if (!parsed) {
        fault(parsed.error().append(or_off));
        return std::nullopt;
    }
    const auto whole = std::chrono::duration_cast<milliseconds>(*parsed);
    if (whole != *parsed) {
        fault(quote(*found) + " is too precise: use whole milliseconds");
        return std::nullopt;
    }
    if (whole < range.min || whole > range.max) {
        fault(quote(*found) + " is out of range: " + format_duration(range.min) + " to " +
              format_duration(range.max) + std::string(or_off));
        return std::nullopt;
    }
    return whole;
}

std::optional<std::uint64_t> Value::size(IntegerRange range, bool may_be_unlimited) const {
    const std::optional<std::string> found = text("a size such as `8KiB`");
    if (!found) return std::nullopt;
    const auto parsed = parse_size(*found);
    if (!parsed) {
        fault(parsed.error());
        return std::nullopt;
    }
    if (*parsed == kUnlimitedBytes && may_be_unlimited) return *parsed;
    if (*parsed < static_cast<std::uint64_t>(range.min) ||
        *parsed > static_cast<std::uint64_t>(range.max)) {
        fault(quote(*found) + " is out of range: " + std::to_string(range.min) + " to " +
              std::to_string(range.max) + " bytes" + (may_be_unlimited ? ", or `unlimited`" : ""));
        return std::nullopt;
    }
    return *parsed;
}

std::optional<std::size_t> Value::choose(const std::vector<std::string_view>& names,
                                         const std::vector<std::string_view>& later) const {
    const std::optional<std::string> found = text(one_of(names));
    if (!found) return std::nullopt;
    const auto position = std::find(names.begin(), names.end(), *found);
    if (position != names.end()) return static_cast<std::size_t>(position - names.begin());
    if (std::find(later.begin(), later.end(), *found) != later.end()) {
        not_available();
        return std::nullopt;
    }
    const std::string_view meant = nearest(*found, names);
    fault("unknown value " + quote(*found) +
          (meant.empty() ? "; allowed here: "
                         : "; did you mean " + quote(meant) + "? Allowed here: ") +
          one_of(names));
    return std::nullopt;
}

Value Value::item(std::size_t index) const {
    const TreeNode& node = node_->items[index];
    // Items of included files come before: the name has the number within the item's own file.
    const auto first =
        std::find_if(node_->items.begin(), node_->items.end(),
                     [&](const TreeNode& other) { return other.place.file == node.place.file; });
    const std::size_t number = index - static_cast<std::size_t>(first - node_->items.begin());
    return {*context_, node, name_ + "[" + std::to_string(number) + "]", node.place};
}

Value Value::child(const TreeEntry& entry) const {
    // A missing key has no place of its own in YAML: the section's key has one.
    const bool missing = entry.value.kind == TreeNode::Kind::null;
    const std::string key = is_identifier(entry.key) ? entry.key : quote(entry.key);
    return {*context_, entry.value, name_.empty() ? key : name_ + "." + key,
            missing ? entry.place : entry.value.place};
}

bool Value::keeps(const ListRule& rule, std::size_t size) const {
    if (size > rule.max) {
        fault("more than " + std::to_string(rule.max) + " " + std::string(rule.plural));
        return false;
    }
    if (size == 0 && !rule.if_empty.empty()) fault(std::string(rule.if_empty));
    return true;
}

std::vector<Value> Value::items(const ListRule& rule) const {
    std::vector<Value> out;
    if (!is_sequence()) {
        wrong_kind(rule.wanted);
        return out;
    }
    if (!keeps(rule, node_->items.size())) return out;
    for (std::size_t i = 0; i < node_->items.size(); ++i) out.push_back(item(i));
    return out;
}

std::vector<Value> Value::one_or_more(const ListRule& rule) const {
    if (is_scalar() || is_map()) return {*this};
    return items(rule);
}

std::vector<std::pair<std::string, Value>> Value::named(const ListRule& rule,
                                                        bool identifiers) const {
    std::vector<std::pair<std::string, Value>> out;
    if (!is_map()) {
        wrong_kind(rule.wanted);
        return out;
    }
    if (!keeps(rule, node_->entries.size())) return out;
    for (const TreeEntry& entry : node_->entries) {
        if (identifiers && !is_identifier(entry.key)) {
            Value(*context_, entry.value, name_, entry.place)
                .fault(quote(entry.key) +
                       " is not a valid name: use letters, digits, `-`, `_` and `.`, at most 64 "
                       "characters");
            continue;
        }
        out.emplace_back(entry.key, child(entry));
    }
    return out;
}

namespace {

// `token:hunter2` is a key to YAML: what follows the colon may be a secret.
std::string shown_key(std::string_view key) {
    const std::size_t colon = key.find(':');
    if (colon == std::string_view::npos || colon + 1 == key.size()) return quote(key);
    return quote(std::string(key.substr(0, colon + 1)) + "...");
}

// The words between an unknown key and the list of known ones.
std::string advice_for(const Value& section, std::string_view key,
                       const std::vector<std::string_view>& known) {
    const std::string_view before_colon = key.substr(0, key.find(':'));
    if (before_colon != key && std::find(known.begin(), known.end(), before_colon) != known.end()) {
        return "; write a space behind the colon: " + quote(std::string(before_colon) + ": ...") +
               ". Allowed here: ";
    }
    const std::string_view instead = advice_for_key(section.name(), key);
    if (!instead.empty()) return "; write " + std::string(instead) + ". Allowed here: ";
    const std::string_view meant = nearest(key, known);
    if (!meant.empty()) return "; did you mean " + quote(meant) + "? Allowed here: ";
    if (const KeyRows* const top = section.context().top_keys; top && top->find(key)) {
        return "; write it at the top of the file: `" + std::string(key) + ": ...`. Allowed here: ";
    }
    return "; allowed here: ";
}

}  // namespace

Section::Section(const Value& value, const KeyRows& keys) : Section(value, keys.wanted()) {
    rows_ = &keys;
    for (const KeyRows::Row& row : keys.rows()) known_.push_back(row.key);
    for (const TreeEntry& entry : value.node_->entries) {
        const KeyRows::Row* const row = keys.find(entry.key);
        if (row == nullptr || !row->idle) continue;
        const Value written = value.child(entry);
        value.context().maybe_idle.push_back({{written.place(), written.name()}, &*row->idle});
    }
}

Section::Section(const Value& value, std::string_view wanted) : value_(value) {
    if (!value.is_map()) value.wrong_kind(wanted);
}

std::optional<Value> Section::find(std::string_view key) {
    const bool is_known = std::find(known_.begin(), known_.end(), key) != known_.end();
    assert(is_known || rows_ == nullptr);
    if (!is_known) known_.push_back(key);
    for (const TreeEntry& entry : value_.node_->entries) {
        if (entry.key == key) return value_.child(entry);
    }
    return std::nullopt;
}

std::optional<Value> Section::need(std::string_view key) {
    return need(key, rows_->find(key)->needed);
}

std::optional<Value> Section::need(std::string_view key, std::string_view hint) {
    std::optional<Value> found = find(key);
    if (!found && value_.is_map()) {
        value_.fault("the key " + quote(key) + " is missing: write " + std::string(hint));
    }
    return found;
}

void Section::not_available(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
        later_.push_back(key);
        for (const TreeEntry& entry : value_.node_->entries) {
            if (entry.key != key) continue;
            value_.context().faults.push_back(
                {entry.place, value_.child(entry).name() + ": not available yet"});
        }
    }
}

void Section::refuse_others() const {
    const auto is_in = [](const std::vector<std::string_view>& keys, const std::string& key) {
        return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    for (const TreeEntry& entry : value_.node_->entries) {
        if (is_in(known_, entry.key) || is_in(later_, entry.key)) continue;
        std::string message = "unknown key " + shown_key(entry.key);
        if (!value_.name().empty()) message += " in " + value_.name();
        message += advice_for(value_, entry.key, known_) + one_of(known_);
        value_.context().faults.push_back({entry.place, message});
    }
}

void Section::toggle(std::string_view key, bool& out) {
    if (const auto value = find(key)) out = value->toggle().value_or(out);
}

namespace {

bool is_token_character(char c) {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return is_alphanumeric(c) || kMarks.find(c) != std::string_view::npos;
}

}  // namespace

bool is_token(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool is_field_value(std::string_view text) {
    constexpr std::string_view kSpace = " \t";
    if (text.empty()) return true;
    if (kSpace.find(text.front()) != std::string_view::npos) return false;
    if (kSpace.find(text.back()) != std::string_view::npos) return false;
    return std::none_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte == 0x7F || (byte < 0x20 && c != '\t');
    });
}

std::vector<std::pair<std::string, Value>> read_added_fields(
    const Value& value, const ListRule& rule, std::string_view example,
    std::string_view (*why_not)(std::string_view name)) {
    std::vector<std::pair<std::string, Value>> fields;
    for (auto& [name, item] : value.named(rule, false)) {
        const auto is_same = [&, &wanted = name](const auto& other) {
            return to_lower(other.first) == to_lower(wanted);
        };
        if (!is_token(name) || name.size() > kFieldNameBytesMax) {
            item.fault(quote(name) + " is not the name of a header field such as " +
                       quote(example));
        } else if (const std::string_view why = why_not(name); !why.empty()) {
            item.fault(quote(name) + " cannot be added: " + std::string(why));
        } else if (std::any_of(fields.begin(), fields.end(), is_same)) {
            item.fault(quote(name) + " is listed twice, in different case");
        } else {
            fields.emplace_back(std::move(name), std::move(item));
        }
    }
    return fields;
}

std::optional<std::string> read_field_name(const Value& value) {
    std::optional<std::string> name = value.text("the name of a header field");
    if (!name) return std::nullopt;
    if (!is_token(*name) || name->size() > kFieldNameBytesMax) {
        value.fault(quote(*name) + " is not the name of a header field such as `x-user-id`");
        return std::nullopt;
    }
    return to_lower(std::move(*name));
}

}  // namespace tidegate::config

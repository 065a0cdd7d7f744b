#include "config/keys.hpp"

#include <algorithm>
#include <array>

#include "base/units.hpp"

namespace tidegate::config {

namespace {

std::string quoted(std::string_view text) {
    return '"' + std::string(text) + '"';
}

std::string reference_to(std::string_view type) {
    return R"({"$ref":"#/$defs/)" + std::string(type) + "\"}";
}

std::string list_of(const std::vector<std::string_view>& words) {
    std::string out;
    for (const std::string_view word : words) out += (out.empty() ? "" : ",") + quoted(word);
    return out;
}

std::string any_of(const std::string& one, const std::string& other) {
    return R"({"anyOf":[)" + one + "," + other + "]}";
}

// `10,000`.
std::string grouped(std::int64_t number) {
    std::string out = std::to_string(number);
    for (std::size_t at = out.size(); at > 3; at -= 3) out.insert(at - 3, ",");
    return out;
}

// `1 min`.
std::string spaced(milliseconds time) {
    if (time.count() == 0) return "0";
    std::string out = format_duration(time);
    if (out == "1day") out = "24h";
    return out.insert(out.find_first_not_of("0123456789"), " ");
}

struct SizeUnit {
    std::string_view name;
    std::uint64_t bytes;
};
constexpr std::array<SizeUnit, 3> kUnits{{{"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}}};

const SizeUnit* unit_of(std::uint64_t bytes) {
    const auto* found = std::find_if(kUnits.begin(), kUnits.end(), [&](const SizeUnit& unit) {
        return bytes != 0 && bytes % unit.bytes == 0;
    });
    return found == kUnits.end() ? nullptr : found;
}

// `64 KiB`.
std::string spaced_size(std::int64_t bytes) {
    const SizeUnit* const unit = unit_of(static_cast<std::uint64_t>(bytes));
    if (unit == nullptr) return grouped(bytes) + " B";
    return grouped(bytes / static_cast<std::int64_t>(unit->bytes)) + " " + std::string(unit->name);
}

std::string bounds_of(kind::Count count, std::string_view of) {
    std::string out;
    if (count.min > 0) out.append(",\"min").append(of).append("\":") += std::to_string(count.min);
    if (count.max > 0) out.append(",\"max").append(of).append("\":") += std::to_string(count.max);
    return out;
}

}  // namespace

namespace kind {

KeyKind written(std::string_view schema) {
    return {std::string(schema)};
}

KeyKind type(std::string_view name) {
    return {reference_to(name)};
}

KeyKind toggle() {
    KeyKind out = type("switch");
    out.takes = {"on", "off"};
    out.refuses = {"maybe"};
    return out;
}

KeyKind integer(IntegerRange range) {
    return {.schema = any_of(R"({"type":"integer","minimum":)" + std::to_string(range.min) +
                                 R"(,"maximum":)" + std::to_string(range.max) + "}",
                             reference_to("number_text")),
            .range = grouped(range.min) + " to " + grouped(range.max),
            .takes = {std::to_string(range.min), std::to_string(range.max)},
            .refuses = {std::to_string(range.min - 1), std::to_string(range.max + 1), "many"}};
}

KeyKind fraction() {
    return {.schema = R"({"anyOf":[{"type":"number","minimum":0,"maximum":1},)"
                      R"({"type":"string","pattern":"^[0-9.]+$|\\$\\{"}]})",
            .range = "0 to 1",
            .takes = {"0", "0.5", "1"},
            .refuses = {"1.1", "half"}};
}

KeyKind duration(DurationRange range) {
    constexpr milliseconds kStep{1};
    KeyKind out = type("duration");
    out.range = spaced(range.min) + " to " + spaced(range.max);
    out.takes = {format_duration(range.min), format_duration(range.max)};
    out.refuses = {format_duration(range.max + kStep), "10", "soon"};
    if (range.min > kStep) out.refuses.push_back(format_duration(range.min - kStep));
    return out;
}

KeyKind size(IntegerRange range) {
    KeyKind out = type("size");
    out.range = spaced_size(range.min) + " to " + spaced_size(range.max);
    out.takes = {std::to_string(range.min), std::to_string(range.max)};
    out.refuses = {std::to_string(range.min - 1), std::to_string(range.max + 1), "large"};
    return out;
}

KeyKind word(const std::vector<std::string_view>& words) {
    KeyKind out{any_of(R"({"enum":[)" + list_of(words) + "]}", reference_to("variable"))};
    out.takes.assign(words.begin(), words.end());
    out.refuses = {"zzz"};
    return out;
}

KeyKind fixed(const std::vector<std::string_view>& words) {
    KeyKind out{R"({"enum":[)" + list_of(words) + "]}"};
    out.takes.assign(words.begin(), words.end());
    out.refuses = {"zzz"};
    return out;
}

KeyKind map(const KeyRows& keys) {
    return {.schema = {KeyKind::kHere}, .below = &keys};
}

KeyKind any(std::initializer_list<KeyKind> kinds) {
    KeyKind out;
    for (const KeyKind& one : kinds) {
        out.schema += (out.schema.empty() ? R"({"anyOf":[)" : ",") + one.schema;
        if (one.below == nullptr) continue;
        out.below = one.below;
        out.steps = one.steps;
    }
    out.schema += "]}";
    return out;
}

KeyKind off_or(const KeyKind& kind) {
    KeyKind out = any({type("off"), kind});
    out.takes = kind.takes;
    out.takes.push_back("off");
    out.refuses = kind.refuses;
    if (!kind.range.empty()) out.range = kind.range + ", or `off`";
    return out;
}

KeyKind list(const KeyKind& item, Count count) {
    KeyKind out = item;
    out.schema = R"({"type":"array","items":)" + item.schema + bounds_of(count, "Items") + "}";
    out.steps = "[]" + item.steps;
    out.range.clear();
    out.takes.clear();
    out.refuses.clear();
    return out;
}

KeyKind one_or_more(const KeyKind& item, Count count) {
    return any({item, list(item, count)});
}

KeyKind named(const KeyKind& value, Count count) {
    KeyKind out = value;
    out.schema = R"({"type":"object","propertyNames":{"$ref":"#/$defs/names"})" +
                 bounds_of(count, "Properties") + R"(,"additionalProperties":)" + value.schema +
                 "}";
    out.steps = ".NAME" + value.steps;
    out.range.clear();
    out.takes.clear();
    out.refuses.clear();
    return out;
}

}  // namespace kind

const KeyRows::Row* KeyRows::find(std::string_view key) const {
    const auto found =
        std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.key == key; });
    return found == rows_.end() ? nullptr : &*found;
}

void KeyRows::add(std::string_view key, KeyKind&& kind, const KeyText& text, std::string&& unset) {
    Row row;
    row.key = key;
    row.kind = std::move(kind);
    row.what = text.what;
    row.unset = text.unset.empty() ? std::move(unset) : std::string(text.unset);
    row.range = text.range.empty() ? row.kind.range : std::string(text.range);
    rows_.push_back(std::move(row));
}

std::string shown_default(bool value) {
    return value ? "`on`" : "`off`";
}

std::string shown_default(milliseconds value) {
    return "`" + format_duration(value) + "`";
}

std::string shown_default(double fraction) {
    std::string digits = std::to_string(fraction);
    while (digits.ends_with('0') && digits[digits.size() - 2] != '.') digits.pop_back();
    return "`" + digits + "`";
}

std::string shown_size(std::uint64_t bytes) {
    const SizeUnit* const unit = unit_of(bytes);
    if (unit == nullptr) return "`" + std::to_string(bytes) + "`";
    return "`" + std::to_string(bytes / unit->bytes) + std::string(unit->name) + "`";
}

}  // namespace tidegate::config

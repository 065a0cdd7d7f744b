#include "config/keys.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "base/units.hpp"
#include "config/read_sections.hpp"

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

std::string bounds_of(kind::ItemCount count, std::string_view of) {
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
    KeyKind out{reference_to(name)};
    out.is_url = name.ends_with("_url");
    return out;
}

KeyKind url(KeyKind kind) {
    kind.is_url = true;
    return kind;
}

KeyKind secret() {
    KeyKind out = type("secret");
    out.is_secret = true;
    return out;
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
        out.is_secret = out.is_secret || one.is_secret;
        out.is_url = out.is_url || one.is_url;
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

KeyKind list(const KeyKind& item, ItemCount count) {
    KeyKind out = item;
    out.schema = R"({"type":"array","items":)" + item.schema + bounds_of(count, "Items") + "}";
    out.steps = "[]" + item.steps;
    out.range.clear();
    out.takes.clear();
    out.refuses.clear();
    return out;
}

KeyKind one_or_more(const KeyKind& item, ItemCount count) {
    return any({item, list(item, count)});
}

KeyKind named(const KeyKind& value, ItemCount count) {
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

namespace {

// What kind::type() names: grammars of single values, each of which has a parser of its own.
constexpr std::pair<std::string_view, const char*> kTypes[] = {
    {"variable",
     R"({"description":"A value with an environment variable: ${NAME} or ${NAME:-default}.","type":"string","pattern":"\\$\\{"})"},
    {"number_text",
     R"({"description":"A number in quotes, or an environment variable.","type":"string","pattern":"^[0-9]+$|\\$\\{"})"},
    {"text", R"({"type":["string","number","boolean"]})"},
    {"file",
     R"({"description":"A path; relative to the folder of the configuration.","type":"string","minLength":1})"},
    {"secret",
     R"({"description":"Text, or file:NAME for the content of that file.","type":["string","number"]})"},
    {"off", R"({"anyOf":[{"enum":["off","false",false]},{"$ref":"#/$defs/variable"}]})"},
    {"switch",
     R"({"anyOf":[{"enum":["on","off","true","false",true,false]},{"$ref":"#/$defs/variable"}]})"},
    {"duration",
     R"({"description":"A duration such as 100ms, 1.5s, 15min, 1h or 1day.","type":"string","pattern":"^[0-9]+(\\.[0-9]+)?(us|ms|s|min|m|h|day|d)$|\\$\\{"})"},
    {"long_duration",
     R"({"description":"A duration, or years such as 1y.","type":"string","pattern":"^[0-9]+(\\.[0-9]+)?(us|ms|s|min|m|h|day|d|y)$|\\$\\{"})"},
    {"size",
     R"({"description":"A size such as 512, 8KiB, 1MiB or unlimited.","anyOf":[{"type":"integer","minimum":0},{"type":"string","pattern":"^[0-9]+(k|K|KiB|m|M|MiB|g|G|GiB)?$|^unlimited$|\\$\\{"}]})"},
    {"rate",
     R"({"description":"A rate such as 10/s, 120/min, 5000/day or 5/15min.","type":"string","pattern":"^[0-9]+/([0-9]+(\\.[0-9]+)?)?(us|ms|s|sec|second|min|m|minute|h|hour|d|day|week)$|\\$\\{"})"},
    {"name",
     R"({"description":"Letters, digits, -, _ and ., at most 64.","anyOf":[{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$|\\$\\{"},{"type":["number","boolean"]}]})"},
    {"names",
     R"({"description":"Letters, digits, -, _ and ., at most 64.","pattern":"^[A-Za-z0-9_.-]{1,64}$"})"},
    {"field_name",
     R"({"description":"The name of a header field.","type":"string","pattern":"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$|\\$\\{"})"},
    {"network",
     R"({"description":"A network such as 10.0.0.0/8, or an address.","type":"string","pattern":"^[0-9.]+(/[0-9]+)?$|^[0-9A-Fa-f:.]+(/[0-9]+)?$|\\$\\{"})"},
    {"listen_address",
     R"({"description":"8080 or :8080 (IPv6 and IPv4), 127.0.0.1:8080, [::1]:8080, unix:/path.","anyOf":[{"type":"integer","minimum":1,"maximum":65535},{"type":"string","pattern":"^unix:.+|^([0-9A-Za-z.*-]*:|\\[[0-9A-Fa-f:.%a-z]+\\]:)?[0-9]+$|\\$\\{"}]})"},
    {"inherited_socket", R"({"type":"string","pattern":"^systemd:[^:]+$"})"},
    {"server_url",
     R"({"description":"http://host:port, https://host:port or h2c://host:port without a path, or unix:/path.","type":"string","pattern":"^(https?|h2c)://[^/?#]+/?$|^unix:.+|\\$\\{"})"},
    {"redis_url",
     R"({"description":"redis://user:password@host:6379/0, rediss://, or unix:///run/redis.sock.","type":"string","pattern":"^rediss?://.+|^unix:.+|\\$\\{"})"},
    {"path",
     R"({"description":"A path that begins with /.","type":"string","pattern":"^/|\\$\\{"})"},
    {"key",
     R"({"description":"A key of a policy: ip, user, route, method, host, or KIND:NAME, such as header:NAME and body:/POINTER; joined by + or, for the first that is there, by |.","type":"string","pattern":"^(ip|user|route|method|host|(claim|constant|header|query|cookie|path|form|body(_lower)?):[^|]+)([+|] ?(ip|user|route|method|host|(claim|constant|header|query|cookie|path|form|body(_lower)?):[^|]+))*$|\\$\\{"})"},
    {"client",
     R"({"description":"A network such as 10.0.0.0/8, user:NAME, tier:NAME, authenticated or anonymous.","type":"string","pattern":"^(authenticated|anonymous)$|^(user|tier):.+|^[0-9A-Fa-f:.]+(/[0-9]+)?$|\\$\\{"})"},
    {"held_bytes", R"({"anyOf":[{"$ref":"#/$defs/off"},{"$ref":"#/$defs/size"}]})"},
    {"on_store_failure",
     R"({"anyOf":[{"enum":["local","allow","deny"]},{"$ref":"#/$defs/variable"}]})"},
    {"tls_version",
     R"({"description":"A version of TLS: 1.2 or 1.3.","anyOf":[{"enum":["1.2","1.3",1.2,1.3]},{"$ref":"#/$defs/variable"}]})"},
    {"pattern",
     R"({"description":"A file or a pattern such as conf.d/*.yaml; relative to the folder of the configuration.","type":"string","minLength":1})"},
};

// `[text](place)` is its text; marks of code go.
std::string plain(std::string_view markdown) {
    std::string out;
    for (std::size_t i = 0; i < markdown.size(); ++i) {
        const std::size_t link = markdown.find("](", i);
        const bool begins_link = markdown[i] == '[' && link != markdown.npos &&
                                 markdown.substr(i + 1, link - i - 1).find('[') == markdown.npos &&
                                 markdown[link + 2] != ' ';
        if (begins_link) {
            out += plain(markdown.substr(i + 1, link - i - 1));
            i = markdown.find(')', link);
        } else if (markdown[i] == '\\' && i + 1 < markdown.size()) {
            out += markdown[++i];
        } else if (markdown[i] != '`') {
            out += markdown[i];
        }
    }
    return out;
}

std::string_view about(Live live) {
    switch (live) {
        case Live::next_request:
            break;
        case Live::next_connection:
            return " (a change is for new connections)";
        case Live::next_connection_of_http2:
            return " (over HTTP/2, a change is for new connections)";
        case Live::restart:
            return " (a change needs a restart)";
    }
    return {};
}

// What the key is, and when a reload changes it. Where only a part of that needs a restart, `what`
// says which.
std::string text_of(const KeyRows::Row& row, Live live) {
    if (row.restart != nullptr && live != Live::restart) return row.what;
    return row.what + std::string(about(live));
}

// A sentence or more for the schema: what the key is, its default and its range.
std::string description_of(const KeyRows::Row& row, Live live) {
    std::string out = plain(text_of(row, live));
    if (!row.what.starts_with('`') && !out.empty()) out.front() = to_upper(out.substr(0, 1))[0];
    const std::string unset = plain(row.unset);
    if (!unset.empty() && unset != "-" && unset != "required") out += ". Default: " + unset;
    if (!row.range.empty()) out += ". Range: " + plain(row.range);
    return out;
}

class SchemaWriter {
  public:
    std::string write() {
        std::string root = section(root_keys(), Live::next_request);
        std::string definitions;
        for (const auto& [name, schema] : kTypes) define(name, schema, definitions);
        // Sections that occur in several places, and those within them.
        for (const auto& [name, schema] : sections_) define(name, schema, definitions);
        root.pop_back();
        return R"({"$schema":"https://json-schema.org/draft/2020-12/schema",)"
               R"("$id":"urn:tidegate:configuration",)"
               R"("$comment":"Written by scripts/reference of the rows in src/config.","title":"Configuration of Tidegate",)"
               R"("description":"docs/configuration.md says more about each key. `tidegate check` )"
               R"(finds what a schema cannot: names that are not defined, values that do not fit )"
               R"(together.",)" +
               root.substr(1) + R"(,"$defs":{)" + definitions + "}}";
    }

  private:
    static void define(std::string_view name, std::string_view schema, std::string& out) {
        out.append(out.empty() ? "\"" : ",\"").append(name).append("\":").append(schema);
    }

    // `above`: of the row of the section.
    std::string section(const KeyRows& keys, Live above) {
        std::string properties;
        std::string required;
        for (const KeyRows::Row& row : keys.rows()) {
            define(row.key, described(row, row.live.value_or(above)), properties);
            if (row.needed.empty()) continue;
            required.append(required.empty() ? "\"" : ",\"").append(row.key).append("\"");
        }
        std::string out =
            R"({"type":"object","properties":{)" + properties + R"(},"additionalProperties":false)";
        if (!required.empty()) out += R"(,"required":[)" + required + "]";
        if (keys.is_choice()) out += R"(,"minProperties":1,"maxProperties":1)";
        return out + "}";
    }

    std::string described(const KeyRows::Row& row, Live live) {
        const std::string text = nlohmann::json(description_of(row, live)).dump();
        return R"({"description":)" + text + "," + whole(row.kind, live).substr(1);
    }

    // With the section that the kind's schema has a place for.
    std::string whole(const KeyKind& kind, Live live) {
        if (kind.below == nullptr) return kind.schema;
        const std::string below = place_of(*kind.below, live);
        std::string out;
        for (const char c : kind.schema) {
            if (c == KeyKind::kHere) {
                out += below;
            } else {
                out += c;
            }
        }
        return out;
    }

    std::string place_of(const KeyRows& keys, Live live) {
        const std::string name(keys.name());
        if (name.empty()) return section(keys, live);
        if (sections_.try_emplace(name).second) sections_[name] = section(keys, live);
        return R"({"$ref":"#/$defs/)" + name + "\"}";
    }

    std::map<std::string, std::string> sections_;
};

class TableWriter {
  public:
    // All of a section, to which `path` leads. `above`: when a reload changes the section.
    void add_section(const KeyRows& keys, const std::string& path, Live above) {
        for (const KeyRows::Row& row : keys.rows()) {
            const KeyRows* const below = row.kind.below;
            add_key(row, path, below != nullptr && below->name().empty(), above);
        }
    }

    void add_key(const KeyRows::Row& row, const std::string& path, bool with_below, Live above) {
        const Live live = row.live.value_or(above);
        const std::string shown = path + std::string(row.key);
        const KeyRows* const below = row.kind.below;
        const bool is_bare_section = below != nullptr && row.unset.empty() && row.range.empty();
        if (!is_bare_section) {
            rows_ += "| `" + shown + "` | " + text_of(row, live) + " | " + row.unset + " | " +
                     row.range + " |\n";
        }
        if (with_below) add_section(*below, shown + row.kind.steps + ".", live);
    }

    std::string table() const {
        if (rows_.empty()) return {};
        return "| Key | What | Default | Range |\n| --- | --- | --- | --- |\n" + rows_;
    }

  private:
    std::string rows_;
};

// Where `place` leads: the section that has the key, and the key; no key: the section as a whole.
struct Found {
    const KeyRows* keys = nullptr;
    const KeyRows::Row* row = nullptr;
    std::string path{};               // before the key
    Live above = Live::next_request;  // of the section that has the key

    Live live() const { return row->live.value_or(above); }
};

Found find_place(std::string_view place) {
    Found found{&root_keys()};
    while (!place.empty()) {
        std::string_view step = take_until(place, '.');
        if (found.row != nullptr) {
            const std::string& steps = found.row->kind.steps;
            found.path.append(found.row->key).append(steps).append(".");
            found.above = found.live();
            found.keys = found.row->kind.below;
            if (found.keys == nullptr) return {};
            found.row = nullptr;
            if (steps.starts_with(".NAME")) continue;  // the step is the name
        }
        if (step.ends_with("[]")) step.remove_suffix(2);
        found.row = found.keys->find(step);
        if (found.row == nullptr) return {};
    }
    return found;
}

}  // namespace

std::string schema_text() {
    return nlohmann::ordered_json::parse(SchemaWriter().write()).dump(2) + "\n";
}

std::string key_table(std::span<const std::string> places) {
    TableWriter table;
    for (std::string_view place : places) {
        const bool is_below = place.ends_with(".*");
        const bool is_bare = place.ends_with('.');
        if (is_below) place.remove_suffix(2);
        if (is_bare) place.remove_suffix(1);
        const Found found = find_place(place);
        if (found.row == nullptr) return {};
        if (!is_below && !is_bare) {
            const KeyRows* const below = found.row->kind.below;
            // What occurs in several places has a table of its own, unless this is it.
            const bool has_line = !found.row->unset.empty() || !found.row->range.empty();
            table.add_key(*found.row, found.path,
                          below != nullptr && (below->name().empty() || !has_line), found.above);
            continue;
        }
        if (found.row->kind.below == nullptr) return {};
        const std::string path =
            found.path + std::string(found.row->key) + found.row->kind.steps + ".";
        table.add_section(*found.row->kind.below, is_bare ? "" : path, found.live());
    }
    return table.table();
}

std::vector<std::string> needs_restart(const ConfigChange& change) {
    std::vector<std::string> messages;
    std::set<const KeyRows*> seen;
    const auto add = [&](const auto& self, const KeyRows& keys) -> void {
        if (!seen.insert(&keys).second) return;
        for (const KeyRows::Row& row : keys.rows()) {
            const std::string what = row.restart != nullptr ? row.restart(change) : std::string();
            if (!what.empty()) messages.push_back(what + " while Tidegate runs: restart it");
            if (row.kind.below != nullptr) self(self, *row.kind.below);
        }
    };
    add(add, root_keys());
    return messages;
}

}  // namespace tidegate::config

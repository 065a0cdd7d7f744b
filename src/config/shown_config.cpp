// What people may see of a configuration: its text as JSON, with all that may be secret blanked.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "config/yaml_document.hpp"
#include "identity/digest.hpp"

namespace tidegate::config {

namespace {

using Json = nlohmann::ordered_json;
using NodeKind = TreeNode::Kind;

constexpr std::string_view kAnyItem = "[]";
constexpr std::string_view kAnyName = ".NAME";
constexpr std::string_view kSchemeEnd = "://";
constexpr std::string_view kReference = "${";
constexpr std::size_t kShownHashBytes = 8;

// `${NAME}` alone says nothing of the value; a default would.
bool is_bare_reference(std::string_view text) {
    if (!text.starts_with("${") || !text.ends_with('}')) return false;
    text = text.substr(2, text.size() - 3);
    return text.find_first_of("${}:") == std::string_view::npos;
}

// `redis://user:password@host` is `redis://***@host`, and `https://host/keys?code=x` is
// `https://host/keys?***`.
std::string without_url_secrets(std::string_view text) {
    std::string out;
    while (true) {
        const std::size_t scheme = text.find(kSchemeEnd);
        if (scheme == std::string_view::npos) return out.append(text);
        out.append(text.substr(0, scheme + kSchemeEnd.size()));
        text.remove_prefix(scheme + kSchemeEnd.size());
        const std::size_t end = std::min(text.find_first_of(" \t\r\n\"<>"), text.size());
        std::string_view url = text.substr(0, end);
        text.remove_prefix(end);
        const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
        const std::size_t at = authority.rfind('@');
        if (at != std::string_view::npos) {
            out.append(kBlanked);
            url.remove_prefix(at);
        }
        const std::size_t query = std::min(url.find('?'), url.size());
        out.append(url.substr(0, query));
        if (query != url.size()) out.append("?").append(kBlanked);
    }
}

bool is_short_number(std::string_view text) {
    constexpr std::size_t kPortDigits = 5;
    return text.size() <= kPortDigits && std::all_of(text.begin(), text.end(), is_digit);
}

// `:6379/0`: a port, and the number of a database.
bool is_port_and_database(std::string_view text) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    const std::string_view port = text.substr(0, slash);
    if (!port.empty() && (port.front() != ':' || !is_short_number(port.substr(1)))) return false;
    return slash == text.size() || is_short_number(text.substr(slash + 1));
}

// Where a URL has to end: a variable may bring `?key=`, and then what follows it is a secret. A
// port and further variables may follow.
std::size_t end_of_shown(std::string_view url) {
    bool is_behind_variable = false;
    std::size_t at = 0;
    while (at < url.size()) {
        const std::size_t begin = std::min(url.find(kReference, at), url.size());
        if (is_behind_variable && !is_port_and_database(url.substr(at, begin - at))) return at;
        const std::size_t end = url.find('}', begin);
        if (end == std::string_view::npos) return begin;
        const std::string_view reference = url.substr(begin, end + 1 - begin);
        const std::size_t value = reference.find(":-");
        const bool is_harmless =
            value == std::string_view::npos
                ? is_bare_reference(reference)
                : is_short_number(reference.substr(value + 2, reference.size() - value - 3));
        if (is_behind_variable && !is_harmless) return begin;
        is_behind_variable = true;
        at = end + 1;
    }
    return url.size();
}

// Of a text in which variables stand, any of which may bring a part of a URL: `redis://`, `/` or
// `?key=`. So no place of `@` and `?` in it is sure.
std::string without_secrets_at_variables(std::string_view text, bool is_url) {
    std::string out;
    const std::size_t scheme = text.find(kSchemeEnd);
    const bool has_scheme = scheme != std::string_view::npos;
    if (has_scheme && std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(scheme),
                                  is_alphanumeric)) {
        out.append(text.substr(0, scheme + kSchemeEnd.size()));
        text.remove_prefix(scheme + kSchemeEnd.size());
    }
    if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
        out.append(kBlanked);
        text.remove_prefix(at);
    }
    if (!is_url && !has_scheme) return out.append(text);
    const std::size_t query = std::min(text.find('?'), text.size());
    const std::size_t end = is_url ? end_of_shown(text.substr(0, query)) : query;
    out.append(text.substr(0, end));
    if (end == text.size()) return out;
    return out.append(end == query ? "?" : "").append(kBlanked);
}

std::string without_secrets(std::string_view text, bool is_url) {
    if (is_bare_reference(text)) return std::string(text);
    const std::size_t reference = text.find(kReference);
    if (reference == std::string_view::npos) {
        const std::size_t query = is_url ? std::min(text.find('?'), text.size()) : text.size();
        std::string out = without_url_secrets(text.substr(0, query));
        if (query != text.size()) out.append("?").append(kBlanked);
        return out;
    }
    // A variable alone, whose default is a whole URL.
    const std::size_t value = text.find(":-");
    const bool is_whole = reference == 0 && value != std::string_view::npos &&
                          text.find('}') == text.size() - 1 && text.rfind(kReference) == reference;
    if (!is_whole) return without_secrets_at_variables(text, is_url);
    const std::size_t begin = value + 2;
    std::string out(text.substr(0, begin));
    out += without_secrets_at_variables(text.substr(begin, text.size() - begin - 1), is_url);
    return out += '}';
}

// The reader takes `8080` and `"8080"` for the same, so a number is shown as one.
Json plain_scalar(std::string_view text, bool is_url) {
    constexpr std::size_t kDigitsMax = 15;
    if (text == "true") return true;
    if (text == "false") return false;
    const bool is_number = !text.empty() && text.size() <= kDigitsMax &&
                           std::all_of(text.begin(), text.end(), is_digit) &&
                           (text.front() != '0' || text.size() == 1);
    if (is_number) return *parse_decimal(text);
    return without_secrets(text, is_url);
}

// Walks a document along the rows of its keys. What no row describes is blanked.
class ShownWriter {
  public:
    explicit ShownWriter(std::span<const TreeNode* const> read_as_secret)
        : read_as_secret_(read_as_secret) {}

    Json section(const TreeNode& map, const KeyRows& keys) const {
        static const KeyKind kUnknown = kind::secret();
        Json out = Json::object();
        for (const TreeEntry& entry : map.entries) {
            const KeyRows::Row* const row = keys.find(entry.key);
            out[entry.key] = value(entry.value, row == nullptr ? kUnknown : row->kind,
                                   row == nullptr ? std::string_view() : row->kind.steps);
        }
        return out;
    }

    // `steps` lead from the value to the section below the kind.
    Json value(const TreeNode& node, const KeyKind& kind, std::string_view steps) const {
        switch (node.kind) {
            case NodeKind::scalar:
                return scalar(node, kind);
            case NodeKind::sequence: {
                if (steps.starts_with(kAnyItem)) steps.remove_prefix(kAnyItem.size());
                Json out = Json::array();
                for (const TreeNode& item : node.items) out.push_back(value(item, kind, steps));
                return out;
            }
            case NodeKind::map:
                return map(node, kind, steps);
            case NodeKind::null:
            case NodeKind::broken:
                break;
        }
        return nullptr;
    }

  private:
    Json map(const TreeNode& node, const KeyKind& kind, std::string_view steps) const {
        // One item may stand without a list.
        if (steps.starts_with(kAnyItem)) steps.remove_prefix(kAnyItem.size());
        const bool has_names = steps.starts_with(kAnyName);
        if (!has_names && kind.below != nullptr) return section(node, *kind.below);
        if (has_names) steps.remove_prefix(kAnyName.size());
        Json out = Json::object();
        for (const TreeEntry& entry : node.entries)
            out[entry.key] = value(entry.value, kind, steps);
        return out;
    }

    Json scalar(const TreeNode& node, const KeyKind& kind) const {
        const bool is_read_as_secret = std::find(read_as_secret_.begin(), read_as_secret_.end(),
                                                 &node) != read_as_secret_.end();
        // A key whose reader calls Value::secret() has a row that says so.
        assert(!is_read_as_secret || kind.is_secret);
        if (!is_read_as_secret && !kind.is_secret) return plain_scalar(node.text, kind.is_url);
        const bool names_file = is_read_as_secret && node.text.starts_with("file:");
        if (names_file || is_bare_reference(node.text)) return node.text;
        return kBlanked;
    }

    std::span<const TreeNode* const> read_as_secret_;
};

// Of the file of `prices` or one of `rls`, in which no row describes a key. Descriptors bring
// values of requests, such as an API key, and a file may say which one it means. `generic_key` is a
// name that Envoy's own configuration writes. A dollar is a dollar in these files.
Json shown_file(const TreeNode& node) {
    switch (node.kind) {
        case NodeKind::scalar:
            return plain_scalar(node.text, false);
        case NodeKind::sequence: {
            Json out = Json::array();
            for (const TreeNode& item : node.items) out.push_back(shown_file(item));
            return out;
        }
        case NodeKind::map: {
            const bool is_secret =
                std::any_of(node.entries.begin(), node.entries.end(), [](const TreeEntry& entry) {
                    return entry.key == "key" && entry.value.text != "generic_key" &&
                           looks_secret(entry.value.text);
                });
            Json out = Json::object();
            for (const TreeEntry& entry : node.entries) {
                const bool is_blanked = is_secret && entry.key == "value";
                out[entry.key] = is_blanked ? Json(kBlanked) : shown_file(entry.value);
            }
            return out;
        }
        case NodeKind::null:
        case NodeKind::broken:
            break;
    }
    return nullptr;
}

}  // namespace

Shown shown_of(const TreeNode& document, const Context& context) {
    const ShownWriter writer(context.secrets);
    Json shown = writer.section(document, root_keys());
    shown.erase("include");
    if (!context.rls_files.empty() && shown.contains("rls")) {
        Json files = Json::array();
        for (const TreeNode& file : context.rls_files) files.push_back(shown_file(file));
        shown["rls"]["descriptors"] = std::move(files);
    }
    if (context.price_file && shown.contains("prices")) {
        shown["prices"] = shown_file(*context.price_file);
    }
    Shown out;
    out.json = json_text(shown);
    const identity::Sha256 hash = identity::sha256(out.json);
    append_hex(std::span(hash).first(kShownHashBytes), out.hash);
    return out;
}

}  // namespace tidegate::config

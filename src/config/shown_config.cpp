// What people may see of a configuration: its text as JSON, with all that may be secret blanked.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
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
constexpr std::size_t kShownHashBytes = 8;

// `${NAME}` alone says nothing of the value; a default would.
bool is_bare_reference(std::string_view text) {
    if (!text.starts_with("${") || !text.ends_with('}')) return false;
    text = text.substr(2, text.size() - 3);
    return text.find_first_of("${}:") == std::string_view::npos;
}

// `redis://user:password@host` is `redis://***@host`, and `https://host/keys?code=x` is
// `https://host/keys?***`. Also within a default: `${URL:-redis://...}`.
std::string without_url_secrets(std::string_view text) {
    constexpr std::string_view kScheme = "://";
    std::string out;
    while (true) {
        const std::size_t scheme = text.find(kScheme);
        if (scheme == std::string_view::npos) return out.append(text);
        out.append(text.substr(0, scheme + kScheme.size()));
        text.remove_prefix(scheme + kScheme.size());
        // A reference to a variable may have a default with any sign in it.
        const bool has_reference = text.find("${") != std::string_view::npos;
        const std::size_t end =
            has_reference ? text.size() : std::min(text.find_first_of(" \t\r\n\"<>"), text.size());
        std::string_view url = text.substr(0, end);
        text.remove_prefix(end);
        const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
        const std::size_t at = (has_reference ? url : authority).rfind('@');
        if (at != std::string_view::npos) {
            out.append(kBlanked);
            url.remove_prefix(at);
        }
        const std::size_t query = std::min(url.find('?'), url.size());
        out.append(url.substr(0, query));
        if (query != url.size()) out.append("?").append(kBlanked);
    }
}

// The reader takes `8080` and `"8080"` for the same, so a number is shown as one.
Json plain_scalar(std::string_view text) {
    constexpr std::size_t kDigitsMax = 15;
    if (text == "true") return true;
    if (text == "false") return false;
    const bool is_number = !text.empty() && text.size() <= kDigitsMax &&
                           std::all_of(text.begin(), text.end(), is_digit) &&
                           (text.front() != '0' || text.size() == 1);
    if (is_number) return *parse_decimal(text);
    return without_url_secrets(text);
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
        if (!is_read_as_secret && !kind.is_secret) return plain_scalar(node.text);
        const bool names_file = is_read_as_secret && node.text.starts_with("file:");
        if (names_file || is_bare_reference(node.text)) return node.text;
        return kBlanked;
    }

    std::span<const TreeNode* const> read_as_secret_;
};

}  // namespace

Shown shown_of(const TreeNode& document, const Context& context) {
    // Of files in which no row describes a key.
    static const KeyKind kFreeText = kind::type("text");
    const ShownWriter writer(context.secrets);
    Json shown = writer.section(document, root_keys());
    shown.erase("include");
    if (!context.rls_files.empty() && shown.contains("rls")) {
        Json files = Json::array();
        for (const TreeNode& file : context.rls_files) {
            files.push_back(writer.value(file, kFreeText, {}));
        }
        shown["rls"]["descriptors"] = std::move(files);
    }
    Shown out;
    out.json = json_text(shown);
    const identity::Sha256 hash = identity::sha256(out.json);
    append_hex(std::span(hash).first(kShownHashBytes), out.hash);
    return out;
}

}  // namespace tidegate::config

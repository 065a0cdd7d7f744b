// A YAML text as a tree with places: the only part of Tidegate that sees yaml-cpp.
//
// Stricter than YAML: duplicate and non-text keys, tags, second documents and deep nesting are
// faults, and, unless the settings say otherwise, merge keys, anchors and aliases. Scalars keep the
// text as written; the reader decides what they are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::config {

inline constexpr std::size_t kFileBytesMax = 1'048'576;
inline constexpr std::size_t kDepthMax = 32;

// Counted from 1, as editors do; 0: no place.
struct Place {
    int line = 0;
    int column = 0;
    int file = 0;  // 0: the file that is read; else an included one, Context::included[file - 1]
};

// One sentence about one place.
struct ConfigFault {
    Place place;
    std::string message;
};

struct TreeEntry;

struct TreeNode {
    // `broken` has been reported already: readers stay silent.
    enum class Kind { null, scalar, sequence, map, broken };

    Kind kind = Kind::null;
    Place place;
    std::string text;                // of a scalar
    std::vector<TreeNode> items;     // of a sequence
    std::vector<TreeEntry> entries;  // of a map, in the order written, no key twice
};

struct TreeEntry {
    std::string key;
    Place place;
    TreeNode value;
};

// Whether messages may show the keys of maps.
enum class MapKeys : bool { shown, secret };

// Anchors (`&name`), the aliases that repeat them (`*name`) and merge keys (`<<`).
enum class Anchors : bool { refused, read };

// Bounds the values of one document that anchors name and aliases repeat, with all in them. An
// alias of a list of aliases, some times over, would be more than any memory.
inline constexpr std::size_t kRepeatedNodesMax = 200'000;

struct DocumentSettings {
    MapKeys keys = MapKeys::shown;
    std::size_t bytes_max = kFileBytesMax;  // whole MiB
    Anchors anchors = Anchors::refused;
};

// Reads one document; an empty text is a null node. Appends what is wrong to `faults`; the rest of
// the tree is still there, so that all faults are found in one go.
TreeNode parse_document(std::string_view text, std::vector<ConfigFault>& faults,
                        const DocumentSettings& settings = {});

// Returns the fault for yaml-cpp's `message` about `place` of `text`: in words that say what to
// write, at the place where to write it. Where the cause is not known, it returns `message` itself.
ConfigFault explain_yaml_error(std::string_view text, Place place, std::string_view message);

// A text by lines, for what yaml-cpp lets pass: it ends a quoted value at the end of the text, and
// takes all that follows the quote for the value.
class YamlSource {
  public:
    // `text` outlives this.
    explicit YamlSource(std::string_view text);

    // The fault if a quote begins at `place` and nothing closes it.
    std::optional<ConfigFault> unclosed_quote(Place place) const;

  private:
    std::string_view text_;
    std::vector<std::size_t> lines_;  // where each begins
};

}  // namespace tidegate::config

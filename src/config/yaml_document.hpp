// A YAML text as a tree with places: the only part of Tidegate that sees yaml-cpp.
//
// Stricter than YAML: duplicate and non-text keys, tags, second documents and deep nesting are
// faults, and, unless the settings say otherwise, merge keys, anchors and aliases. Scalars keep the
// text as written; the reader decides what they are.
#pragma once

#include <cstddef>
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
struct Fault {
    Place place;
    std::string message;
};

struct Entry;

struct TreeNode {
    // `broken` has been reported already: readers stay silent.
    enum class Kind { null, scalar, sequence, map, broken };

    Kind kind = Kind::null;
    Place place;
    std::string text;             // of a scalar
    std::vector<TreeNode> items;  // of a sequence
    std::vector<Entry> entries;   // of a map, in the order written, no key twice
};

struct Entry {
    std::string key;
    Place place;
    TreeNode value;
};

// Whether messages may show the keys of maps.
enum class MapKeys : bool { shown, secret };

// Anchors (`&name`), the aliases that repeat them (`*name`) and merge keys (`<<`).
enum class Anchors : bool { refused, read };

// Of one document: values that anchors name and aliases repeat, and all in them. An alias of
// a list of aliases, some times over, would be more than any memory.
inline constexpr std::size_t kRepeatedNodesMax = 200'000;

struct DocumentSettings {
    MapKeys keys = MapKeys::shown;
    std::size_t bytes_max = kFileBytesMax;  // whole MiB
    Anchors anchors = Anchors::refused;
};

// Reads one document; an empty text is a null node. Appends what is wrong to `faults`; the rest of
// the tree is still there, so that all faults are found in one go.
TreeNode parse_document(std::string_view text, std::vector<Fault>& faults,
                        const DocumentSettings& settings = {});

}  // namespace tidegate::config

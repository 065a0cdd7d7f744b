// Which files a configuration was read from, and whether one of them has changed since. Blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::config {

struct FileRead {
    std::string path;  // as the process opens it; or a pattern of `include`
    // A hash of what the file had, of a pattern of the list of files that match; 0: it could not be
    // read.
    std::uint64_t content = 0;
    bool is_pattern = false;

    bool operator==(const FileRead&) const = default;
};

// Adds a file to `files`; `text` is what was read of it, nothing if it could not be read. Leaves
// out pipes and devices, whose content cannot be read again.
void note_file(std::string path, std::optional<std::string_view> text,
               std::vector<FileRead>& files);
void note_pattern(std::string pattern, const std::vector<std::string>& matches,
                  std::vector<FileRead>& files);

// The files that match, sorted by their bytes. A pattern has the signs `*`, `?` and `[...]` of a
// shell; `*` matches no name that begins with a dot.
std::vector<std::string> files_that_match(const std::string& pattern);

// Whether each file has the same content as when it was read.
bool are_unchanged(const std::vector<FileRead>& files);

}  // namespace tidegate::config

// Whole files, up to a bound; the system's reason where one cannot be read. Blocks.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace tidegate::config {

// What names standard input where a file may stand, and how messages name it then.
inline constexpr const char* kStandardInput = "-";
inline constexpr const char* kShownStandardInput = "<stdin>";

// A type of its own, as Result<std::string, std::string> would be ambiguous.
struct FileText {
    std::string text;
    bool is_larger = false;  // than the bound: `text` ends there
};

// A device or a pipe may never end.
enum class FileKind : bool { any, regular };

// Reads up to `bytes_max` bytes. The error is the system's reason: `Permission denied`.
Result<FileText, std::string> read_file_text(const std::string& path, std::size_t bytes_max,
                                             FileKind wanted);
Result<FileText, std::string> read_standard_input(std::size_t bytes_max);

// A file that a command line names, up to kFileBytesMax. The error is a sentence: `there is no such
// file`.
Result<FileText, std::string> read_named_file(const std::string& path);

}  // namespace tidegate::config

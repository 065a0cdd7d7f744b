// Whole files and pipes, up to a bound; the system's reason where one cannot be read. Blocks, but a
// pipe for a bounded time; FileWork bounds the rest.
#pragma once

#include <chrono>
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

// A device may never end.
enum class FileKind : bool { any, no_device };

// A reader waits so long for a program to write to a pipe.
inline constexpr std::chrono::seconds kWriterPatience{2};
// A program that writes to a pipe may pause for so long: it may ask for a secret elsewhere.
inline constexpr std::chrono::seconds kPipePatience{30};

// Reads up to `bytes_max` bytes. The error is the system's reason: `Permission denied`.
Result<FileText, std::string> read_file_text(const std::string& path, std::size_t bytes_max,
                                             FileKind wanted);
Result<FileText, std::string> read_standard_input(std::size_t bytes_max);

// A file that a command line names, up to kFileBytesMax; one that does not answer is an error. The
// error is a sentence: `there is no such file`.
Result<FileText, std::string> read_named_file(const std::string& path);

}  // namespace tidegate::config

// Files as the configuration reads them. All of this blocks, but a pipe for a bounded time;
// FileWork bounds the rest.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "config/yaml_document.hpp"
#include "limit/time_zone.hpp"

namespace tidegate::config {

class Value;
struct Context;

// These name standard input: where a file may be named, and in messages.
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

// A file that a command line names, up to `bytes_max` (whole MiB); one that does not answer is an
// error. The error is a sentence: `there is no such file`.
Result<FileText, std::string> read_named_file(const std::string& path,
                                              std::size_t bytes_max = kFileBytesMax);

// Reads the time zone of that name (`Europe/Berlin`) below `folder`: what TZDIR says, as the C
// library takes it; empty: the system's folder. `files`, unless null, gets the file. The error is
// a sentence that says what would be right.
Result<std::shared_ptr<const limit::TimeZone>, std::string> load_time_zone(
    const std::string& name, std::string folder, std::vector<FileRead>* files = nullptr);

// Which files a configuration was read from, and whether one of them has changed since. Blocks.

// Adds a file to `files`; `text` is what was read of it, nothing if it could not be read. Leaves
// out pipes and devices, whose content cannot be read again.
void note_file(std::string path, std::optional<std::string_view> text,
               std::vector<FileRead>& files);
void note_pattern(std::string pattern, const std::vector<std::string>& matches,
                  std::vector<FileRead>& files);

// The files that match, sorted by their bytes. A pattern has the signs `*`, `?` and `[...]` of a
// shell; `*` matches no name that begins with a dot.
std::vector<std::string> files_that_match(const std::string& pattern);

// FileRead::content of a file that had `text`.
std::uint64_t content_of(std::string_view text);

// Whether each file has the same content as when it was read.
bool are_unchanged(const std::vector<FileRead>& files);

// Files that the configuration names by a path: users, keys, password files.

// Files that list users or keys may be larger: they have room for some hundred thousand.
inline constexpr std::size_t kListBytesMax = 16 * kFileBytesMax;

struct ReferencedFile {
    std::string path;  // as the process opens it, and messages name it
    std::string text;
};

// Reads the file that `value` names; `example` is a name such a file could have. Reports one that
// does not exist, cannot be read, is not a regular file or is larger than `bytes_max` (whole MiB).
std::optional<ReferencedFile> read_referenced_file(const Value& value, std::string_view example,
                                                   std::size_t bytes_max = kFileBytesMax);

// Warns when every user of the machine may write to the file: they could become any user.
void warn_if_world_writable(const Value& value, const ReferencedFile& file);

// A context for what such a file says of its own places; give it to report_faults() in the end.
Context context_of(const ReferencedFile& file, const Context& outer);

// Hands on the faults of a file to the configuration that names it.
void report_faults(Context&& inner, Context& outer);

}  // namespace tidegate::config

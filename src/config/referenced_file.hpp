// Files that the configuration names by a path: users, keys, password files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "config/section.hpp"

namespace tidegate::config {

// Of files that list users or keys: room for some hundred thousand.
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

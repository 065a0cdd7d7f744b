#include "config/files_read.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "base/file_work.hpp"
#include "config/file_text.hpp"
#include "config/referenced_file.hpp"

namespace tidegate::config {

namespace {

// Never 0, which means a file that cannot be read.
std::uint64_t hash_of(std::string_view text) {
    return std::hash<std::string_view>{}(text) | 1;
}

std::uint64_t hash_of(const std::vector<std::string>& matches) {
    std::string text;
    for (const std::string& path : matches) text += path + '\0';
    return hash_of(text);
}

std::uint64_t hash_of_file(const std::string& path) {
    const auto file = read_file_text(path, kListBytesMax, FileKind::no_device);
    return file ? hash_of(file->text) : 0;
}

bool is_unchanged(const FileRead& file) {
    return file.content ==
           (file.is_pattern ? hash_of(files_that_match(file.path)) : hash_of_file(file.path));
}

}  // namespace

void note_file(std::string path, std::optional<std::string_view> text,
               std::vector<FileRead>& files) {
    std::error_code ec;
    const FileWait wait(path);
    const auto status = std::filesystem::status(path, ec);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return;
    files.push_back({std::move(path), text ? hash_of(*text) : 0, false});
}

void note_pattern(std::string pattern, const std::vector<std::string>& matches,
                  std::vector<FileRead>& files) {
    files.push_back({std::move(pattern), hash_of(matches), true});
}

std::vector<std::string> files_that_match(const std::string& pattern) {
    std::vector<std::string> paths;
    const FileWait wait(pattern);
    glob_t found{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    std::sort(paths.begin(), paths.end());
    return paths;
}

bool are_unchanged(const std::vector<FileRead>& files) {
    return std::all_of(files.begin(), files.end(), is_unchanged);
}

}  // namespace tidegate::config

#include "config/files.hpp"

#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "config/yaml_document.hpp"
#include "limit/limit.hpp"
#include "limit/time_zone.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;

ErrorMessage system_reason(int error) {
    return ErrorMessage{std::generic_category().message(error)};
}

FileText bounded(std::string&& text, std::size_t size, std::size_t bytes_max) {
    text.resize(std::min(size, bytes_max));
    return {std::move(text), size > bytes_max};
}

// `wait`: null for standard input, for which nothing bounds the time.
Result<FileText, std::string> read_all(int descriptor, std::size_t bytes_max, FileWait* wait) {
    // A call that reads little answers soon.
    constexpr std::size_t kPieceMax = 262'144;
    std::string text;
    std::size_t size = 0;
    while (size <= bytes_max) {  // one byte more than allowed, to detect a larger file
        text.resize(std::min(bytes_max + 1, size + kPieceMax));
        if (wait != nullptr) wait->begin_again();
        const ssize_t bytes = ::read(descriptor, text.data() + size, text.size() - size);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return system_reason(errno);
        if (bytes == 0) break;
        size += static_cast<std::size_t>(bytes);
    }
    return bounded(std::move(text), size, bytes_max);
}

// Requires a pipe that does not block. Without a writer it is at its end; with one that has not
// written yet, it has nothing to read.
Result<FileText, std::string> read_pipe(int descriptor, std::size_t bytes_max, FileWait& wait) {
    using Clock = std::chrono::steady_clock;
    constexpr int kSliceMs = 100;
    constexpr std::size_t kPieceMax = 65'536;
    std::string text;
    std::size_t size = 0;
    bool had_writer = false;
    auto changed = Clock::now();
    while (size <= bytes_max) {
        wait.begin_again();
        text.resize(std::min(bytes_max + 1, size + kPieceMax));
        const ssize_t bytes = ::read(descriptor, text.data() + size, text.size() - size);
        if (bytes > 0) {
            size += static_cast<std::size_t>(bytes);
            had_writer = true;
            changed = Clock::now();
            continue;
        }
        if (bytes == 0 && had_writer) break;
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && errno != EAGAIN) return system_reason(errno);
        had_writer = had_writer || bytes < 0;
        if (Clock::now() - changed >= (had_writer ? kPipePatience : kWriterPatience)) {
            return ErrorMessage{had_writer
                                    ? "the program that writes to this pipe has been silent for " +
                                          format_duration(kPipePatience)
                                    : "no program has written to this pipe for " +
                                          format_duration(kWriterPatience)};
        }
        pollfd wanted{descriptor, POLLIN, 0};
        // A writer that has come and gone.
        if (::poll(&wanted, 1, kSliceMs) > 0 && (wanted.revents & POLLIN) == 0) had_writer = true;
    }
    // What it held may have been read before. Keys that are none would be in force.
    if (size == 0) {
        return ErrorMessage{"this pipe is empty: a program must write to it for each reading"};
    }
    return bounded(std::move(text), size, bytes_max);
}

Result<FileText, std::string> read_opened(int descriptor, std::size_t bytes_max, FileKind wanted,
                                          FileWait& wait) {
    struct stat info {};
    if (::fstat(descriptor, &info) != 0) return system_reason(errno);
    if (S_ISFIFO(info.st_mode)) return read_pipe(descriptor, bytes_max, wait);
    const bool is_device = !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    if (is_device && wanted == FileKind::no_device) {
        return ErrorMessage{"it is neither a file nor a pipe"};
    }
    if (is_device) ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
    return read_all(descriptor, bytes_max, &wait);
}

}  // namespace

Result<FileText, std::string> read_file_text(const std::string& path, std::size_t bytes_max,
                                             FileKind wanted) {
    FileWait wait(path);
    // A pipe without a writer would make open() wait.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) return system_reason(errno);
    struct Close {
        int descriptor;
        ~Close() { ::close(descriptor); }
    } const closes{descriptor};  // also when the work is given up
    return read_opened(descriptor, bytes_max, wanted, wait);
}

Result<FileText, std::string> read_standard_input(std::size_t bytes_max) {
    return read_all(STDIN_FILENO, bytes_max, nullptr);
}

namespace {

std::filesystem::file_type kind_of(const std::string& path) {
    std::error_code ec;
    const FileWait wait(path);
    return std::filesystem::status(path, ec).type();
}

Result<FileText, std::string> read_named(const std::string& path, std::size_t bytes_max) {
    const auto kind = kind_of(path);
    if (kind == std::filesystem::file_type::not_found) {
        return ErrorMessage{"there is no such file"};
    }
    if (kind == std::filesystem::file_type::directory) return ErrorMessage{"this is a folder"};
    auto file = read_file_text(path, bytes_max, FileKind::any);
    if (!file) return ErrorMessage{"the file cannot be read: " + file.error()};
    if (file->is_larger) {
        return ErrorMessage{"the file is larger than " + std::to_string(bytes_max / kFileBytesMax) +
                            " MiB"};
    }
    return file;
}

}  // namespace

Result<FileText, std::string> read_named_file(const std::string& path, std::size_t bytes_max) try {
    return with_file_patience([=] { return read_named(path, bytes_max); });
} catch (const NoAnswerFromFile& silent) {
    return ErrorMessage{silent.what()};
}

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

std::uint64_t content_of(std::string_view text) {
    return hash_of(text);
}

bool are_unchanged(const std::vector<FileRead>& files) {
    return std::all_of(files.begin(), files.end(), is_unchanged);
}

std::optional<ReferencedFile> read_referenced_file(const Value& value, std::string_view example,
                                                   std::size_t bytes_max) {
    const auto path = value.text("the path of a file such as `" + std::string(example) + "`");
    if (!path) return std::nullopt;
    ReferencedFile file;
    file.path = value.context().resolve(*path, value.place());
    auto content = read_file_text(file.path, bytes_max, FileKind::no_device);
    note_file(file.path, content ? std::optional<std::string_view>(content->text) : std::nullopt,
              value.context().files_read);
    if (!content) {
        value.fault("the file " + quote(*path) + " cannot be read: " + content.error());
        return std::nullopt;
    }
    if (content->is_larger) {
        value.fault("the file " + quote(*path) + " is larger than " +
                    std::to_string(bytes_max / kFileBytesMax) + " MiB");
        return std::nullopt;
    }
    file.text = std::move(content->text);
    return file;
}

void warn_if_world_writable(const Value& value, const ReferencedFile& file) {
    std::error_code ec;
    const FileWait wait(file.path);
    const fs::perms perms = fs::status(file.path, ec).permissions();
    if (ec || (perms & fs::perms::others_write) == fs::perms::none) return;
    value.warn("every user of this machine may write to " + quote(file.path) +
               " and so become any user: remove the permission (`chmod o-w`)");
}

Context context_of(const ReferencedFile& file, const Context& outer) {
    Context context;
    context.file = file.path;
    context.folder = outer.folder;
    context.environment = outer.environment;
    return context;
}

void report_faults(Context&& inner, Context& outer) {
    for (ConfigFault& fault : inner.faults) {
        outer.other_errors.push_back(
            {inner.file, fault.place.line, fault.place.column, std::move(fault.message)});
    }
    inner.faults.clear();
}

// `time_zone` of a limit: the file of its zone.
namespace {

// Files beside the zones that name none of a place. What to write instead; empty: it is no such
// file.
std::string why_no_zone(std::string_view name) {
    for (const std::string_view copies : {"posix/", "right/"}) {
        if (!name.starts_with(copies)) continue;
        const std::string_view rest = name.substr(copies.size());
        std::string why = why_no_zone(rest);
        if (!why.empty()) return why;
        return "leave out " + quote(copies) + ": write " + quote(rest);
    }
    if (name == "localtime") {
        return "`localtime` is the zone of the machine, and each may have another: write the name "
               "of the zone that is meant, such as `Europe/Berlin`";
    }
    if (name == "posixrules" || name == "Factory") {
        return quote(name) +
               " is no zone of a place: write a name of the tz database such as `Europe/Berlin`";
    }
    return {};
}

// The zones below `folder`, for a suggestion. There are some 600; of others that do not fit into
// the bound, none is suggested.
std::vector<std::string> time_zones_in(const std::string& folder) {
    constexpr std::size_t kLookedAtMost = 5'000;
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    std::error_code ec;
    fs::recursive_directory_iterator file(folder, ec);
    for (std::size_t looked_at = 0; !ec && file != fs::end(file) && looked_at < kLookedAtMost;
         file.increment(ec), ++looked_at) {
        const std::string name = file->path().lexically_relative(folder).string();
        if (name == "right" || name == "posix") file.disable_recursion_pending();
        if (limit::is_time_zone_name(name) && why_no_zone(name).empty() &&
            file->is_regular_file(ec)) {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

// `Europe/Berlin` for `Europe/Berln`, `europe/berlin` and `Berlin`; empty: none is near.
std::string meant_time_zone(const std::string& name, const std::string& folder) {
    const std::vector<std::string> names = time_zones_in(folder);
    const std::string lower = to_lower(name);
    const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& one) {
        const std::string known = to_lower(one);
        return known == lower || known.ends_with('/' + lower);
    });
    if (same != names.end()) return *same;
    const std::string_view near = nearest(name, {names.begin(), names.end()});
    // A continent is the beginning of many names, none of which is nearer than the others.
    return name.size() + 3 < near.size() ? std::string() : std::string(near);
}

}  // namespace

Result<std::shared_ptr<const limit::TimeZone>, std::string> load_time_zone(
    const std::string& name, std::string folder, std::vector<FileRead>* files) {
    if (std::string why = why_no_zone(name); !why.empty()) return ErrorMessage{std::move(why)};
    if (folder.empty()) folder = "/usr/share/zoneinfo";
    std::error_code ec;
    if (!std::filesystem::is_directory(folder, ec)) {
        return ErrorMessage{
            "there are no time zones: install the package `tzdata`, which makes the folder " +
            quote(folder)};
    }
    const std::string path = folder + '/' + name;
    const bool may_be_one =
        limit::is_time_zone_name(name) && std::filesystem::is_regular_file(path, ec);
    if (!may_be_one) {
        const std::string meant = meant_time_zone(name, folder);
        return ErrorMessage{"the system has no time zone " + quote(name) +
                            (meant.empty()
                                 ? ": write a name of the tz database such as `Europe/Berlin`"
                                 : "; did you mean " + quote(meant) + "?")};
    }
    const auto file = read_file_text(path, limit::kTimeZoneBytesMax, FileKind::no_device);
    if (files != nullptr) {
        note_file(path, file ? std::optional<std::string_view>(file->text) : std::nullopt, *files);
    }
    if (!file) {
        return ErrorMessage{"the file " + quote(path) + " cannot be read: " + file.error()};
    }
    auto zone = limit::TimeZone::parse(file->text);
    if (!zone) return ErrorMessage{"the file " + quote(path) + ' ' + zone.error()};
    return std::make_shared<const limit::TimeZone>(std::move(*zone));
}

void read_time_zone(const Value& value, limit::LimitSpec& spec) {
    const auto name = value.text("the name of a time zone such as `Europe/Berlin`");
    if (!name) return;
    spec.time_zone = *name;
    Context& context = value.context();
    auto zone =
        load_time_zone(*name, context.environment("TZDIR").value_or(""), &context.files_read);
    if (!zone) {
        value.fault(zone.error());
        return;
    }
    spec.zone = std::move(*zone);
}

}  // namespace tidegate::config

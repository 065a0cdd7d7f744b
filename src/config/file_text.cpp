#include "config/file_text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file_work.hpp"
#include "base/units.hpp"
#include "config/error_message.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

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

Result<FileText, std::string> read_named(const std::string& path) {
    const auto kind = kind_of(path);
    if (kind == std::filesystem::file_type::not_found) {
        return ErrorMessage{"there is no such file"};
    }
    if (kind == std::filesystem::file_type::directory) return ErrorMessage{"this is a folder"};
    auto file = read_file_text(path, kFileBytesMax, FileKind::any);
    if (!file) return ErrorMessage{"the file cannot be read: " + file.error()};
    if (file->is_larger) return ErrorMessage{"the file is larger than 1 MiB"};
    return file;
}

}  // namespace

Result<FileText, std::string> read_named_file(const std::string& path) try {
    return with_file_patience([=] { return read_named(path); });
} catch (const NoAnswerFromFile& silent) {
    return ErrorMessage{silent.what()};
}

}  // namespace tidegate::config

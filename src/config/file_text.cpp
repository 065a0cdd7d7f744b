#include "config/file_text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "config/error_message.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

ErrorMessage system_reason(int error) {
    return ErrorMessage{std::generic_category().message(error)};
}

Result<FileText, std::string> read_all(int descriptor, std::size_t bytes_max) {
    FileText file;
    // One byte more than allowed, to detect a larger file.
    file.text.resize(bytes_max + 1);
    std::size_t size = 0;
    while (size < file.text.size()) {
        const ssize_t bytes = ::read(descriptor, file.text.data() + size, file.text.size() - size);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return system_reason(errno);
        if (bytes == 0) break;
        size += static_cast<std::size_t>(bytes);
    }
    file.is_larger = size > bytes_max;
    file.text.resize(file.is_larger ? bytes_max : size);
    return file;
}

bool is_regular(int descriptor) {
    struct stat info {};
    return ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(int descriptor) {
    struct stat info {};
    return ::fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<FileText, std::string> read_file_text(const std::string& path, std::size_t bytes_max,
                                             FileKind wanted) {
    // A pipe without a writer would make open() wait.
    const int no_wait = wanted == FileKind::regular ? O_NONBLOCK : 0;
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | no_wait);
    if (descriptor < 0) return system_reason(errno);
    const bool is_wrong_kind =
        wanted == FileKind::regular && !is_regular(descriptor) && !is_folder(descriptor);
    Result<FileText, std::string> read = ErrorMessage{"it is not a regular file"};
    if (!is_wrong_kind) read = read_all(descriptor, bytes_max);
    ::close(descriptor);
    return read;
}

Result<FileText, std::string> read_standard_input(std::size_t bytes_max) {
    return read_all(STDIN_FILENO, bytes_max);
}

Result<FileText, std::string> read_named_file(const std::string& path) {
    std::error_code ec;
    const auto kind = std::filesystem::status(path, ec).type();
    if (kind == std::filesystem::file_type::not_found) {
        return ErrorMessage{"there is no such file"};
    }
    if (kind == std::filesystem::file_type::directory) return ErrorMessage{"this is a folder"};
    auto file = read_file_text(path, kFileBytesMax, FileKind::any);
    if (!file) return ErrorMessage{"the file cannot be read: " + file.error()};
    if (file->is_larger) return ErrorMessage{"the file is larger than 1 MiB"};
    return file;
}

}  // namespace tidegate::config

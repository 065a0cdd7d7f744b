#include "telemetry/log_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "telemetry/log.hpp"

namespace tidegate::telemetry {

namespace {

bool is_standard_output(const std::string& path) {
    return path == "-";
}

int open_to_append(const std::string& path) {
    // A descriptor of our own: ours to close, and it stays what it was when opened.
    if (is_standard_output(path)) return ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
}

std::uint64_t lines_in(std::string_view data) {
    return static_cast<std::uint64_t>(std::count(data.begin(), data.end(), '\n'));
}

std::string message_of(int error) {
    return std::generic_category().message(error);
}

}  // namespace

LogOutput::LogOutput(std::string path, std::chrono::milliseconds patience)
    : path_(std::move(path)), patience_(patience), fd_(open_to_append(path_)) {
    if (fd_ < 0) {
        throw std::system_error(errno, std::generic_category(), "cannot open access log " + path_);
    }
}

LogOutput::~LogOutput() {
    ::close(fd_);
}

std::uint64_t LogOutput::write(std::array<std::string_view, 2> lines) {
    std::uint64_t lost = 0;
    for (const std::string_view piece : lines) {
        if (piece.empty()) continue;
        if (lost != 0 || (torn_ && !write_all("\n").empty())) {
            lost += lines_in(piece);
            continue;
        }
        torn_ = false;
        const std::string_view left = write_all(piece);
        lost += lines_in(left);
        const std::size_t written = piece.size() - left.size();
        if (!left.empty()) torn_ = written != 0 && piece[written - 1] != '\n';
    }
    return lost;
}

void LogOutput::reopen() {
    if (is_standard_output(path_)) return;
    const int fd = open_to_append(path_);
    if (fd < 0) {
        log(Level::error, "access log {}: cannot reopen the file, writing on to the old one: {}",
            path_, message_of(errno));
        return;
    }
    ::close(std::exchange(fd_, fd));
    torn_ = false;
}

std::string_view LogOutput::write_all(std::string_view data) {
    while (!data.empty()) {
        const ssize_t n = ::write(fd_, data.data(), data.size());
        if (n > 0) {
            data.remove_prefix(static_cast<std::size_t>(n));
            continue;
        }
        const int error = n == 0 ? ENOSPC : errno;
        if (error == EINTR) continue;
        // Standard output may be another program's pipe or socket that is not blocking.
        if ((error == EAGAIN || error == EWOULDBLOCK) && wait_until_writable()) continue;
        report(true, error);
        return data;
    }
    report(false, 0);
    return data;
}

bool LogOutput::wait_until_writable() const {
    pollfd wanted{fd_, POLLOUT, 0};
    return ::poll(&wanted, 1, static_cast<int>(patience_.count())) > 0;
}

void LogOutput::report(bool broken, int error) {
    if (std::exchange(broken_, broken) == broken) return;
    if (broken) {
        log(Level::error, "access log {}: cannot write, dropping lines: {}", path_,
            message_of(error));
    } else {
        log(Level::warn, "access log {}: writing again", path_);
    }
}

}  // namespace tidegate::telemetry

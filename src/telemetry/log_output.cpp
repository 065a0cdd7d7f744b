#include "telemetry/log_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file_work.hpp"
#include "telemetry/log.hpp"

namespace tidegate::telemetry {

namespace {

// The descriptor that the process has had from its start; -1: `path` is a file. What it leads to
// may be a socket or another user's, which cannot be opened by this path.
int standard_descriptor(const std::string& path) {
    if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
    return path == "/dev/stderr" ? STDERR_FILENO : -1;
}

// Or -errno. Does not wait for the reader of a pipe.
int open_file(const std::string& path) {
    FileWait wait(path);
    const int fd =
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    if (fd < 0) return -errno;
    try {
        wait.begin_again();
    } catch (...) {  // the caller has given up
        ::close(fd);
        throw;
    }
    return fd;
}

// The same; a pipe gets `patience` until a program reads it.
int open_to_append(const std::string& path, std::chrono::milliseconds patience) {
    // A descriptor of our own: ours to close, and it stays what it was when opened.
    if (const int standard = standard_descriptor(path); standard >= 0) {
        const int fd = ::fcntl(standard, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    constexpr std::chrono::milliseconds kPoll{20};
    const auto until = std::chrono::steady_clock::now() + patience;
    int fd = open_file(path);
    while (fd == -ENXIO && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(kPoll);
        fd = open_file(path);
    }
    return fd;
}

std::string message_of(int error) {
    // open(2): a pipe without a reader, or a socket.
    if (error == ENXIO) return "no program reads this pipe";
    return std::generic_category().message(error);
}

// Never waits for longer than kFilePatience and the patience with a reader.
int open_or_throw(const std::string& path, std::chrono::milliseconds patience) {
    const int fd = with_file_patience([=] { return open_to_append(path, patience); });
    if (fd < 0) throw std::runtime_error(message_of(-fd));
    return fd;
}

int open_first(const std::string& path) try {
    return open_or_throw(path, LogOutput::kReaderPatience);
} catch (const std::runtime_error& fault) {
    throw std::runtime_error("cannot open access log " + path + ": " + fault.what());
}

std::uint64_t lines_in(std::string_view data) {
    return static_cast<std::uint64_t>(std::count(data.begin(), data.end(), '\n'));
}

}  // namespace

LogOutput::LogOutput(std::string path, std::chrono::milliseconds patience)
    : path_(std::move(path)), patience_(patience), fd_(open_first(path_)) {}

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
    if (standard_descriptor(path_) >= 0) return;
    try {
        const int fd = open_or_throw(path_, std::chrono::milliseconds{0});
        ::close(std::exchange(fd_, fd));
        torn_ = false;
    } catch (const std::runtime_error& fault) {
        log(Level::error, "access log {}: cannot reopen the file, writing on to the old one: {}",
            path_, fault.what());
    }
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

#include "app/folder_events.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file_work.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

// Not IN_MODIFY: a log that is written in the same folder would cause an event for each line.
constexpr std::uint32_t kEvents =
    IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR;

}  // namespace

FolderEvents::FolderEvents(Executor executor) : descriptor_(executor), timer_(executor) {}

void FolderEvents::open() {
    const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (descriptor >= 0) {
        descriptor_.assign(descriptor);
        has_event_ = true;  // files may have changed before
        return;
    }
    telemetry::log(telemetry::Level::warn,
                   "watch: the system tells no events of folders ({}): Tidegate looks at the files "
                   "every few seconds",
                   std::generic_category().message(errno));
}

int FolderEvents::descriptor() {
    return descriptor_.is_open() ? descriptor_.native_handle() : -1;
}

std::set<int> FolderEvents::watches_of(int descriptor, const std::vector<std::string>& folders) {
    std::set<int> watches;
    if (descriptor < 0) return watches;
    for (const std::string& folder : folders) {
        const FileWait wait(folder);
        const int watch = ::inotify_add_watch(descriptor, folder.c_str(), kEvents);
        if (watch >= 0) watches.insert(watch);
    }
    return watches;
}

void FolderEvents::keep(std::set<int> watches) {
    for (const int former : watches_) {
        if (!watches.contains(former)) ::inotify_rm_watch(descriptor(), former);
    }
    watches_ = std::move(watches);
}

void FolderEvents::watch(const std::vector<std::string>& folders) {
    keep(watches_of(descriptor(), folders));
}

Task<> FolderEvents::wait(std::chrono::milliseconds time) {
    const bool is_pause = std::exchange(has_event_, false);
    arm();
    timer_.expires_after(is_pause ? std::min(time, kPause) : time);
    ends_with_event_ = !is_pause;
    co_await timer_.async_wait(as_values);
    ends_with_event_ = false;
}

void FolderEvents::arm() {
    if (!descriptor_.is_open() || std::exchange(is_armed_, true)) return;
    descriptor_.async_wait(asio::posix::descriptor_base::wait_read, [this](const error_code& ec) {
        is_armed_ = false;
        if (ec) return;
        drain();
        has_event_ = true;
        if (ends_with_event_) timer_.cancel();
    });
}

void FolderEvents::drain() {
    alignas(inotify_event) std::array<char, 4'096> events;
    while (::read(descriptor_.native_handle(), events.data(), events.size()) > 0) {
    }
}

std::vector<std::string> folders_of(const std::vector<std::string>& paths) {
    std::set<std::string> folders;
    for (const std::string& path : paths) {
        std::filesystem::path folder = std::filesystem::path(path).parent_path();
        while (folder.string().find_first_of("*?[") != std::string::npos) {
            folder = folder.parent_path();
        }
        folders.insert(folder.empty() ? "." : folder.string());
    }
    return {folders.begin(), folders.end()};
}

}  // namespace tidegate::app

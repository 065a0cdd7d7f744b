#include "app/file_watch.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "app/folder_events.hpp"
#include "app/reloader.hpp"
#include "config/files_read.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using config::FileRead;

std::int64_t nanoseconds_of(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// What a reload reads. The certificates in force are renewed without one.
std::vector<FileRead> files_of_reload(const Reloader& reloader) {
    std::vector<FileRead> files = reloader.files_read();
    const std::vector<std::string>& certificates = reloader.config().files;
    std::erase_if(files, [&](const FileRead& file) {
        return std::find(certificates.begin(), certificates.end(), file.path) != certificates.end();
    });
    return files;
}

// A pattern stands for the files that match it now.
std::vector<std::string> paths_of(const std::vector<FileRead>& files) {
    std::vector<std::string> paths;
    for (const FileRead& file : files) {
        if (!file.is_pattern) {
            paths.push_back(file.path);
            continue;
        }
        for (std::string& path : config::files_that_match(file.path)) {
            paths.push_back(std::move(path));
        }
    }
    return paths;
}

class FileWatch {
  public:
    FileWatch(Executor executor, Reloader& reloader, Watched watched)
        : reloader_(reloader), events_(executor), reloads_(watched == Watched::all_files) {
        if (reloads_) events_.open();
    }

    Task<> run() {
        for (;;) {
            if (reloads_) events_.watch(folders());
            const bool is_soon =
                reloads_ && (configuration_.is_settling() || certificates_.is_settling());
            co_await events_.wait(is_soon ? kSettle : kLookEvery);
            reloader_.rotate_ticket_keys();
            co_await look();
        }
    }

  private:
    Task<> look() {
        if (reloader_.is_stopped()) co_return;
        // A change that comes while reloads are refused is due when they are not any more.
        if (reloads_ && !reloader_.refuses()) {
            const std::vector<FileRead> files = files_of_reload(reloader_);
            if (configuration_.is_due(look_at(paths_of(files)), steady_now()) &&
                !config::are_unchanged(files)) {
                telemetry::log(telemetry::Level::info, "watch: files of the configuration changed");
                co_await reloader_.reload();
            }
        }
        if (!certificates_.is_due(look_at(reloader_.config().files), steady_now())) co_return;
        const bool is_renewed = co_await reloader_.renew_certificates();
        if (!is_renewed) certificates_.retry(steady_now());
    }

    std::vector<std::string> folders() const {
        std::vector<std::string> paths = reloader_.config().files;
        for (const FileRead& file : reloader_.files_read()) paths.push_back(file.path);
        return folders_of(paths);
    }

    Reloader& reloader_;
    FolderEvents events_;
    bool reloads_;
    SettledChange certificates_{reloads_ ? kSettle : kCertificatesSettle};
    SettledChange configuration_{kSettle};
};

}  // namespace

FileStamps look_at(const std::vector<std::string>& paths) {
    FileStamps stamps;
    stamps.reserve(paths.size());
    for (const std::string& path : paths) {
        FileStamp& stamp = stamps.emplace_back();
        stamp.path = path;
        struct stat info {};
        if (::stat(path.c_str(), &info) != 0) continue;
        stamp.device = info.st_dev;
        stamp.inode = info.st_ino;
        stamp.size = static_cast<std::uint64_t>(info.st_size);
        stamp.modified_ns = nanoseconds_of(info.st_mtim);
        stamp.changed_ns = nanoseconds_of(info.st_ctim);
    }
    return stamps;
}

bool SettledChange::is_due(FileStamps found, SteadyTime now) {
    if (found != last_) {
        last_ = std::move(found);
        changed_at_ = now;
        return false;
    }
    if (now - changed_at_ < settle_) return false;
    const bool is_retry = retry_at_ && now >= *retry_at_;
    if (last_ == told_ && !is_retry) return false;
    told_ = last_;
    retry_at_.reset();
    return true;
}

Task<> watch_files(Executor executor, Reloader& reloader, Watched watched) {
    FileWatch watch(executor, reloader, watched);
    co_await watch.run();
}

}  // namespace tidegate::app

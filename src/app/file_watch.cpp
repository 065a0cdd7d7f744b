#include "app/file_watch.hpp"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "app/reloader.hpp"
#include "base/file_work.hpp"
#include "config/files.hpp"
#include "telemetry/error_log.hpp"

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

// What the watch looks at, and what it finds.
struct FileLook {
    std::vector<FileRead> configuration;  // files and patterns
    std::vector<std::string> certificates;
    std::vector<std::string> folders;
    int events = -1;  // FolderEvents::descriptor()

    struct Found {
        std::set<int> watches;
        FileStamps configuration;
        FileStamps certificates;
    };
    // The watches first: what changes behind a look causes an event.
    Found find() const {
        Found found;
        found.watches = FolderEvents::watches_of(events, folders);
        found.configuration = look_at(paths_of(configuration));
        found.certificates = look_at(certificates);
        return found;
    }
};

class FileWatch {
  public:
    FileWatch(Executor executor, Reloader& reloader, WatchedFiles watched)
        : reloader_(reloader),
          events_(executor),
          pause_(executor),
          reloads_(watched == WatchedFiles::all_files) {
        if (reloads_) events_.open();
    }

    Task<> run() {
        if (reloads_) {  // events come from the start on
            auto find = [wanted = next_look()] { return wanted.find(); };
            auto found = co_await patiently(std::move(find));
            if (found) events_.keep(std::move(found->watches));
        }
        for (;;) {
            const bool is_soon =
                reloads_ && (configuration_.is_settling() || certificates_.is_settling() ||
                             std::exchange(has_other_files_, false));
            co_await events_.wait(is_soon ? kSettle : kLookEvery);
            reloader_.rotate_ticket_keys();
            co_await look();
        }
    }

  private:
    Task<> look() {
        if (reloader_.is_stopped()) co_return;
        FileLook wanted = next_look();
        if (!reloads_ && wanted.certificates.empty()) co_return;
        std::vector<FileRead> files = wanted.configuration;
        auto find = [wanted = std::move(wanted)] { return wanted.find(); };
        auto found = co_await patiently(std::move(find));
        if (!found) co_return;
        if (reloads_) events_.keep(std::move(found->watches));
        // A change that comes while reloads are refused is due when they are not any more.
        if (reloads_ && !reloader_.refuses() &&
            configuration_.is_due(std::move(found->configuration), steady_now())) {
            auto compare = [files] { return config::are_unchanged(files); };
            const std::optional<bool> is_same = co_await patiently(std::move(compare));
            if (!is_same.value_or(true)) {
                telemetry::log(telemetry::Level::info, "watch: files of the configuration changed");
                co_await reloader_.reload();
                has_other_files_ = true;
            }
        }
        if (!certificates_.is_due(std::move(found->certificates), steady_now())) co_return;
        const bool is_renewed = co_await reloader_.renew_certificates();
        if (!is_renewed) certificates_.retry(steady_now());
    }

    FileLook next_look() {
        FileLook wanted;
        wanted.certificates = reloader_.config().files;
        if (!reloads_) return wanted;
        wanted.configuration = files_of_reload(reloader_);
        std::vector<std::string> paths = reloader_.config().files;
        for (const FileRead& file : reloader_.files_read()) paths.push_back(file.path);
        wanted.folders = folders_of(paths);
        wanted.events = events_.descriptor();
        return wanted;
    }

    // Does `work`, which owns all that it uses, on a thread of its own. It takes as long as the
    // file system takes: until then there is nothing else to look at. Nothing when there is no
    // thread for it, which is logged: the next look may have one.
    template <class Work>
    auto patiently(Work work) -> Task<std::optional<decltype(work())>> {
        using T = decltype(work());
        const auto result = std::make_shared<std::optional<T>>();
        std::optional<FileWork> started;
        try {
            started.emplace(
                [result, work = std::move(work)]() mutable { result->emplace(work()); });
        } catch (const std::runtime_error& fault) {
            telemetry::log(telemetry::Level::warn, "watch: cannot look at files: {}", fault.what());
            co_return std::nullopt;
        }
        const FileWork& under_way = *started;
        std::string silent;
        std::chrono::milliseconds poll = kApartPoll;
        while (!under_way.is_done()) {
            if (const auto path = under_way.overdue(kFilePatience); path && *path != silent) {
                silent = *path;
                poll = kLookEvery;
                telemetry::log(telemetry::Level::warn,
                               "watch: {}. Tidegate looks at no changed file until it answers",
                               no_answer_text(silent, kFilePatience));
            }
            pause_.expires_after(poll);
            co_await pause_.async_wait(as_values);
            reloader_.rotate_ticket_keys();
        }
        under_way.rethrow();
        co_return std::move(*result);
    }

    Reloader& reloader_;
    FolderEvents events_;
    Timer pause_;
    bool reloads_;
    bool has_other_files_ = false;  // perhaps, in folders that are not watched yet
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
        const FileWait wait(path);
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

Task<> watch_files(Executor executor, Reloader& reloader, WatchedFiles watched) {
    FileWatch watch(executor, reloader, watched);
    co_await watch.run();
}

}  // namespace tidegate::app

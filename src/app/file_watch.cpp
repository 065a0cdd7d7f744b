#include "app/file_watch.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "app/apart.hpp"
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

// What the watch looks at, and what it finds.
struct Look {
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
    FileWatch(Executor executor, Reloader& reloader, Watched watched)
        : reloader_(reloader),
          events_(executor),
          pause_(executor),
          reloads_(watched == Watched::all_files) {
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
        Look wanted = next_look();
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

    Look next_look() {
        Look wanted;
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

Task<> watch_files(Executor executor, Reloader& reloader, Watched watched) {
    FileWatch watch(executor, reloader, watched);
    co_await watch.run();
}

}  // namespace tidegate::app

#include "app/certificate_watch.hpp"

#include <sys/stat.h>

#include <utility>

#include "app/reloader.hpp"

namespace tidegate::app {

namespace {

std::int64_t nanoseconds_of(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

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

bool SettledChange::is_due(FileStamps found) {
    const bool is_settled = found == last_;
    last_ = std::move(found);
    if (!is_settled) return false;
    const bool is_retry = looks_to_retry_ > 0 && --looks_to_retry_ == 0;
    if (last_ == told_ && !is_retry) return false;
    told_ = last_;
    looks_to_retry_ = 0;
    return true;
}

Task<> watch_certificates(Executor executor, Reloader& reloader) {
    SettledChange change;
    Timer pause(executor);
    for (;;) {
        pause.expires_after(kCertificateLookEvery);
        co_await pause.async_wait(as_values);
        reloader.rotate_ticket_keys();
        if (!change.is_due(look_at(reloader.config().files))) continue;
        if (!co_await reloader.renew_certificates()) change.retry();
    }
}

}  // namespace tidegate::app

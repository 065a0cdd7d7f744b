// Looks for changed files, so that no program need send a signal: certbot writes files, editors
// rename them over others, Kubernetes swaps the links that lead to them. Changed certificates are
// always put in force; a changed configuration only with `--watch`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "net/asio.hpp"
#include "net/deadline.hpp"

namespace tidegate::app {

// Events of folders (inotify), which tell at once that a file in one of them has changed.

// Used by one Task at a time, on its loop.
class FolderEvents {
  public:
    explicit FolderEvents(Executor executor);

    // Asks the system for events. Logs a warning if it gives none: then wait() waits its time.
    void open();
    // From now on, of these folders only. A folder that is not there, or that has another folder in
    // its place by then, is found by a later call.
    void watch(const std::vector<std::string>& folders);
    // The same in two steps, as the first waits for the file system: `watches` of keep() are what
    // watches_of() has given. `descriptor` is that of descriptor(); negative: there are no events.
    int descriptor();
    static std::set<int> watches_of(int descriptor, const std::vector<std::string>& folders);
    void keep(std::set<int> watches);
    // Until a file in one of the folders is written, made, renamed or removed, and for `time` at
    // most. After an event, the next call waits kPause whatever happens: a folder in which files
    // change all the time does not keep the caller busy.
    Task<> wait(std::chrono::milliseconds time);

    static constexpr std::chrono::milliseconds kPause{200};

  private:
    void arm();
    void drain();

    boost::asio::posix::basic_stream_descriptor<Executor> descriptor_;
    Timer timer_;
    std::set<int> watches_;
    bool is_armed_ = false;
    bool has_event_ = false;  // since the last call of wait() began
    bool ends_with_event_ = false;
};

// The folders in which the files or patterns are, each once, up to the first that has a sign of a
// pattern in its name. Pure.
std::vector<std::string> folders_of(const std::vector<std::string>& paths);

class Reloader;

// Identifies the file that a path leads to, links followed, and its state. All zero: there is none.
struct FileStamp {
    std::string path;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;
    // A change of owner or permissions counts, too: the process may be able to read the file now.
    std::int64_t changed_ns = 0;

    bool operator==(const FileStamp&) const = default;
};
using FileStamps = std::vector<FileStamp>;

FileStamps look_at(const std::vector<std::string>& paths);

// Tells a change once, and not before it has settled: a certificate and its key are two files,
// which no program replaces at one moment. Pure.
class SettledChange {
  public:
    // A change has settled when looks have found the same for this long.
    explicit SettledChange(std::chrono::milliseconds settle) : settle_(settle) {}

    // Notes what a look at `now` has found. True: it differs from what was reported last, and it
    // has settled. The first looks tell what they find, too, if there is any file: it may have
    // changed since the configuration was read.
    bool is_due(FileStamps found, SteadyTime now);
    // The caller could not put the last change in force: the watch reports it again after
    // kRetryAfter. The fault may be in a file that the watch does not look at.
    void retry(SteadyTime now) { retry_at_ = now + kRetryAfter; }
    // Whether a change is there that has not been reported yet.
    bool is_settling() const { return last_ != told_; }

    static constexpr std::chrono::minutes kRetryAfter{1};

  private:
    std::chrono::milliseconds settle_;
    FileStamps told_;
    FileStamps last_;
    SteadyTime changed_at_;
    std::optional<SteadyTime> retry_at_;
};

// Looks are so far apart. Events of folders make the next look come sooner, but network folders
// have none.
inline constexpr std::chrono::seconds kLookEvery{5};
// Without events, two looks make a change settled: it is in force within ten seconds.
inline constexpr std::chrono::seconds kCertificatesSettle{4};
// With events.
inline constexpr std::chrono::milliseconds kSettle{200};

enum class WatchedFiles : bool {
    certificates,
    all_files,  // that the configuration was read from: the reloader reads it again
};

// Looks at the files of the configuration in force, and of the last one that was refused, and has
// the reloader put changes in force. Also makes new keys for tickets when it is time. Lives as long
// as the loop; `reloader` outlives it.
Task<> watch_files(Executor executor, Reloader& reloader, WatchedFiles watched);

}  // namespace tidegate::app

// Looks for changed files, so that no program need send a signal: certbot writes files, editors
// rename them over others, Kubernetes swaps the links that lead to them. Changed certificates are
// always put in force; a changed configuration only with `--watch`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/asio.hpp"
#include "net/deadline.hpp"

namespace tidegate::app {

class Reloader;

// What the file that a path leads to looks like, links followed. All zero: there is none.
struct FileStamp {
    std::string path;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;
    // Of owner and permissions, too: a file that could not be read may be readable now.
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

enum class Watched : bool {
    certificates,
    all_files,  // that the configuration was read from: the reloader reads it again
};

// Looks at the files of the configuration in force, and of the last one that was refused, and has
// the reloader put changes in force. Also makes new keys for tickets when it is time. Lives as long
// as the loop; `reloader` outlives it.
Task<> watch_files(Executor executor, Reloader& reloader, Watched watched);

}  // namespace tidegate::app

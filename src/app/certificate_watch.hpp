// Looks for changed files of certificates, so that certbot and cert-manager need not send a signal:
// certbot writes files, Kubernetes swaps the links that lead to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "net/asio.hpp"

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
    // Notes what a look has found. True: it differs from what was told last, and the look before
    // has found the same. The first looks tell what they find, too, if there is any file: it may
    // have changed since the configuration was read.
    bool is_due(FileStamps found);
    // The caller could not put the last change in force: the watch reports it again after
    // kRetryLooks looks. The fault may be in a file that the watch does not look at.
    void retry() { looks_to_retry_ = kRetryLooks; }

    static constexpr int kRetryLooks = 12;

  private:
    FileStamps told_;
    FileStamps last_;
    int looks_to_retry_ = 0;  // 0: none
};

// Two looks make a change settled: it is in force within ten seconds. A retry comes each minute.
inline constexpr std::chrono::seconds kCertificateLookEvery{5};
static_assert(SettledChange::kRetryLooks * kCertificateLookEvery == std::chrono::minutes{1});

// Looks at the files of the configuration in force, and has the reloader renew certificates. Also
// makes new keys for tickets when it is time. Lives as long as the loop; `reloader` outlives it.
Task<> watch_certificates(Executor executor, Reloader& reloader);

}  // namespace tidegate::app

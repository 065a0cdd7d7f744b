// Events of folders (inotify), which tell at once that a file in one of them has changed.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "net/asio.hpp"

namespace tidegate::app {

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

}  // namespace tidegate::app

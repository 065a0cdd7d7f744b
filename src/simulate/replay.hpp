// Reads logs from files and hands out their requests in the order in which they came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "simulate/log.hpp"
#include "simulate/simulation.hpp"

namespace tidegate::simulate {

// How many lines that were not read are kept, and how much of each.
inline constexpr std::size_t kUnreadShown = 5;
inline constexpr std::size_t kUnreadBytes = 200;

struct UnreadLine {
    std::string file;
    std::uint64_t number = 0;  // from 1 on
    std::string why;
    std::string text;  // its beginning
};

struct LogFileInfo {
    std::string name;
    LogFormat format = LogFormat::combined;
    std::uint64_t lines = 0;
};

// One thread. Memory: a buffer for each file, and the requests of a minute, or of
// LogLayout::order_seconds.
class Replay {
  public:
    // A request that was left out, and the newest one before it.
    struct Late {
        Micros at{0};
        Micros behind{0};
    };

    // Opens the files (`-`: standard input) and tells their formats, or says what is wrong.
    static Result<std::unique_ptr<Replay>, std::string> open(const std::vector<std::string>& paths,
                                                             const LogLayout& layout,
                                                             std::optional<LogFormat> format);
    ~Replay();
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    // What every file says of its requests.
    const LogFacts& facts() const { return facts_; }
    // Reads all lines. `use` gets all requests, in the order of their times.
    void run(const UseRequests& use);

    // After run(). Blank lines are none.
    std::uint64_t lines() const { return lines_; }
    std::uint64_t unread() const { return unread_; }
    std::uint64_t late() const { return late_; }
    // Requires late() > 0.
    const Late& first_late() const { return first_late_; }
    // How late a request may be: seconds.
    std::int64_t order_seconds() const { return order_seconds_; }
    const std::vector<UnreadLine>& unread_lines() const { return unread_lines_; }
    std::vector<LogFileInfo> files() const;

  private:
    class File;

    Replay();
    bool mixes_recordings() const;
    void note_unread(const File& file, std::string_view line, std::string_view why);
    void note_late(const LoggedRequest& request, const LogOrder& order);
    bool advance(File& file);

    std::vector<std::unique_ptr<File>> files_;
    LogFacts facts_;
    bool spreads_ends_ = false;  // times are whole seconds of the end, and durations are known
    std::uint64_t lines_ = 0;
    std::uint64_t unread_ = 0;
    std::uint64_t late_ = 0;
    Late first_late_;
    std::int64_t order_seconds_ = kOrderSeconds;
    std::vector<UnreadLine> unread_lines_;
};

}  // namespace tidegate::simulate

// Work that waits for the file system, with a bound on each wait.
//
// open(), stat() and glob() do not return while a path leads to a mount whose server is gone, and
// nothing but the server ends them. So such work runs on a thread of its own and says before each
// call which path it waits for. When a path does not answer in time, the caller goes on without
// that thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace tidegate {

// The time that one call of the file system may take.
inline constexpr std::chrono::seconds kFilePatience{5};
// After this, the program logs which path it waits for.
inline constexpr std::chrono::seconds kFileNotice{1};

// A path has not answered in time; what() names it.
class NoAnswerFromFile : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// While it lives, the calling thread waits for `path`; the innermost one counts. Costs nothing on a
// thread that does no FileWork. Throws what only FileWork catches when the work has been given up.
class FileWait {
  public:
    explicit FileWait(const std::string& path);
    ~FileWait();
    FileWait(const FileWait&) = delete;
    FileWait& operator=(const FileWait&) = delete;

    // The path has answered and may take as long again.
    void begin_again();
};

// One thread uses it. Work that is destroyed before it is done is given up: its thread ends at its
// next FileWait, and what it uses must outlive that thread.
class FileWork {
  public:
    using Clock = std::chrono::steady_clock;

    // Begins. Throws std::system_error when the process may start no thread, and NoAnswerFromFile
    // when kGivenUpMax threads wait for paths that have not answered since.
    explicit FileWork(std::function<void()> work);
    ~FileWork();
    FileWork(const FileWork&) = delete;
    FileWork& operator=(const FileWork&) = delete;

    bool is_done() const;
    // Blocks until the work is done (true), or has waited for one path for `patience` (false).
    bool wait(std::chrono::milliseconds patience) const;
    // The path that the work has waited for, at `now` for `patience` at least; nothing while the
    // work goes on.
    std::optional<std::string> overdue(std::chrono::milliseconds patience,
                                       Clock::time_point now = Clock::now()) const;
    // Throws what the work has thrown. Requires that it is done.
    void rethrow() const;

    // Whether the calling thread is one of a FileWork.
    static bool is_worker_thread();
    // Threads that have not ended, given up or not.
    static std::size_t threads();

    static constexpr std::size_t kGivenUpMax = 64;

  private:
    friend class FileWait;
    struct Shared;

    std::shared_ptr<Shared> shared_;
    std::thread thread_;
};

// For messages: that the program waits for `path`; and that it does not any more.
std::string waiting_text(const std::string& path);
std::string no_answer_text(const std::string& path, std::chrono::milliseconds patience);

// Gets waiting_text(), once, when a path has been silent for kFileNotice.
using FileNotice = std::function<void(const std::string& text)>;

// Calls `work`, which owns all that it uses, and returns what it returns; on the calling thread if
// that is one of a FileWork already. Blocks. Throws NoAnswerFromFile, and what `work` throws.
template <class Work>
auto with_file_patience(Work work, const FileNotice& notice = {},
                        std::chrono::milliseconds patience = kFilePatience) {
    using T = decltype(work());
    if (FileWork::is_worker_thread()) return work();
    const auto result = std::make_shared<std::optional<T>>();
    const FileWork under_way([result, work = std::move(work)]() mutable {  //
        result->emplace(work());
    });
    if (notice && !under_way.wait(kFileNotice)) {
        if (const auto path = under_way.overdue(kFileNotice)) notice(waiting_text(*path));
    }
    if (!under_way.wait(patience)) {
        throw NoAnswerFromFile(no_answer_text(under_way.overdue(patience).value_or(""), patience));
    }
    under_way.rethrow();
    return std::move(**result);
}

}  // namespace tidegate

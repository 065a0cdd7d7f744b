#include "base/file_work.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/process.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

// Ends work that was given up. No std::exception, which the work may catch.
struct GivenUp {};

std::atomic<std::size_t> threads_left{0};
std::atomic<std::size_t> threads_given_up{0};

// Quotes the whole path, unlike quote(): the message has to say which of several files it means.
std::string whole(const std::string& path) {
    return "`" + displayable(path) + "`";
}

}  // namespace

struct FileWork::Shared {
    // The state of the work that this thread does.
    static thread_local Shared* here;

    std::mutex mutex;
    std::condition_variable changed;
    std::string path;  // that it waits for; empty: none
    Clock::time_point since;
    bool is_done = false;
    bool is_given_up = false;
    std::exception_ptr failure;

    void run(std::function<void()> work) noexcept;
    // Requires the mutex.
    bool is_overdue(std::chrono::milliseconds patience, Clock::time_point now) const {
        return !is_done && !path.empty() && now - since >= patience;
    }
};

thread_local FileWork::Shared* FileWork::Shared::here = nullptr;

void FileWork::Shared::run(std::function<void()> work) noexcept {
    block_all_signals();
    here = this;
    std::exception_ptr thrown;
    try {
        work();
    } catch (const GivenUp&) {
    } catch (...) {
        thrown = std::current_exception();
    }
    work = nullptr;  // what it owns ends before the caller hears of it
    here = nullptr;
    {
        const std::lock_guard lock(mutex);
        failure = std::move(thrown);
        is_done = true;
        if (is_given_up) --threads_given_up;
    }
    changed.notify_all();
    --threads_left;
}

FileWait::FileWait(const std::string& path) {
    FileWork::Shared* const work = FileWork::Shared::here;
    if (work == nullptr) return;
    const std::lock_guard lock(work->mutex);
    if (work->is_given_up) throw GivenUp{};
    work->path = path;
    work->since = FileWork::Clock::now();
}

FileWait::~FileWait() {
    FileWork::Shared* const work = FileWork::Shared::here;
    if (work == nullptr) return;
    const std::lock_guard lock(work->mutex);
    work->path.clear();
}

void FileWait::begin_again() {
    FileWork::Shared* const work = FileWork::Shared::here;
    if (work == nullptr) return;
    const std::lock_guard lock(work->mutex);
    if (work->is_given_up) throw GivenUp{};
    work->since = FileWork::Clock::now();
}

FileWork::FileWork(std::function<void()> work) : shared_(std::make_shared<Shared>()) {
    if (threads_given_up >= kGivenUpMax) {
        throw NoAnswerFromFile(std::to_string(kGivenUpMax) +
                               " earlier attempts still wait for files that do not answer: restart "
                               "Tidegate, or have their file systems answer");
    }
    ++threads_left;
    try {
        thread_ = std::thread(
            [shared = shared_, work = std::move(work)]() mutable { shared->run(std::move(work)); });
    } catch (...) {
        --threads_left;
        throw;
    }
}

// A thread that is done has only its own end before it: what libraries keep for a thread is gone
// when this returns.
FileWork::~FileWork() {
    {
        const std::lock_guard lock(shared_->mutex);
        if (!shared_->is_done) {
            shared_->is_given_up = true;
            ++threads_given_up;
            thread_.detach();
            return;
        }
    }
    thread_.join();
}

bool FileWork::is_done() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->is_done;
}

bool FileWork::wait(std::chrono::milliseconds patience) const {
    std::unique_lock lock(shared_->mutex);
    while (!shared_->is_done) {
        const auto now = Clock::now();
        if (shared_->is_overdue(patience, now)) return false;
        const auto begun = shared_->path.empty() ? now : shared_->since;
        shared_->changed.wait_until(lock, begun + patience);
    }
    return true;
}

std::optional<std::string> FileWork::overdue(std::chrono::milliseconds patience,
                                             Clock::time_point now) const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->is_overdue(patience, now)) return std::nullopt;
    return shared_->path;
}

void FileWork::rethrow() const {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->failure) std::rethrow_exception(shared_->failure);
}

bool FileWork::is_worker_thread() {
    return Shared::here != nullptr;
}

std::size_t FileWork::threads() {
    return threads_left;
}

std::string waiting_text(const std::string& path) {
    return "waits for " + whole(path) + ", which does not answer";
}

std::string no_answer_text(const std::string& path, std::chrono::milliseconds patience) {
    return whole(path) + " has not answered for " + format_duration(patience) +
           ": is its file system there?";
}

}  // namespace tidegate

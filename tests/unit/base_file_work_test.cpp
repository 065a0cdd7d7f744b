#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/file_work.hpp"

namespace tidegate::file_work_test {
namespace {

using std::chrono::milliseconds;

const std::string kPath = "/mnt/gone/keys.yaml";

// A mount whose server is gone: who waits for it waits until it is back.
struct Mount {
    std::promise<void> is_back;
    std::shared_future<void> answers = is_back.get_future().share();
};

void await_threads(std::size_t number) {
    while (FileWork::threads() != number) std::this_thread::yield();
}

TEST_CASE("file_work: the caller gets what the work returns, and what it throws") {
    CHECK(with_file_patience([] { return 7; }) == 7);
    CHECK_THROWS_AS(with_file_patience([]() -> int { throw std::out_of_range("x"); }),
                    std::out_of_range);
    await_threads(0);
}

TEST_CASE("file_work: a path that does not answer is named, and the caller goes on") {
    Mount mount;
    bool went_on = false;
    const auto work = [&went_on, answers = mount.answers] {
        { const FileWait quick("/etc/hosts"); }
        const FileWait wait(kPath);
        answers.wait();
        const FileWait next("/next");
        went_on = true;
        return 0;
    };
    try {
        with_file_patience(work, {}, milliseconds{1});
        FAIL("it ended");
    } catch (const NoAnswerFromFile& silent) {
        CHECK(std::string(silent.what()) ==
              "`" + kPath + "` has not answered for 1ms: is its file system there?");
    }
    // When the server is back, the work that was given up ends at its next file.
    mount.is_back.set_value();
    await_threads(0);
    CHECK_FALSE(went_on);
}

TEST_CASE("file_work: time counts while one path is waited for, from its last answer") {
    Mount mount;
    std::promise<void> waits;
    FileWork work([&waits, answers = mount.answers] {
        FileWait wait(kPath);
        waits.set_value();
        answers.wait();
        wait.begin_again();
    });
    waits.get_future().wait();
    const auto now = FileWork::Clock::now();
    CHECK_FALSE(work.overdue(milliseconds{60'000}, now));
    CHECK(work.overdue(milliseconds{60'000}, now + milliseconds{60'000}) == kPath);
    mount.is_back.set_value();
    CHECK(work.wait(milliseconds{60'000}));
    CHECK_FALSE(work.overdue(milliseconds{0}, now + milliseconds{60'000}));
}

TEST_CASE("file_work: work that computes for long is not given up") {
    Mount mount;
    FileWork work([answers = mount.answers] { answers.wait(); });
    CHECK_FALSE(work.overdue(milliseconds{0}));
    mount.is_back.set_value();
    CHECK(work.wait(milliseconds{1}));
}

TEST_CASE("file_work: within such work, more of it needs no other thread") {
    const auto same = with_file_patience([] {
        const auto outer = std::this_thread::get_id();
        return outer == with_file_patience([] { return std::this_thread::get_id(); });
    });
    CHECK(same);
    CHECK_FALSE(FileWork::is_worker_thread());
}

TEST_CASE("file_work: threads that wait for files that do not answer have a bound") {
    Mount mount;
    for (std::size_t i = 0; i < FileWork::kGivenUpMax; ++i) {
        const FileWork work([answers = mount.answers] { answers.wait(); });
    }
    CHECK_THROWS_AS(with_file_patience([] { return 0; }), NoAnswerFromFile);
    mount.is_back.set_value();
    await_threads(0);
    CHECK(with_file_patience([] { return 1; }) == 1);
}

}  // namespace
}  // namespace tidegate::file_work_test

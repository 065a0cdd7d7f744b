#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::net_task_test {

namespace {

Task<int> twice(int number) {
    co_return 2 * number;
}

Task<int> sum_of_many(int count) {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += (co_await twice(1)) / 2;
    co_return sum;
}

Task<std::string> fail_after(Wakeup& wakeup) {
    co_await wakeup.wait();
    throw std::runtime_error("late");
}

Task<std::string> catch_late(Wakeup& wakeup) {
    try {
        co_return co_await fail_after(wakeup);
    } catch (const std::runtime_error& error) {
        co_return error.what();
    }
}

// `token` is held by every frame of the way.
Task<> sleep_deep(Wakeup& wakeup, std::shared_ptr<int> token, int depth) {
    if (depth == 0) {
        co_await wakeup.wait();
    } else {
        co_await sleep_deep(wakeup, token, depth - 1);
    }
}

// The timer does not fire while the test runs.
Task<> wait_for_timer(Executor executor, std::shared_ptr<int> token) {
    Timer timer(executor);
    timer.expires_after(std::chrono::hours(1));
    co_await timer.async_wait(as_values);
    token.reset();
}

Task<> throw_after_sleep(Wakeup& wakeup, bool no_memory) {
    co_await wakeup.wait();
    if (no_memory) throw std::bad_alloc();
    throw std::runtime_error("a bug");
}

// How a program ends whose loop runs a vital task that throws, and its message.
struct End {
    int signal = 0;
    std::string errors;
};

End end_of_vital_task(bool no_memory, EndReporter tell = nullptr) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);  // the frame of the tests has a handler of its own
        ::dup2(ends[1], STDERR_FILENO);
        if (tell != nullptr) set_end_reporter(tell);
        asio::io_context io{1};
        Wakeup wakeup(io.get_executor());
        spawn_vital(io.get_executor(), throw_after_sleep(wakeup, no_memory));
        io.poll();
        wakeup.wake_later();
        io.run_for(std::chrono::seconds(10));
        ::_exit(0);
    }
    ::close(ends[1]);
    End end;
    char piece[512];
    for (ssize_t size = 0; (size = ::read(ends[0], piece, sizeof piece)) > 0;) {
        end.errors.append(piece, static_cast<std::size_t>(size));
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    return end;
}

}  // namespace

TEST_CASE("task: a vital task that throws ends the program, and the message says what and where") {
    const End bug = end_of_vital_task(false);
    CHECK(bug.signal == SIGABRT);
    CHECK(bug.errors.find("a bug") != std::string::npos);
    CHECK(bug.errors.find("net_task_test.cpp:") != std::string::npos);
    const End no_memory = end_of_vital_task(true);
    CHECK(no_memory.signal == SIGABRT);
    CHECK(no_memory.errors.find("bad_alloc") != std::string::npos);
    const End told = end_of_vital_task(false, [](std::string_view why) noexcept {
        std::fprintf(stderr, "[%.*s]", static_cast<int>(why.size()), why.data());
    });
    CHECK(told.signal == SIGABRT);
    CHECK(told.errors.front() == '[');
}

TEST_CASE("task: a vital one that ends as it should ends nothing else") {
    asio::io_context io{1};
    Wakeup wakeup(io.get_executor());
    spawn_vital(io.get_executor(), sleep_deep(wakeup, nullptr, 3));
    spawn_vital(io.get_executor(), twice(21));
    io.poll();
    wakeup.wake_later();
    io.run();
    CHECK(io.stopped());
}

TEST_CASE("task: the message has the text of any exception") {
    CHECK(message_of(std::make_exception_ptr(std::runtime_error("a bug"))) == "a bug");
    CHECK(message_of(std::make_exception_ptr(std::bad_alloc())) == "std::bad_alloc");
    CHECK(message_of(std::make_exception_ptr(7)) == "an exception of an unknown kind");
}

TEST_CASE("task: a task that never waits has ended when spawn, on its loop, returns") {
    asio::io_context io{1};
    bool done = false;
    asio::post(io, [&] {
        spawn_vital(io.get_executor(),
                    [](bool& flag) -> Task<> { flag = co_await twice(21) == 42; }(done));
        CHECK(done);
    });
    CHECK_FALSE(done);
    io.run();
    CHECK(done);
}

TEST_CASE("task: spawned from elsewhere, it begins on the thread of its loop") {
    asio::io_context io{1};
    std::thread::id begun;
    spawn_vital(io.get_executor(), [](std::thread::id& at) -> Task<> {
        at = std::this_thread::get_id();
        co_return;
    }(begun));
    CHECK(begun == std::thread::id{});
    std::thread other([&] { io.run(); });
    const auto expected = other.get_id();
    other.join();
    CHECK(begun == expected);
}

TEST_CASE("task: awaiting many that do not wait takes no more stack than one") {
    asio::io_context io{1};
    int sum = 0;
    spawn(io.get_executor(), sum_of_many(1'000'000),
          [&](const std::exception_ptr&, int result) { sum = result; });
    io.run();
    CHECK(sum == 1'000'000);
}

TEST_CASE("task: an exception after a sleep arrives where the task is awaited") {
    asio::io_context io{1};
    Wakeup wakeup(io.get_executor());
    std::string caught;
    spawn(io.get_executor(), catch_late(wakeup),
          [&](const std::exception_ptr& failure, std::string what) {
              CHECK(failure == nullptr);
              caught = std::move(what);
          });
    io.poll();
    CHECK(caught.empty());
    wakeup.wake_later();
    io.run();
    CHECK(caught == "late");
}

TEST_CASE("task: an exception that is not caught is reported last, after the frames are gone") {
    asio::io_context io{1};
    const auto token = std::make_shared<int>(1);
    bool failed = false;
    spawn(
        io.get_executor(),
        [](std::shared_ptr<int>) -> Task<> {
            throw std::runtime_error("early");
            co_return;
        }(token),
        [&](const std::exception_ptr& failure) {
            CHECK(token.use_count() == 1);
            CHECK_THROWS_AS(std::rethrow_exception(failure), std::runtime_error);
            failed = true;
        });
    io.run();
    CHECK(failed);
}

TEST_CASE("task: its loop does not end while it sleeps") {
    asio::io_context io{1};
    Wakeup wakeup(io.get_executor());
    spawn_vital(io.get_executor(), sleep_deep(wakeup, nullptr, 3));
    CHECK(io.poll() > 0);
    CHECK_FALSE(io.stopped());
    wakeup.wake_now();
    io.run();
    CHECK(io.stopped());
}

TEST_CASE("task: tasks that wait are destroyed with what would have woken them") {
    const auto token = std::make_shared<int>(1);
    asio::io_context io{1};
    {
        Wakeup wakeup(io.get_executor());
        spawn_vital(io.get_executor(), sleep_deep(wakeup, token, 3));
        io.poll();
        CHECK(token.use_count() > 3);
    }
    CHECK(token.use_count() == 1);
    io.run();
}

TEST_CASE("task: tasks that wait for an operation are destroyed with the loop") {
    const auto token = std::make_shared<int>(1);
    {
        asio::io_context io{1};
        spawn_vital(io.get_executor(), wait_for_timer(io.get_executor(), token));
        io.poll();
        CHECK(token.use_count() > 1);
    }
    CHECK(token.use_count() == 1);
}

TEST_CASE("task: one that never began is destroyed with the loop, one never awaited by itself") {
    const auto token = std::make_shared<int>(1);
    {
        asio::io_context io{1};
        Wakeup wakeup(io.get_executor());
        spawn(io.get_executor(), sleep_deep(wakeup, token, 1),
              [token](const std::exception_ptr&) {});
        const Task<> unused = sleep_deep(wakeup, token, 1);
        CHECK(token.use_count() == 4);
    }
    CHECK(token.use_count() == 1);
}

}  // namespace tidegate::net_task_test

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/asio.hpp"
#include "base/wakeup.hpp"

using namespace tidegate;

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

Task<> sleep_for_ever(Executor executor, std::shared_ptr<int> token) {
    Timer timer(executor);
    timer.expires_after(std::chrono::hours(1));
    co_await timer.async_wait(as_values);
    token.reset();
}

}  // namespace

TEST_CASE("task: who never waits has ended when spawn, on its loop, returns") {
    asio::io_context io{1};
    bool done = false;
    asio::post(io, [&] {
        spawn(io.get_executor(),
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
    spawn(io.get_executor(), [](std::thread::id& at) -> Task<> {
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

TEST_CASE("task: what is thrown after a sleep arrives where it is awaited") {
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

TEST_CASE("task: what nobody catches is told at the end, when the frames are gone") {
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
    spawn(io.get_executor(), sleep_deep(wakeup, nullptr, 3));
    CHECK(io.run_for(std::chrono::milliseconds(1)) > 0);
    CHECK_FALSE(io.stopped());
    wakeup.wake_now();
    io.run();
    CHECK(io.stopped());
}

TEST_CASE("task: all who wait are destroyed with what would have woken them") {
    const auto token = std::make_shared<int>(1);
    asio::io_context io{1};
    {
        Wakeup wakeup(io.get_executor());
        spawn(io.get_executor(), sleep_deep(wakeup, token, 3));
        io.poll();
        CHECK(token.use_count() > 3);
    }
    CHECK(token.use_count() == 1);
    io.run();
}

TEST_CASE("task: all who wait for an operation are destroyed with the loop") {
    const auto token = std::make_shared<int>(1);
    {
        asio::io_context io{1};
        spawn(io.get_executor(), sleep_for_ever(io.get_executor(), token));
        io.poll();
        CHECK(token.use_count() > 1);
    }
    CHECK(token.use_count() == 1);
}

TEST_CASE("task: one that never began goes with the loop, and one that nobody awaits by itself") {
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

#include <crypt.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "ask/password_pool.hpp"

namespace tidegate::ask::password_pool_test {
namespace {

using identity::Htpasswd;
using Check = PasswordPool::Check;
using State = Check::State;
using Submitted = PasswordPool::Submitted;
using Users = std::shared_ptr<const Htpasswd>;

constexpr std::uint64_t kAddress = 1;

Users nobody() {
    return std::make_shared<const Htpasswd>();
}

// In place of a hash: the password is right if it is "right", and nothing is found before it may.
class Gate {
  public:
    bool verify(std::string_view user, std::string_view password) {
        std::unique_lock lock(mutex_);
        ++begun_;
        seen_.emplace_back(std::string(user) + ":" + std::string(password));
        news_.notify_all();
        news_.wait(lock, [this] { return allowed_ > 0; });
        --allowed_;
        return password == "right";
    }
    void allow(int count) {
        const std::lock_guard lock(mutex_);
        allowed_ += count;
        news_.notify_all();
    }
    void await_begun(int count) {
        std::unique_lock lock(mutex_);
        REQUIRE(news_.wait_for(lock, std::chrono::seconds(20), [&] { return begun_ >= count; }));
    }
    std::vector<std::string> seen() {
        const std::lock_guard lock(mutex_);
        return seen_;
    }
    PasswordPool::Verify function() {
        return [this](const Htpasswd&, std::string_view user, std::string_view password) {
            return verify(user, password);
        };
    }

  private:
    std::mutex mutex_;
    std::condition_variable news_;
    std::vector<std::string> seen_;
    int begun_ = 0;
    int allowed_ = 0;
};

// A worker's loop with one session on it.
struct Session {
    asio::io_context& io;
    Wakeup wakeup{io.get_executor()};
    std::optional<Check> check{std::in_place, io.get_executor(), wakeup};
    int woken = 0;

    explicit Session(asio::io_context& loop) : io(loop) {}

    void await_answer() {
        spawn_vital(io.get_executor(), sleep());
        io.restart();
        io.poll();
    }
    Task<> sleep() {
        while (check && check->state() == State::waiting) co_await wakeup.wait();
        ++woken;
    }
};

// Runs the loop until `done`, at most for as long as no sane machine needs.
void run_until(asio::io_context& io, const std::function<bool()>& done) {
    const auto guard = asio::make_work_guard(io);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        io.restart();
        io.run_one_for(std::chrono::milliseconds(100));
    }
}

// What a test with a gate needs; the gate is opened before the pool is waited for.
struct World {
    Gate gate;
    asio::io_context io{1};
    Users users = nobody();
    std::vector<std::unique_ptr<Session>> sessions;
    PasswordPool pool;

    explicit World(const PasswordPool::Options& options = {}) : pool(options, gate.function()) {}
    ~World() { gate.allow(1'000'000); }

    Session& session() { return *sessions.emplace_back(std::make_unique<Session>(io)); }
    // A password check of a session of its own, which sleeps until it is woken.
    Submitted ask(std::string_view user, std::string_view password,
                  std::uint64_t address = kAddress) {
        Session& asking = session();
        const Submitted submitted = pool.submit(*asking.check, users, user, password, address);
        if (submitted == Submitted::yes) asking.await_answer();
        return submitted;
    }
    State state(std::size_t number) const { return sessions[number]->check->state(); }
    void await_all() {
        run_until(io, [this] {
            for (const auto& one : sessions)
                if (one->check && one->check->state() == State::waiting) return false;
            return true;
        });
    }
};

TEST_CASE("password_pool: the right password is right, another wrong, and the sleeper is woken") {
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    REQUIRE(crypt_gensalt_rn("$2y$", 4, nullptr, 0, setting, sizeof setting) != nullptr);
    const auto work = std::make_unique<crypt_data>();
    const std::string hash = crypt_rn("secret", setting, work.get(), sizeof *work);
    const Users users = std::make_shared<const Htpasswd>(*Htpasswd::parse("alice:" + hash));

    asio::io_context io{1};
    PasswordPool pool({});
    Session right(io);
    Session wrong(io);
    CHECK(right.check->state() == State::not_asked);
    REQUIRE(pool.submit(*right.check, users, "alice", "secret", 1) == Submitted::yes);
    REQUIRE(pool.submit(*wrong.check, users, "alice", "Secret", 1) == Submitted::yes);
    CHECK(right.check->state() == State::waiting);
    right.await_answer();
    wrong.await_answer();
    run_until(io, [&] { return right.woken == 1 && wrong.woken == 1; });
    CHECK(right.check->state() == State::right);
    CHECK(wrong.check->state() == State::wrong);
}

TEST_CASE("password_pool: a check that several requests want at once runs once, for all of them") {
    World world;
    for (int i = 0; i < 20; ++i) REQUIRE(world.ask("alice", "right") == Submitted::yes);
    world.gate.await_begun(1);
    REQUIRE(world.ask("alice", "right", 2) == Submitted::yes);  // while it is computed
    world.gate.allow(1);
    world.await_all();
    for (std::size_t i = 0; i <= 20; ++i) CHECK(world.state(i) == State::right);
    CHECK(world.gate.seen().size() == 1);
}

TEST_CASE("password_pool: another user, password or file is another check") {
    World world;
    REQUIRE(world.ask("alice", "right") == Submitted::yes);
    REQUIRE(world.ask("alice", "wrong") == Submitted::yes);
    REQUIRE(world.ask("bob", "right") == Submitted::yes);
    REQUIRE(world.ask("a", "liceright") == Submitted::yes);
    REQUIRE(world.ask("alicer", "ight") == Submitted::yes);
    world.users = nobody();
    REQUIRE(world.ask("alice", "right") == Submitted::yes);
    world.gate.allow(6);
    world.await_all();
    CHECK(world.gate.seen() == std::vector<std::string>{"alice:right", "alice:wrong", "bob:right",
                                                        "a:liceright", "alicer:ight",
                                                        "alice:right"});
    CHECK(world.state(0) == State::right);
    CHECK(world.state(1) == State::wrong);
    CHECK(world.state(3) == State::wrong);
    CHECK(world.state(5) == State::right);
}

TEST_CASE("password_pool: the result of a check is not remembered") {
    World world;
    world.gate.allow(2);
    for (int i = 0; i < 2; ++i) {
        REQUIRE(world.ask("alice", "right") == Submitted::yes);
        world.await_all();
    }
    CHECK(world.gate.seen().size() == 2);
}

TEST_CASE("password_pool: when too many checks wait the next is refused, and may come again") {
    World world({.threads = 1, .waiting = 3, .per_address = 100});
    REQUIRE(world.ask("0", "right", 0) == Submitted::yes);
    world.gate.await_begun(1);
    for (int i = 1; i <= 3; ++i)
        REQUIRE(world.ask(std::to_string(i), "right", kAddress) == Submitted::yes);
    CHECK(world.pool.waiting() == 3);
    CHECK(world.ask("4", "right") == Submitted::pool_is_full);
    CHECK(world.state(4) == State::not_asked);
    CHECK(world.ask("3", "right") == Submitted::yes);  // is under way already
    world.gate.allow(4);
    world.await_all();
    CHECK(world.pool.waiting() == 0);
    world.gate.allow(1);
    CHECK(world.pool.submit(*world.sessions[4]->check, world.users, "4", "right", 1) ==
          Submitted::yes);
    world.await_all();
    CHECK(world.state(4) == State::right);
}

TEST_CASE("password_pool: an address has a share and no more, and does not delay others") {
    World world({.threads = 1, .waiting = 64, .per_address = 2});
    REQUIRE(world.ask("1", "right", 7) == Submitted::yes);
    REQUIRE(world.ask("2", "right", 7) == Submitted::yes);
    CHECK(world.ask("3", "right", 7) == Submitted::address_is_full);
    CHECK(world.ask("3", "right", 8) == Submitted::yes);
    CHECK(world.ask("3", "right", 7) == Submitted::yes);  // costs nothing more
    world.gate.allow(3);
    world.await_all();
    CHECK(world.ask("4", "right", 7) == Submitted::yes);
    CHECK(world.ask("5", "right", 7) == Submitted::yes);
    CHECK(world.ask("6", "right", 7) == Submitted::address_is_full);
}

TEST_CASE("password_pool: the number of requests that wait for one check is bounded") {
    World world({.waiters_per_check = 2});
    CHECK(world.ask("alice", "right") == Submitted::yes);
    CHECK(world.ask("alice", "right") == Submitted::yes);
    CHECK(world.ask("alice", "right") == Submitted::pool_is_full);
}

TEST_CASE("password_pool: a check whose client has left does not run, and holds no place") {
    World world({.threads = 1, .waiting = 2, .per_address = 2});
    REQUIRE(world.ask("0", "right", 0) == Submitted::yes);
    world.gate.await_begun(1);
    REQUIRE(world.ask("1", "right") == Submitted::yes);
    REQUIRE(world.ask("2", "right") == Submitted::yes);
    REQUIRE(world.ask("2", "right", 2) == Submitted::yes);
    CHECK(world.ask("3", "right") == Submitted::address_is_full);

    world.sessions[1]->check.reset();
    CHECK(world.pool.waiting() == 1);
    world.sessions[2]->check.reset();  // the other still waits for the result
    CHECK(world.pool.waiting() == 1);
    CHECK(world.ask("3", "right") == Submitted::yes);
    world.gate.allow(3);
    world.await_all();
    CHECK(world.gate.seen() == std::vector<std::string>{"0:right", "2:right", "3:right"});
    CHECK(world.state(3) == State::right);
}

TEST_CASE("password_pool: a client that leaves during its check gets no result") {
    World world;
    REQUIRE(world.ask("alice", "right") == Submitted::yes);
    world.gate.await_begun(1);
    world.sessions[0]->check.reset();
    REQUIRE(world.ask("alice", "right") == Submitted::yes);  // joins what is being computed
    world.gate.allow(1);
    world.await_all();
    CHECK(world.state(1) == State::right);
    CHECK(world.sessions[0]->woken == 0);
}

TEST_CASE("password_pool: a client that leaves between the result and its wake-up gets no result") {
    World world;
    REQUIRE(world.ask("alice", "right") == Submitted::yes);
    REQUIRE(world.ask("bob", "right") == Submitted::yes);
    world.gate.allow(1);
    world.gate.await_begun(2);  // so the first was answered
    world.sessions[0]->check.reset();
    world.gate.allow(1);
    world.await_all();
    CHECK(world.sessions[0]->woken == 0);
    CHECK(world.state(1) == State::right);
}

TEST_CASE("password_pool: an event loop that has ended is not posted to") {
    Gate gate;
    PasswordPool pool({}, gate.function());
    {
        asio::io_context io{1};
        Session session(io);
        REQUIRE(pool.submit(*session.check, nobody(), "alice", "right", 1) == Submitted::yes);
        gate.await_begun(1);
    }
    gate.allow(2);
    asio::io_context io{1};
    Session session(io);
    REQUIRE(pool.submit(*session.check, nobody(), "bob", "right", 1) == Submitted::yes);
    session.await_answer();
    run_until(io, [&] { return session.woken == 1; });
    CHECK(session.check->state() == State::right);
}

TEST_CASE(
    "password_pool: when it is destroyed, the check under way ends and waiting ones are dropped") {
    Gate gate;
    asio::io_context io{1};
    Session first(io);
    Session second(io);
    auto pool = std::make_unique<PasswordPool>(PasswordPool::Options{}, gate.function());
    REQUIRE(pool->submit(*first.check, nobody(), "alice", "right", 1) == Submitted::yes);
    gate.await_begun(1);
    REQUIRE(pool->submit(*second.check, nobody(), "bob", "right", 1) == Submitted::yes);
    first.await_answer();
    second.await_answer();
    std::thread opener([&] {
        run_until(io, [&] { return second.woken == 1; });  // before the first is done
        gate.allow(1);
    });
    pool.reset();
    opener.join();
    CHECK(second.check->state() == State::dropped);
    run_until(io, [&] { return first.woken == 1; });
    CHECK(first.check->state() == State::right);
    CHECK(gate.seen().size() == 1);
}

TEST_CASE("password_pool: a check may outlive the pool") {
    Gate gate;
    asio::io_context io{1};
    Session session(io);
    gate.allow(1);
    {
        PasswordPool pool({}, gate.function());
        REQUIRE(pool.submit(*session.check, nobody(), "alice", "right", 1) == Submitted::yes);
    }
    session.check.reset();
    io.poll();
    CHECK(session.woken == 0);
}

TEST_CASE("password_pool: without work it is destroyed at once, with several threads too") {
    PasswordPool({.threads = 4});
    PasswordPool({.threads = 1});
}

TEST_CASE("password_pool: many loops ask, leave and ask again, and each result is right") {
    constexpr int kLoops = 3;
    std::atomic<int> wrong_answers{0};
    std::atomic<int> answers{0};
    PasswordPool pool({.threads = 2, .waiting = 16, .per_address = 8},
                      [](const Htpasswd&, std::string_view user, std::string_view password) {
                          return user == password;
                      });
    const Users users = nobody();
    const auto serve = [&](int number) {
        asio::io_context io{1};
        for (int round = 0; round < 500; ++round) {
            Session session(io);
            const std::string user = std::to_string(round % 7);
            const std::string password = std::to_string(round % 3);
            if (pool.submit(*session.check, users, user, password,
                            static_cast<std::uint64_t>(number)) != Submitted::yes) {
                continue;
            }
            if (round % 5 == 0) {
                session.check.reset();
                continue;
            }
            session.await_answer();
            run_until(io, [&] { return session.woken == 1; });
            ++answers;
            const State expected = user == password ? State::right : State::wrong;
            if (session.check->state() != expected) ++wrong_answers;
        }
    };
    std::vector<std::thread> loops;
    for (int i = 0; i < kLoops; ++i) loops.emplace_back(serve, i);
    for (std::thread& loop : loops) loop.join();
    CHECK(wrong_answers == 0);
    CHECK(answers > 0);
    CHECK(pool.waiting() == 0);
}

}  // namespace
}  // namespace tidegate::ask::password_pool_test

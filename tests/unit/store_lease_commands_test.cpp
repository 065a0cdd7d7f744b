// How many commands Redis gets for the requests of a key with leases. Threads with tables of their
// own and one store are simulated, with trips that take their time.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "store/leases.hpp"
#include "store/memory_store.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_lease_rig.hpp"

namespace tidegate::store::lease_commands_test {
namespace {

using namespace std::chrono_literals;
using limit::Micros;
using test::kBegin;
using test::leased;

struct Commands {
    std::int64_t requests = 0;
    std::int64_t alone = 0;    // charges of a request by itself
    std::int64_t batches = 0;  // charges of a batch
    std::int64_t given = 0;    // give-backs
    std::int64_t of_all() const { return alone + batches + given; }
};

// Requests of one unit each, which wait for batches as in store/leases.cpp.
class Traffic {
  public:
    Traffic(limit::Policy policy, std::size_t threads, Micros trip, std::uint64_t seed = 1)
        : policy_(std::move(policy)), trip_(trip), random_(seed) {
        threads_.resize(threads);
        for (std::size_t i = 0; i < threads; ++i) {
            threads_[i].table =
                std::make_unique<LeaseTable>([this, i](const limit::ChargeItem&, std::int64_t units,
                                                       const limit::Receipt& receipt) {
                    ++commands_.given;
                    push({.after = way(), .thread = i, .units = units, .receipt = receipt},
                         Event::Kind::give_back);
                });
            push({.after = Micros{1'000} * static_cast<std::int64_t>(i), .thread = i},
                 Event::Kind::tend);
        }
    }

    // Each thread gets a request every `gap` in the mean. Returns the commands of that time.
    Commands run(Micros time, Micros gap) {
        commands_ = {};
        const bool has_begun = std::exchange(gap_, gap) != 0us;
        const SteadyTime until = now_ + time;
        for (std::size_t i = 0; i < threads_.size() && !has_begun; ++i) {
            push({.after = between(), .thread = i}, Event::Kind::request);
        }
        while (events_.top().at < until) {
            Event event = events_.top();
            events_.pop();
            now_ = event.at;
            happen(event);
        }
        now_ = until;
        return commands_;
    }

  private:
    struct Event {
        enum class Kind : std::uint8_t { request, charge, answer, give_back, tend };
        Micros after{0};
        std::size_t thread = 0;
        Lease* lease = nullptr;  // null: a request by itself
        std::int64_t units = 0;
        limit::Verdict verdict{};
        limit::Receipt receipt{};
        SteadyTime at{};
        std::uint64_t number = 0;
        Kind kind = Kind::request;
        bool operator<(const Event& other) const {
            return std::pair(at, number) > std::pair(other.at, other.number);
        }
    };
    struct Thread {
        std::unique_ptr<LeaseTable> table;
        std::vector<bool> waiting;  // requests; true: it has waited twice
    };

    void push(Event event, Event::Kind kind) {
        event.kind = kind;
        event.at = now_ + event.after;
        event.number = ++last_;
        events_.push(std::move(event));
    }
    // A command's way to the store, or that of its answer.
    Micros way() { return trip_ / 4 + Micros{random_() % (trip_.count() / 2 + 1)}; }
    Micros between() { return Micros{1 + random_() % (2 * gap_.count())}; }
    Micros store_now() const {
        return std::chrono::duration_cast<Micros>(now_ - kBegin) + 1'000s + 123'457us;
    }

    void happen(Event& event) {
        Thread& thread = threads_[event.thread];
        switch (event.kind) {
            case Event::Kind::request:
                ++commands_.requests;
                request(event.thread);
                push({.after = between(), .thread = event.thread}, Event::Kind::request);
                break;
            case Event::Kind::charge:
                store_.charge({{&item_, 1}, event.units}, store_now(), event.verdict);
                event.after = way();
                if (event.lease != nullptr) push(std::move(event), Event::Kind::answer);
                break;
            case Event::Kind::answer:
                thread.table->answered(*event.lease, event.verdict, now_);
                for (const bool has_waited : std::exchange(thread.waiting, {})) {
                    if (event.lease->spend(1, now_)) continue;
                    if (has_waited || !wait(event.thread, *event.lease, true)) ask(event.thread);
                }
                break;
            case Event::Kind::give_back:
                store_.give_back({{{&item_, 1}, event.units}, &event.receipt}, store_now());
                break;
            case Event::Kind::tend:
                thread.table->end_batches(now_);
                push({.after = 50ms, .thread = event.thread}, Event::Kind::tend);
        }
    }
    void request(std::size_t thread) {
        Lease* const lease = threads_[thread].table->meet(item_, 1, nullptr, now_);
        REQUIRE(lease != nullptr);
        if (lease->spend(1, now_)) return;
        if (!wait(thread, *lease, false)) ask(thread);
    }
    bool wait(std::size_t at, Lease& lease, bool has_waited) {
        Thread& thread = threads_[at];
        if (!LeaseTable::promise(lease, 1)) {
            const auto threads = static_cast<std::int64_t>(threads_.size());
            const std::int64_t units = thread.table->wanted(lease, 1, threads, now_);
            if (units == 0) return false;
            thread.table->asked(lease, units, nullptr, now_);
            ++commands_.batches;
            push({.after = way(), .thread = at, .lease = &lease, .units = units},
                 Event::Kind::charge);
            if (!LeaseTable::promise(lease, 1)) return false;
        }
        thread.waiting.push_back(has_waited);
        return true;
    }
    void ask(std::size_t thread) {
        ++commands_.alone;
        push({.after = way(), .thread = thread, .units = 1}, Event::Kind::charge);
    }

    limit::Policy policy_;
    limit::ChargeItem item_{&policy_, "constant:all"};
    Micros trip_;
    Micros gap_{0};
    std::mt19937_64 random_;
    MemoryStore store_{MemoryStore::Options{}};
    std::vector<Thread> threads_;
    std::priority_queue<Event> events_;
    std::uint64_t last_ = 0;
    SteadyTime now_ = kBegin + 654'321us;
    Commands commands_;
};

}  // namespace

TEST_CASE("lease_table: a key gets few commands from its first interval on") {
    Traffic traffic(leased({test::window(60'000'000, 1min)}), 4, 200us);
    const Commands first = traffic.run(1s, 100us);
    CHECK(first.requests > 39'000);
    // Eight requests of each thread are charged by themselves, and batches grow fast.
    CHECK(first.alone <= 4 * 8);
    CHECK(first.of_all() <= 4 * 20);
}

TEST_CASE("lease_table: a sub-bucket of a second costs a thread four commands, rarely more") {
    Traffic traffic(leased({test::window(60'000'000, 1min)}), 4, 200us);
    traffic.run(1s, 100us);
    // Two batches, one of them in the last millisecond, and what is left of both.
    CHECK(traffic.run(3s, 100us).of_all() <= 4 * 3 * 5);
}

TEST_CASE("lease_table: a sub-bucket of a brief window costs a thread two commands at most") {
    Traffic traffic(leased({test::window(1'000'000, 1s)}), 4, 200us);
    traffic.run(500ms, 100us);
    const Commands commands = traffic.run(1s, 100us);
    CHECK(commands.alone <= 20);
    CHECK(commands.of_all() <= 4 * 50 * 2);
}

TEST_CASE("lease_table: units that are kept do not cut batches where threads may hold few") {
    // 50 units a thread, which has 40 requests in a sub-bucket.
    Traffic traffic(leased({test::window(20'000, 1s)}), 4, 200us);
    traffic.run(500ms, 500us);
    const Commands commands = traffic.run(1s, 500us);
    MESSAGE(commands.batches, " batches, ", commands.given, " give-backs");
    CHECK(commands.batches <= 4 * 50 * 2);
    CHECK(commands.of_all() <= 4 * 50 * 3);
}

}  // namespace tidegate::store::lease_commands_test

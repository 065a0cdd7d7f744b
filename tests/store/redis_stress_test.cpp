// Many connections at once on one Redis and few keys: nothing is admitted beyond a quota, and the
// store holds what the verdicts said. TIDEGATE_CHARGES says how many charges in all.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "store/charge_script.hpp"
#include "store/redis_asking.hpp"

namespace tidegate::test::redis_stress_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::LimitSpec;

constexpr std::size_t kClients = 8;
constexpr std::size_t kKeys = 64;
constexpr std::size_t kPipelined = 50;
constexpr std::int64_t kPerSecond = 300;
constexpr std::int64_t kInAll = 9'000;

std::uint64_t charges_in_all() {
    const char* const text = std::getenv("TIDEGATE_CHARGES");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 1'000'000;
}

limit::Limit bucket(std::int64_t quota, Micros duration) {
    LimitSpec spec;
    spec.algorithm = Algorithm::gcra;
    spec.quota = quota;
    spec.duration = duration;
    return made(spec);
}

// A policy that the fast path decides, and one that it does not.
struct Hot {
    limit::Policy windows = policy("w", {fixed(kPerSecond, 1s), fixed(kInAll, 87'600h)});
    limit::Policy mixed = policy("m", {bucket(kPerSecond, 1s), fixed(kInAll, 87'600h)});
    std::vector<std::string> names;

    Hot() {
        for (std::size_t i = 0; i < kKeys; ++i) names.push_back("user:" + std::to_string(i));
    }
    limit::ChargeItem item(std::size_t key) const {
        return {key % 2 == 0 ? &windows : &mixed, names[key]};
    }
};

// The times of all admissions, for each key.
using Admissions = std::vector<std::vector<std::int64_t>>;

// Charges single units, by the server's clock, over a connection of its own.
class Client {
  public:
    Client(const Hot& hot, std::uint64_t charges, std::uint64_t seed)
        : hot_(hot), charges_(charges), random_(seed), admissions(kKeys) {}

    void run() {
        RedisConnection connection(shared_server().port());
        std::vector<std::size_t> keys;
        for (std::uint64_t done = 0; done < charges_; done += keys.size()) {
            keys.clear();
            std::string commands;
            while (keys.size() < std::min<std::uint64_t>(kPipelined, charges_ - done)) {
                random_ = random_ * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
                keys.push_back(random_ >> 58);
                const limit::ChargeItem item = hot_.item(keys.back());
                const limit::Charge charge{{&item, 1}, 1};
                store::append_charge_command({&charge, 1}, "t:", std::nullopt, commands);
            }
            connection.send(commands);
            for (std::size_t key : keys) read(connection, key);
        }
    }

  private:
    void read(RedisConnection& connection, std::size_t key) {
        const Reply reply = connection.read();
        const limit::ChargeItem item = hot_.item(key);
        const limit::Charge charge{{&item, 1}, 1};
        limit::Verdict* const verdicts[] = {&verdict_};
        if (reply->type != REDIS_REPLY_STRING ||
            !store::read_charge_reply({reply->str, reply->len}, {&charge, 1}, verdicts)) {
            throw std::runtime_error("a reply that is no verdict");
        }
        if (verdict_.admitted) admissions[key].push_back(verdict_.receipt.at.count());
    }

    const Hot& hot_;
    std::uint64_t charges_;
    std::uint64_t random_;
    limit::Verdict verdict_;

  public:
    Admissions admissions;
    std::exception_ptr fault;
};

Admissions admitted_by_all(const Hot& hot, std::uint64_t charges) {
    std::vector<Client> clients;
    for (std::size_t i = 0; i < kClients; ++i) clients.emplace_back(hot, charges / kClients, i + 1);
    std::vector<std::thread> threads;
    for (Client& client : clients) {
        threads.emplace_back([&client] {
            try {
                client.run();
            } catch (...) {
                client.fault = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    Admissions all(kKeys);
    for (Client& client : clients) {
        if (client.fault) std::rethrow_exception(client.fault);
        for (std::size_t key = 0; key < kKeys; ++key) {
            all[key].insert(all[key].end(), client.admissions[key].begin(),
                            client.admissions[key].end());
        }
    }
    for (auto& moments : all) std::sort(moments.begin(), moments.end());
    return all;
}

// The most in any second of the clock.
std::int64_t most_in_a_second(const std::vector<std::int64_t>& moments) {
    std::map<std::int64_t, std::int64_t> seconds;
    std::int64_t most = 0;
    for (std::int64_t at : moments) most = std::max(most, ++seconds[at / 1'000'000]);
    return most;
}

// The fullest that a bucket of kPerSecond a second ever was, in units.
double fullest(const std::vector<std::int64_t>& moments) {
    double level = 0;
    double most = 0;
    std::int64_t before = 0;
    for (std::int64_t at : moments) {
        const double leaked = static_cast<double>(at - before) * kPerSecond / 1e6;
        level = std::max(0.0, level - leaked) + 1;
        most = std::max(most, level);
        before = at;
    }
    return most;
}

}  // namespace

TEST_CASE("redis: eight clients on 64 keys admit no more than the quotas, and the store knows") {
    RedisSubject redis;
    const Hot hot;
    const std::uint64_t charges = charges_in_all();
    const Admissions admitted = admitted_by_all(hot, charges);
    std::size_t sum = 0;
    for (std::size_t key = 0; key < kKeys; ++key) {
        CAPTURE(key);
        const auto& moments = admitted[key];
        sum += moments.size();
        CHECK(static_cast<std::int64_t>(moments.size()) <= kInAll);
        if (key % 2 == 0) {
            CHECK(most_in_a_second(moments) <= kPerSecond);
        } else {
            CHECK(fullest(moments) <= kPerSecond + 1e-6);
        }
        const limit::ChargeItem item = hot.item(key);
        const limit::Verdict verdict = redis.charge_by_server_clock({{&item, 1}, 0});
        CHECK(verdict.limits[1].remaining == kInAll - static_cast<std::int64_t>(moments.size()));
    }
    MESSAGE(charges << " charges, " << sum << " admitted");
    CHECK(sum > 0);
    CHECK(sum <= charges);
}

}  // namespace tidegate::test::redis_stress_test

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/counts_script.hpp"
#include "store/inspector.hpp"
#include "unit/store_asking.hpp"
#include "unit/store_redis.hpp"

namespace tidegate::store::inspector_test {
namespace {

using namespace std::chrono_literals;
using test::Words;

}  // namespace

TEST_CASE("inspector: a reset of many policies is several commands with one answer") {
    test::RedisFixture redis;
    redis.run();
    // Of each command the last key was there.
    std::vector<std::size_t> asked;
    redis.server.evalsha = [&](const Words& words) {
        asked.push_back(std::stoul(words.at(2)));
        std::string letters(asked.back(), '0');
        letters.back() = '1';
        return "$" + std::to_string(letters.size()) + "\r\n" + letters + "\r\n";
    };

    const auto some = test::policy("p", {test::window(5, 1s)});
    const std::vector<limit::Policy> policies(2 * kItemsCountedMax + 44, some);
    std::vector<limit::ChargeItem> items;
    for (const limit::Policy& policy : policies) items.push_back({&policy, "user:a"});
    std::optional<std::vector<bool>> forgotten;
    Inspector({redis.client, "tg:"}).forget(items, [&](auto answer) {
        if (answer) forgotten = std::move(*answer);
    });
    CHECK(redis.wait([&] { return forgotten.has_value(); }));
    CHECK(asked == std::vector<std::size_t>{kItemsCountedMax, kItemsCountedMax, 44});
    std::vector<bool> expected(items.size());
    expected[kItemsCountedMax - 1] = expected[2 * kItemsCountedMax - 1] = true;
    expected[items.size() - 1] = true;
    CHECK(forgotten == expected);
    redis.stop();
}

}  // namespace tidegate::store::inspector_test

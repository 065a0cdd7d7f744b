#include <memory>

#include <doctest/doctest.h>

#include "ask/credential_queue.hpp"
#include "net/asio.hpp"

namespace tidegate::ask::credential_queue_test {
namespace {

constexpr CredentialQueue::Key kOne{1};
constexpr CredentialQueue::Key kOther{2};

struct World {
    asio::io_context io{1};
    Wakeup first{io.get_executor()};
    Wakeup second{io.get_executor()};
    Wakeup third{io.get_executor()};
    CredentialQueue line;
};

TEST_CASE("credential_queue: of those with one credential the first goes on, then the next") {
    World world;
    auto first = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.first);
    auto second = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.second);
    auto third = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.third);
    CHECK(first->is_first());
    CHECK_FALSE(second->is_first());
    first.reset();
    CHECK(second->is_first());
    CHECK_FALSE(third->is_first());
    second.reset();
    CHECK(third->is_first());
}

TEST_CASE("credential_queue: credentials do not wait for one another") {
    World world;
    const CredentialQueue::Place first(world.line, kOne, world.first);
    const CredentialQueue::Place second(world.line, kOther, world.second);
    CHECK(first.is_first());
    CHECK(second.is_first());
}

TEST_CASE("credential_queue: a request that leaves moves up those behind it, no other") {
    World world;
    auto first = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.first);
    auto second = std::make_unique<CredentialQueue::Place>(world.line, kOne, world.second);
    const CredentialQueue::Place third(world.line, kOne, world.third);
    second.reset();
    CHECK(first->is_first());
    CHECK_FALSE(third.is_first());
    first.reset();
    CHECK(third.is_first());
}

}  // namespace
}  // namespace tidegate::ask::credential_queue_test

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "app/disposer.hpp"

namespace tidegate::app::disposer_test {
namespace {

// Tells which thread has destroyed it.
struct Destroyed {
    std::optional<std::thread::id> by;
};

Disposer::ConfigPtr config_that_tells(Destroyed& destroyed) {
    return {new config::Config, [&destroyed](const config::Config* config) {
                delete config;
                destroyed.by = std::this_thread::get_id();
            }};
}

TEST_CASE("disposer: the last owner lets go, and another thread destroys the configuration") {
    Destroyed destroyed;
    {
        Disposer disposer;
        Disposer::ConfigPtr config = disposer.adopt(config_that_tells(destroyed));
        const std::weak_ptr<const config::Config> used = config;
        const Disposer::ConfigPtr request = config;
        config.reset();
        CHECK_FALSE(used.expired());
    }
    // Its end waits for what it still has.
    REQUIRE(destroyed.by);
    CHECK(*destroyed.by != std::this_thread::get_id());
}

TEST_CASE("disposer: a configuration that outlives it is destroyed where it ends") {
    Destroyed destroyed;
    auto disposer = std::make_unique<Disposer>();
    Disposer::ConfigPtr config = disposer->adopt(config_that_tells(destroyed));
    disposer.reset();
    CHECK_FALSE(destroyed.by);
    config.reset();
    REQUIRE(destroyed.by);
    CHECK(*destroyed.by == std::this_thread::get_id());
}

TEST_CASE("disposer: none stays none") {
    CHECK(Disposer().adopt(nullptr) == nullptr);
}

}  // namespace
}  // namespace tidegate::app::disposer_test

#include <pthread.h>

#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "doctor/trial.hpp"

namespace tidegate::doctor::trial_test {

namespace {

// While it lives no thread can be had: each would need more of a stack than there are addresses.
class NoThreads {
  public:
    NoThreads() {
        REQUIRE(::pthread_getattr_default_np(&before_) == 0);
        pthread_attr_t huge;
        REQUIRE(::pthread_attr_init(&huge) == 0);
        REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 48) == 0);
        REQUIRE(::pthread_setattr_default_np(&huge) == 0);
        ::pthread_attr_destroy(&huge);
    }
    ~NoThreads() {
        ::pthread_setattr_default_np(&before_);
        ::pthread_attr_destroy(&before_);
    }
    NoThreads(const NoThreads&) = delete;
    NoThreads& operator=(const NoThreads&) = delete;

  private:
    pthread_attr_t before_;
};

Findings look_at(std::size_t count) {
    return in_parallel(count, [](std::size_t index) {
        if (index == 2) throw std::runtime_error("no descriptors");
        Findings findings(std::to_string(index));
        findings.ok("a", "well");
        return findings;
    });
}

void check_all(const Findings& found, std::size_t count) {
    REQUIRE(found.list().size() == count);
    for (std::size_t i = 0; i < count; ++i) {
        CHECK(found.list()[i].severity == (i == 2 ? Severity::fault : Severity::ok));
        if (i != 2) CHECK(found.list()[i].about == std::to_string(i));
    }
}

}  // namespace

TEST_CASE("parallel: findings are in order, and an exception is a fault") {
    check_all(look_at(0), 0);
    check_all(look_at(1), 1);
    check_all(look_at(100), 100);
}

TEST_CASE("parallel: without further threads every check still runs") {
    const NoThreads none;
    CHECK_THROWS_AS(std::thread([] {}).join(), std::system_error);
    check_all(look_at(40), 40);
}

}  // namespace tidegate::doctor::trial_test

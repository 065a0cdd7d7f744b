#include <doctest/doctest.h>

#include "app/descriptor_limit.hpp"

namespace tidegate::app::descriptor_limit_test {
namespace {

TEST_CASE("descriptors: clients leave enough for upstreams and the admin listener, and get half") {
    config::Config config;
    CHECK(descriptors_for_clients(1'024, 1, config) == 1'024 - 272);
    config.upstreams.resize(2);
    config.upstreams[0].max_connections = 100;
    config.upstreams[1].max_connections = 200;
    CHECK(descriptors_for_clients(4'096, 2, config) == 4'096 - 716);
    CHECK(descriptors_for_clients(100, 2, config) == 50);
    CHECK(descriptors_for_clients(0, 2, config) == 0);
}

}  // namespace
}  // namespace tidegate::app::descriptor_limit_test

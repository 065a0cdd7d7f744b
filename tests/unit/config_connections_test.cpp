#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_connections_test {

namespace {

config::Loaded load(const std::string& connections) {
    return config::load_text("upstream: http://127.0.0.1:1\nconnections: {" + connections + "}\n",
                             "c.yaml");
}

}  // namespace

TEST_CASE("config: an address has no bound on its connections unless one is written") {
    CHECK(load("max: 5").config->connections.per_ip == 0);
    CHECK(load("per_ip: 0").config->connections.per_ip == 0);
    CHECK(load("max: 5, per_ip: 5").config->connections.per_ip == 5);
    CHECK(load("max: 5, per_ip: 5").warnings.empty());
}

TEST_CASE("config: an address may open connections as fast as it likes, or so many in a second") {
    CHECK(load("max: 5").config->connections.new_per_ip == 0);
    CHECK(load("new_per_ip: off").config->connections.new_per_ip == 0);
    CHECK(load("new_per_ip: 20/s").config->connections.new_per_ip == 20);
    CHECK(load("new_per_ip: 1000000/s").config->connections.new_per_ip == 1'000'000);
    for (const std::string wrong : {"0/s", "1000001/s", "60/min", "20", "20/500ms"}) {
        CHECK(load("new_per_ip: " + wrong).config == nullptr);
    }
}

}  // namespace tidegate::config_connections_test

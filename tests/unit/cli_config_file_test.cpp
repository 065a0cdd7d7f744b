#include <string>

#include <doctest/doctest.h>

#include "cli/config_file.hpp"

namespace tidegate::cli::config_file_test {

namespace {

TEST_CASE("report: faults come before warnings, each with its place if it has one") {
    config::Loaded loaded;
    loaded.warnings.push_back({"t.yaml", 2, 1, "route `b` is never reached"});
    loaded.errors.push_back({"t.yaml", 7, 12, "`10/x` is no rate"});
    loaded.errors.push_back({"u.yaml", 0, 0, "there is no such file"});
    CHECK(report(loaded) ==
          "t.yaml:7:12: error: `10/x` is no rate\n"
          "u.yaml: error: there is no such file\n"
          "t.yaml:2:1: warning: route `b` is never reached\n");
    CHECK(summary(loaded) == "2 errors, 1 warning");
}

TEST_CASE("report: no name of a file or in it commands the terminal or makes a line of its own") {
    config::Loaded loaded;
    loaded.errors.push_back({"t\x1b[2J.yaml", 7, 12, "a\nu.yaml:1:1: error: b\u202e\x9b"});
    CHECK(report(loaded) ==
          "t\\x1b[2J.yaml:7:12: error: a\\x0au.yaml:1:1: error: b\\xe2\\x80\\xae\\x9b\n");
}

TEST_CASE("report: a valid configuration is summed up, in singular and plural") {
    const config::Loaded loaded =
        config::load_text("upstream: http://127.0.0.1:3000\nlimits: [10/s, 120/min]\n", "t.yaml");
    CHECK(report(loaded).empty());
    CHECK(summary(loaded) ==
          "ok: 1 route, 1 policy, 1 upstream, hash " + loaded.config->shown.hash);

    const config::Loaded guarded = config::load_text(
        "upstream: http://127.0.0.1:3000\nlimits: [10/s]\n"
        "identity: {failed_credentials: 20/min}\n",
        "t.yaml");
    // That of failed_credentials is none of `policies`.
    CHECK(summary(guarded).starts_with("ok: 1 route, 1 policy, 1 upstream"));

    config::Loaded empty{std::make_shared<const config::Config>(), {}, {}, {}};
    CHECK(summary(empty) == "ok: 0 routes, 0 policies, 0 upstreams");
}

}  // namespace

}  // namespace tidegate::cli::config_file_test

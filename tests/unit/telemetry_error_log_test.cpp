#include <unistd.h>

#include <regex>
#include <string>

#include <doctest/doctest.h>

#include "telemetry/error_log.hpp"

namespace tidegate::telemetry::error_log_test {
namespace {

// What `act` logs.
template <class Act>
std::string logged(Act&& act) {
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    flush_log();  // earlier lines are not ours
    const int saved = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
    act();
    flush_log();
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::string text;
    char piece[4096];
    for (ssize_t n = 0; (n = read(pipe_ends[0], piece, sizeof piece)) > 0;) {
        text.append(piece, static_cast<std::size_t>(n));
    }
    close(pipe_ends[0]);
    return text;
}

TEST_CASE("log: a line has its time in UTC, its level and its message") {
    const std::string text =
        logged([] { log(Level::warn, "redis {}: {}", "127.0.0.1:6379", "refused"); });
    CHECK(std::regex_match(text, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning )"
                                            "redis 127.0.0.1:6379: refused\n")));
}

TEST_CASE("log: messages below the level are not written") {
    set_log_level(Level::error);
    CHECK_FALSE(log_enabled(Level::warn));
    CHECK(log_enabled(Level::error));
    const std::string text = logged([] {
        log(Level::warn, "quiet");
        log_line(Level::warn, "quiet");
        log(Level::error, "loud");
    });
    set_log_level(Level::info);
    CHECK(text.find("quiet") == std::string::npos);
    CHECK(text.ends_with("error loud\n"));
}

TEST_CASE("log: text of a peer cannot begin a line of its own") {
    const std::string text = logged([] { log_line(Level::info, "a\nb\x1b[0m{}%v\x7f"); });
    CHECK(text.ends_with("info a\\x0ab\\x1b[0m{}%v\\x7f\n"));
    const std::string hidden =
        logged([] { log_line(Level::info, "\u00e9\u009b\x9b\u202e\u2028z"); });
    CHECK(hidden.ends_with("info \u00e9\\xc2\\x9b\\x9b\\xe2\\x80\\xae\\xe2\\x80\\xa8z\n"));
}

}  // namespace
}  // namespace tidegate::telemetry::error_log_test

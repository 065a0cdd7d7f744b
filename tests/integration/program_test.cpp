// The commands: a fault of the configuration is reported with its place, and with the exit code.
#include <signal.h>

#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/tidegate.hpp"
#include "places.hpp"

namespace tidegate::test::program_test {

namespace {

struct Broken {
    std::string yaml;
    std::string place;  // `line:column`
};

const Broken kBroken[] = {
    {"upstream: http://127.0.0.1:3000\nlimits: [10/s\n", "2:9"},
    {"upstream: http://127.0.0.1:3000\nlimit: [10/s]\n", "2:1"},
    {"upstream: http://127.0.0.1:3000\nlimits: [10/fortnight]\n", "2:10"},
    {"upstream: http://127.0.0.1:3000\nupstream: http://127.0.0.1:3001\n", "2:1"},
    {"upstream: http://127.0.0.1:3000\nthreads: many\n", "2:10"},
};

}  // namespace

TEST_CASE("program: a broken configuration is refused with its place, by run and by check") {
    const TemporaryFolder folder;
    for (const auto& [yaml, place] : kBroken) {
        CAPTURE(yaml);
        const auto file = folder.write("broken.yaml", yaml);
        for (const std::string command : {"run", "check"}) {
            const auto finished = run_tidegate({command, "-c", file});
            CHECK(finished.code == 1);
            const auto said = finished.output + finished.errors;
            CHECK_MESSAGE(said.find("broken.yaml:" + place + ": ") != std::string::npos, said);
        }
    }
}

TEST_CASE("program: check prints every fault of a file") {
    const TemporaryFolder folder;
    const auto file = folder.write("two.yaml",
                                   "upstream: http://127.0.0.1:3000\nthreads: many\n"
                                   "limits: [ten]\n");
    const auto finished = run_tidegate({"check", "-c", file});
    const auto said = finished.output + finished.errors;
    CHECK(finished.code == 1);
    CHECK(said.find("two.yaml:2:") != std::string::npos);
    CHECK(said.find("two.yaml:3:") != std::string::npos);
}

TEST_CASE("program: a file that is not there is named") {
    for (const std::string command : {"run", "check"}) {
        const auto finished = run_tidegate({command, "-c", "/nonexistent/tidegate.yaml"});
        CHECK(finished.code == 1);
        CHECK((finished.output + finished.errors).find("/nonexistent/tidegate.yaml") !=
              std::string::npos);
    }
}

TEST_CASE("program: the configurations that come with it are valid") {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/config")) {
        if (entry.path().extension() != ".yaml") continue;
        if (entry.path().filename() == "prices.yaml") continue;  // llm.yaml names it
        ++files;
        const auto finished = run_tidegate({"check", "-c", entry.path().string()});
        CHECK_MESSAGE(finished.code == 0, entry.path()
                                              << ": " << finished.output << finished.errors);
    }
    CHECK(files > 0);
    const auto docker = source_folder() + "/docker/tidegate.yaml";
    const auto finished = run_tidegate({"check", "-c", docker});
    CHECK_MESSAGE(finished.code == 0, finished.output << finished.errors);
}

TEST_CASE("program: help and version succeed, an unknown command does not") {
    CHECK(run_tidegate({"--help"}).code == 0);
    CHECK(run_tidegate({"--version"}).code == 0);
    CHECK(run_tidegate({"frobnicate"}).code != 0);
}

TEST_CASE("program: echo answers with the request it received") {
    const TemporaryFolder folder;
    const auto port = free_port();
    Process echo({program(), "echo", "--listen", "127.0.0.1:" + std::to_string(port)},
                 folder.path());
    const auto deadline = Clock::now() + kPatience;
    while (!Socket::try_connect(port)) {
        REQUIRE(echo.running());
        REQUIRE(Clock::now() < deadline);
        std::this_thread::sleep_for(milliseconds{5});
    }
    RawClient client(port);
    const auto answer = client.ask(post_request("/path?q=1", "the body", "X-Field: value\r\n"));
    CHECK(answer.status() == 200);
    for (const std::string part : {"POST", "/path?q=1", "the body", "value"})
        CHECK_MESSAGE(answer.body.find(part) != std::string::npos, answer.body);
    CHECK(client.get().status() == 200);
    echo.signal(SIGTERM);
    CHECK(echo.wait(kPatience) == 0);
}

}  // namespace tidegate::test::program_test

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "app/access_logs_trace_exporter.hpp"

namespace tidegate::app::access_logs_trace_exporter_test {
namespace {

struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "logs-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }

    config::LogSettings log(const std::string& name, LogFormat format = LogFormat::json) const {
        config::LogSettings settings;
        settings.access_path = (path / name).string();
        settings.access_format = format;
        return settings;
    }
    std::string text(const std::string& name) const {
        std::ifstream file(path / name);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    std::filesystem::path path;
};

void write(telemetry::AccessLog& log, std::string_view id) {
    telemetry::RequestRecord record;
    record.request_id = id;
    record.method = "GET";
    record.path = "/";
    record.status = 200;
    log.write(0, record);
}

// Logs that have ended are written to their ends on threads of their own.
template <class Holds>
bool holds_soon(Holds holds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (!holds() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return holds();
}

TEST_CASE("access_logs: one path is one log, which takes on another form") {
    const Folder folder;
    AccessLogs logs(1);
    auto first = logs.open(folder.log("a"));
    logs.use(first, folder.log("a"));
    write(*first, "one");
    const auto again = logs.open(folder.log("a", LogFormat::text));
    CHECK(again == first);
    logs.use(again, folder.log("a", LogFormat::text));
    write(*first, "two");
    first.reset();
}

TEST_CASE("access_logs: a former log takes lines while a request holds it, then it ends whole") {
    const Folder folder;
    AccessLogs logs(1);
    auto first = logs.open(folder.log("a"));
    logs.use(first, folder.log("a"));
    const auto second = logs.open(folder.log("b"));
    logs.use(second, folder.log("b"));
    logs.sweep();
    write(*first, "late");
    first.reset();
    logs.sweep();
    CHECK(holds_soon([&] { return folder.text("a").find("late") != std::string::npos; }));
    CHECK(logs.open(folder.log("b")) == second);
    write(*second, "new");
    CHECK(logs.dropped() == 0);
}

TEST_CASE("access_logs: one that was opened for nothing is closed, and the one in force stays") {
    const Folder folder;
    AccessLogs logs(1);
    logs.use(logs.open(folder.log("a")), folder.log("a"));
    const std::weak_ptr<telemetry::AccessLog> used = logs.open(folder.log("a"));
    const std::weak_ptr<telemetry::AccessLog> unused = logs.open(folder.log("b"));
    logs.sweep();
    CHECK_FALSE(used.expired());
    CHECK(holds_soon([&] { return unused.expired(); }));
}

TEST_CASE("access_logs: `off` opens no log, and a path that cannot be opened is named") {
    const Folder folder;
    AccessLogs logs(1);
    CHECK(logs.open({.access_path = ""}) == nullptr);
    logs.use(nullptr, {.access_path = ""});
    try {
        logs.open(folder.log("missing/a"));
        FAIL("it was opened");
    } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("missing/a") != std::string::npos);
    }
}

}  // namespace
}  // namespace tidegate::app::access_logs_trace_exporter_test

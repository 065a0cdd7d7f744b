#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/access_log.hpp"

namespace tidegate::telemetry::access_log_test {
namespace {

// A folder of its own that goes with its contents.
class Folder {
  public:
    Folder() {
        std::string name = "/tmp/tidegate-test-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() {
        for (const char* file : {"log", "old", "pipe"}) std::remove(file_path(file).c_str());
        rmdir(path_.c_str());
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string file_path(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t lines_in(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

RequestRecord record_of(Outcome outcome) {
    RequestRecord record;
    record.path = "/x";
    record.outcome = outcome;
    return record;
}

// Redirects standard output while this lives.
class StandardOutput {
  public:
    explicit StandardOutput(int fd) : saved_(dup(STDOUT_FILENO)) { dup2(fd, STDOUT_FILENO); }
    ~StandardOutput() {
        dup2(saved_, STDOUT_FILENO);
        close(saved_);
    }
    StandardOutput(const StandardOutput&) = delete;
    StandardOutput& operator=(const StandardOutput&) = delete;

  private:
    int saved_;
};

TEST_CASE("access_log: lines written before the end are in the file, in the order of each thread") {
    const Folder folder;
    const std::string path = folder.file_path("log");
    {
        AccessLog log({.path = path, .format = LogFormat::text}, 2);
        std::vector<std::thread> threads;
        for (std::size_t thread = 0; thread < 2; ++thread) {
            threads.emplace_back([&log, thread] {
                for (int i = 0; i < 500; ++i) {
                    RequestRecord record;
                    const std::string name = std::to_string(thread);
                    const std::string id = std::to_string(i);
                    record.client = name;
                    record.path = id;
                    log.write(thread, record);
                }
            });
        }
        for (auto& thread : threads) thread.join();
    }
    std::ifstream file(path);
    int next[2] = {0, 0};
    for (std::string line; std::getline(file, line);) {
        const auto thread = static_cast<std::size_t>(line[0] - '0');
        REQUIRE(thread < 2);
        CHECK(line.find("\"- " + std::to_string(next[thread]++) + " HTTP") != std::string::npos);
    }
    CHECK(next[0] == 500);
    CHECK(next[1] == 500);
}

TEST_CASE("access_log: a pipe gets the lines when a program reads it, else it cannot be opened") {
    const Folder folder;
    const std::string path = folder.file_path("pipe");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK_THROWS_WITH(AccessLog({.path = path}, 1),
                      ("cannot open access log " + path + ": no program reads this pipe").c_str());
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    {
        AccessLog log({.path = path}, 1);
        log.write(0, record_of({}));
        // Without a reader the pipe cannot be opened anew: what is open goes on.
        log.reopen();
        log.write(0, record_of({}));
    }
    std::array<char, 65'536> bytes;
    const ssize_t size = ::read(reader, bytes.data(), bytes.size());
    REQUIRE(size > 0);
    CHECK(lines_in({bytes.data(), static_cast<std::size_t>(size)}) == 2);
    ::close(reader);
}

TEST_CASE("access_log: the file is appended to, and not every user may read it") {
    const Folder folder;
    const std::string path = folder.file_path("log");
    for (int run = 0; run < 2; ++run) AccessLog({.path = path}, 1).write(0, record_of({}));
    CHECK(lines_in(contents(path)) == 2);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0007) == 0);
}

TEST_CASE("access_log: a path that cannot be opened is named") {
    try {
        const AccessLog log({.path = "/no/such/folder/log"}, 1);
        FAIL("opened");
    } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("/no/such/folder/log") != std::string::npos);
    }
}

TEST_CASE("access_log: without a path nothing is written") {
    AccessLog log({.path = ""}, 1);
    log.write(0, record_of(Outcome::failed));
    log.reopen();
    CHECK(log.dropped() == 0);
}

TEST_CASE("access_log: a sample leaves out ordinary lines only") {
    const Folder folder;
    const std::string path = folder.file_path("log");
    const auto lines_with = [&](double sample) {
        std::remove(path.c_str());
        {
            AccessLog log({.path = path, .sample = sample, .ring_bytes = 8 << 20}, 1);
            for (int i = 0; i < 2'000; ++i) log.write(0, record_of(Outcome::forwarded));
            for (const auto outcome : {Outcome::limited, Outcome::rejected, Outcome::failed,
                                       Outcome::unavailable, Outcome::aborted}) {
                log.write(0, record_of(outcome));
            }
            RequestRecord broken = record_of(Outcome::forwarded);
            broken.error = "upstream: connection reset";
            log.write(0, broken);
            CHECK(log.dropped() == 0);
        }
        return lines_in(contents(path));
    };
    CHECK(lines_with(0.0) == 6);
    CHECK(lines_with(1.0) == 2'006);
    const std::size_t half = lines_with(0.5);
    CHECK(half > 900);
    CHECK(half < 1'100);
}

TEST_CASE("access_log: a ring that is full drops lines, counts them, and keeps the others whole") {
    const Folder folder;
    const std::string path = folder.file_path("log");
    std::uint64_t dropped = 0;
    {
        AccessLog log({.path = path, .ring_bytes = 1024}, 1);
        for (int i = 0; i < 10'000; ++i) log.write(0, record_of(Outcome::limited));
        dropped = log.dropped();
    }
    const std::string text = contents(path);
    CHECK(dropped > 0);
    CHECK(lines_in(text) + dropped == 10'000);
    CHECK(text.ends_with("}\n"));
}

TEST_CASE("access_log: after the file was moved away, reopening makes a new one") {
    const Folder folder;
    const std::string path = folder.file_path("log");
    const std::string old = folder.file_path("old");
    {
        AccessLog log({.path = path}, 1);
        log.write(0, record_of({}));
        while (lines_in(contents(path)) < 1) std::this_thread::yield();
        REQUIRE(std::rename(path.c_str(), old.c_str()) == 0);
        log.reopen();
        while (access(path.c_str(), F_OK) != 0) std::this_thread::yield();
        log.write(0, record_of({}));
    }
    CHECK(lines_in(contents(old)) == 1);
    CHECK(lines_in(contents(path)) == 1);
}

TEST_CASE("access_log: a reader that has gone costs lines, not the program") {
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    close(pipe_ends[0]);
    const StandardOutput redirected(pipe_ends[1]);
    close(pipe_ends[1]);
    AccessLog log({}, 1);
    for (int i = 0; i < 3; ++i) log.write(0, record_of({}));
    while (log.dropped() < 3) std::this_thread::yield();
    CHECK(log.dropped() == 3);
}

TEST_CASE("access_log: a disk that is full costs lines, not the program") {
    AccessLog log({.path = "/dev/full"}, 1);
    for (int i = 0; i < 3; ++i) log.write(0, record_of({}));
    while (log.dropped() < 3) std::this_thread::yield();
    CHECK(log.dropped() == 3);
}

TEST_CASE("access_log: a reader that stalls does not keep the program from ending") {
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const std::string a_line_longer_than_the_pipe(1024, 'x');
    const auto before = std::chrono::steady_clock::now();
    {
        const StandardOutput redirected(pipe_ends[1]);
        AccessLog log({.stop_patience = std::chrono::milliseconds(20)}, 1);
        RequestRecord record = record_of({});
        record.path = a_line_longer_than_the_pipe;
        for (int i = 0; i < 500; ++i) log.write(0, record);
    }
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(10));
    close(pipe_ends[0]);  // ends the writer's system call
    close(pipe_ends[1]);
}

TEST_CASE("log_output: a line torn by an error is ended before the next one begins") {
    int pipe_ends[2];
    REQUIRE(pipe2(pipe_ends, O_NONBLOCK) == 0);
    const StandardOutput redirected(pipe_ends[1]);
    LogOutput output("-", std::chrono::milliseconds(5));
    const std::string lines = std::string(100'000, 'x') + "\n" + std::string(10, 'y') + "\n";
    CHECK(output.write({lines, "z\n"}) == 3);

    std::string read_back(200'000, '\0');
    read_back.resize(static_cast<std::size_t>(read(pipe_ends[0], read_back.data(), 200'000)));
    CHECK(read_back == std::string(read_back.size(), 'x'));
    CHECK(output.write({"next\n", ""}) == 0);
    char next[16];
    const ssize_t n = read(pipe_ends[0], next, sizeof next);
    REQUIRE(n > 0);
    CHECK(std::string(next, static_cast<std::size_t>(n)) == "\nnext\n");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

}  // namespace
}  // namespace tidegate::telemetry::access_log_test

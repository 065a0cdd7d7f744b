#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "app/file_watch.hpp"

namespace tidegate::app::file_watch_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

SteadyTime at(SteadyTime::duration since_start) {
    return SteadyTime{} + 1h + since_start;
}

// What a look finds, without files.
FileStamps found(std::uint64_t certificate, std::uint64_t key) {
    return {{.path = "c.pem", .inode = certificate}, {.path = "c.key", .inode = key}};
}

struct Folder {
    Folder() {
        std::string name = (fs::temp_directory_path() / "watch-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name) << text;
        return (path / name).string();
    }

    fs::path path;
};

TEST_CASE("file_watch: a change is reported once, when looks have found the same for a while") {
    SettledChange change(200ms);
    CHECK_FALSE(change.is_due(found(1, 1), at(0ms)));
    CHECK(change.is_settling());
    CHECK_FALSE(change.is_due(found(1, 1), at(199ms)));
    CHECK(change.is_due(found(1, 1), at(200ms)));  // perhaps it is not what was read at the start
    CHECK_FALSE(change.is_settling());
    for (int i = 0; i < 5; ++i) CHECK_FALSE(change.is_due(found(1, 1), at(1s * i + 1s)));
    // The key comes after its certificate.
    CHECK_FALSE(change.is_due(found(2, 1), at(10'000ms)));
    CHECK_FALSE(change.is_due(found(2, 2), at(10'150ms)));
    CHECK_FALSE(change.is_due(found(2, 2), at(10'300ms)));
    CHECK(change.is_due(found(2, 2), at(10'350ms)));
    CHECK_FALSE(change.is_due(found(2, 2), at(20s)));
}

TEST_CASE("file_watch: without events, two looks make a change settled") {
    SettledChange change(kCertificatesSettle);
    CHECK_FALSE(change.is_due(found(1, 1), at(0s)));
    CHECK(change.is_due(found(1, 1), at(kLookEvery)));
    CHECK_FALSE(change.is_due(found(2, 1), at(2 * kLookEvery)));
    CHECK(change.is_due(found(2, 1), at(3 * kLookEvery)));
}

TEST_CASE("file_watch: a change that could not be put in force is reported again, in a minute") {
    SettledChange change(200ms);
    change.is_due(found(1, 1), at(0s));
    REQUIRE(change.is_due(found(1, 1), at(5s)));
    change.retry(at(5s));
    CHECK_FALSE(change.is_due(found(1, 1), at(60s)));
    CHECK(change.is_due(found(1, 1), at(65s)));
    CHECK_FALSE(change.is_due(found(1, 1), at(200s)));
    // Another change does not wait for it.
    change.retry(at(200s));
    CHECK_FALSE(change.is_due(found(2, 1), at(201s)));
    CHECK(change.is_due(found(2, 1), at(202s)));
    CHECK_FALSE(change.is_due(found(2, 1), at(300s)));
}

TEST_CASE("file_watch: a change that is taken back before it settles is not reported") {
    SettledChange change(200ms);
    change.is_due(found(1, 1), at(0s));
    change.is_due(found(1, 1), at(5s));
    CHECK_FALSE(change.is_due(found(2, 1), at(10s)));
    CHECK_FALSE(change.is_due(found(1, 1), at(10'100ms)));
    CHECK_FALSE(change.is_due(found(1, 1), at(15s)));
}

TEST_CASE("file_watch: without files there is nothing to tell, with others there is") {
    SettledChange change(200ms);
    for (int i = 0; i < 3; ++i) CHECK_FALSE(change.is_due({}, at(5s * i)));
    // A reload names some.
    CHECK_FALSE(change.is_due(found(1, 1), at(20s)));
    CHECK(change.is_due(found(1, 1), at(25s)));
    CHECK_FALSE(change.is_due({}, at(30s)));
    CHECK(change.is_due({}, at(35s)));
}

TEST_CASE("folder events: a file that is written or renamed ends the wait, at once") {
    const Folder folder;
    asio::io_context io{1};
    FolderEvents events(io.get_executor());
    events.open();
    events.watch({folder.path.string(), (folder.path / "none").string()});
    int waits = 0;
    const auto wait = [&](std::chrono::milliseconds time) {
        spawn(io.get_executor(), events.wait(time), [&](const std::exception_ptr& failure) {
            ++waits;
            if (failure) std::rethrow_exception(failure);
        });
        while (waits == 0 && io.run_one() > 0) {
        }
        waits = 0;
    };
    wait(0ms);  // the first is a pause
    folder.write("a", "one");
    wait(1h);
    wait(0ms);  // as one after an event
    fs::rename(folder.path / "a", folder.path / "b");
    wait(1h);
}

TEST_CASE("folder events: files and patterns are looked for in their folders") {
    CHECK(folders_of({"/etc/t/a.yaml", "/etc/t/b.yaml", "c.yaml", "conf.d/*.yaml",
                      "/x/*/y/z.yaml"}) == std::vector<std::string>{".", "/etc/t", "/x", "conf.d"});
}

TEST_CASE("file_watch: files are distinguished by their stamps, not by their paths") {
    const Folder folder;
    const std::string path = folder.write("a.pem", "one");
    const FileStamps before = look_at({path});
    REQUIRE(before.size() == 1);
    CHECK(before[0].size == 3);
    CHECK(look_at({path}) == before);
    folder.write("a.pem", "four");
    CHECK(look_at({path}) != before);
    // A file of the same size and time in its place.
    const FileStamps rewritten = look_at({path});
    const auto time = fs::last_write_time(path);
    fs::rename(folder.write("b.pem", "five"), path);
    fs::last_write_time(path, time);
    CHECK(look_at({path}) != rewritten);
}

TEST_CASE("file_watch: a link that is swapped is a change, and so is a file that goes") {
    const Folder folder;
    fs::create_directory(folder.path / "1");
    fs::create_directory(folder.path / "2");
    folder.write("1/tls.crt", "same");
    folder.write("2/tls.crt", "same");
    // As Kubernetes mounts secrets: the file is a link through a link to a folder.
    fs::create_directory_symlink("1", folder.path / "..data");
    fs::create_symlink("..data/tls.crt", folder.path / "tls.crt");
    const std::string path = (folder.path / "tls.crt").string();
    const FileStamps before = look_at({path});
    CHECK(before[0].size == 4);
    fs::create_directory_symlink("2", folder.path / "..new");
    fs::rename(folder.path / "..new", folder.path / "..data");
    const FileStamps after = look_at({path});
    CHECK(after != before);
    fs::remove(folder.path / "2" / "tls.crt");
    const FileStamps gone = look_at({path});
    CHECK(gone != after);
    CHECK(gone == FileStamps{{.path = path}});
}

}  // namespace
}  // namespace tidegate::app::file_watch_test

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "app/certificate_watch.hpp"

namespace tidegate::app {
namespace {

namespace fs = std::filesystem;

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

TEST_CASE("certificate_watch: a change is reported once, when two looks have found the same") {
    SettledChange change;
    CHECK_FALSE(change.is_due(found(1, 1)));
    CHECK(change.is_due(found(1, 1)));  // perhaps it is not what was read at the start
    for (int i = 0; i < 5; ++i) CHECK_FALSE(change.is_due(found(1, 1)));
    // The key comes after its certificate.
    CHECK_FALSE(change.is_due(found(2, 1)));
    CHECK_FALSE(change.is_due(found(2, 2)));
    CHECK(change.is_due(found(2, 2)));
    CHECK_FALSE(change.is_due(found(2, 2)));
}

TEST_CASE(
    "certificate_watch: a change that could not be put in force is reported again, in a while") {
    SettledChange change;
    change.is_due(found(1, 1));
    REQUIRE(change.is_due(found(1, 1)));
    for (int times = 0; times < 2; ++times) {
        change.retry();
        for (int i = 1; i < SettledChange::kRetryLooks; ++i)
            CHECK_FALSE(change.is_due(found(1, 1)));
        CHECK(change.is_due(found(1, 1)));
    }
    for (int i = 0; i < 20; ++i) CHECK_FALSE(change.is_due(found(1, 1)));
    // Another change does not wait for it.
    change.retry();
    CHECK_FALSE(change.is_due(found(2, 1)));
    CHECK(change.is_due(found(2, 1)));
    for (int i = 0; i < 20; ++i) CHECK_FALSE(change.is_due(found(2, 1)));
}

TEST_CASE("certificate_watch: a change that is taken back before it settles is none") {
    SettledChange change;
    change.is_due(found(1, 1));
    change.is_due(found(1, 1));
    CHECK_FALSE(change.is_due(found(2, 1)));
    CHECK_FALSE(change.is_due(found(1, 1)));
    CHECK_FALSE(change.is_due(found(1, 1)));
}

TEST_CASE("certificate_watch: without files there is nothing to tell, with others there is") {
    SettledChange change;
    for (int i = 0; i < 3; ++i) CHECK_FALSE(change.is_due({}));
    // A reload names some.
    CHECK_FALSE(change.is_due(found(1, 1)));
    CHECK(change.is_due(found(1, 1)));
    CHECK_FALSE(change.is_due({}));
    CHECK(change.is_due({}));
}

TEST_CASE("certificate_watch: files are distinguished by their stamps, not by their paths") {
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

TEST_CASE("certificate_watch: a link that is swapped is a change, and so is a file that goes") {
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
}  // namespace tidegate::app

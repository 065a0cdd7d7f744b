#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/files_read.hpp"

namespace tidegate::config::include_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMain =
    "include: [\"conf.d/*.yaml\"]\n"
    "upstreams: {main: {servers: [http://127.0.0.1:3000]}}\n"
    "policies: {main: {key: [ip], limits: [10/s]}}\n"
    "routes:\n"
    "  - {name: last, upstream: main, policies: [main]}\n";

std::optional<std::string> no_variable(std::string_view) {
    return std::nullopt;
}

struct Folder {
    Folder() {
        std::string name = (fs::temp_directory_path() / "include-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
        fs::create_directory(path / "conf.d");
        write("tidegate.yaml", kMain);
    }
    ~Folder() { fs::remove_all(path); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name) << text;
    }
    std::string file(const std::string& name) const { return (path / name).string(); }
    Loaded load() const { return load_file(file("tidegate.yaml"), no_variable); }

    fs::path path;
};

std::string route(const std::string& name, const std::string& path) {
    return "  - {name: " + name + ", match: {path: " + path +
           "}, upstream: main, policies: [main]}\n";
}

TEST_CASE(
    "include: files are read in the order of their bytes, their routes before the main ones") {
    const Folder folder;
    folder.write("conf.d/b.yaml", "routes:\n" + route("b", "/b"));
    folder.write("conf.d/a.yaml", "routes:\n" + route("a1", "/a1") + route("a2", "/a2"));
    folder.write("conf.d/B.yaml", "routes:\n" + route("upper", "/upper"));
    folder.write("conf.d/.hidden.yaml", "nonsense");
    folder.write("conf.d/notes.txt", "nonsense");
    const Loaded loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    std::vector<std::string> names;
    for (const Route& one : loaded.config->routes) names.push_back(one.name);
    CHECK(names == std::vector<std::string>{"upper", "a1", "a2", "b", "last"});
}

TEST_CASE("include: upstreams and policies of all files know each other") {
    const Folder folder;
    folder.write("conf.d/a.yaml",
                 "upstreams: {a: {servers: [http://127.0.0.1:3001]}}\n"
                 "policies: {a: {key: [ip], limits: [5/s]}}\n");
    folder.write("conf.d/b.yaml",
                 "routes: [{match: {path: /b}, upstream: a, policies: [a, main]}]\n");
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->upstreams.size() == 2);
    CHECK(loaded.config->routes.front().policies.size() == 2);
    CHECK(loaded.warnings.empty());
}

TEST_CASE("include: no file, an empty one and a file that two patterns name are right") {
    const Folder folder;
    CHECK(folder.load().config != nullptr);
    folder.write("conf.d/empty.yaml", "# nothing yet\n");
    CHECK(folder.load().config != nullptr);
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    std::string text = kMain;
    text.replace(0, text.find('\n'), "include: [\"conf.d/*.yaml\", conf.d/a.yaml]");
    folder.write("tidegate.yaml", text);
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->routes.size() == 2);
}

TEST_CASE("include: paths in an included file are relative to its folder") {
    const Folder folder;
    folder.write("conf.d/a.yaml",
                 "upstreams: {a: {servers: [https://127.0.0.1:3001], tls: {ca: none.pem}}}\n");
    const Loaded loaded = folder.load();
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors[0].message.find("`none.pem` cannot be read") != std::string::npos);
    const std::string wanted = folder.file("conf.d/none.pem");
    bool is_noted = false;
    for (const FileRead& one : loaded.files_read) is_noted = is_noted || one.path == wanted;
    CHECK(is_noted);
}

TEST_CASE("include: a renewal of certificates takes the files as they were read") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    folder.write("conf.d/a.yaml", "routes: wrong\n");
    const Loaded again = reread(*loaded.config, no_variable);
    REQUIRE(again.config != nullptr);
    CHECK(again.config->routes.size() == 2);
}

TEST_CASE("files read: a change of any of them is found, and a new file of a pattern") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    std::vector<FileRead> files = folder.load().files_read;
    CHECK(are_unchanged(files));
    folder.write("tidegate.yaml", kMain);  // the same
    CHECK(are_unchanged(files));
    folder.write("conf.d/a.yaml", "routes:\n" + route("b", "/b"));
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;
    CHECK(are_unchanged(files));
    folder.write("conf.d/b.yaml", "");
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;
    fs::remove(folder.path / "tidegate.yaml");
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;  // a fault: there is none
    CHECK(are_unchanged(files));
    folder.write("tidegate.yaml", kMain);
    CHECK_FALSE(are_unchanged(files));
}

}  // namespace
}  // namespace tidegate::config::include_test
